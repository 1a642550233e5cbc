"""--quiet: errors and the result, nothing else."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]


class Quiet(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "text.txt").write_text("".join(
            f"line {i} of a small text about thin wires\n" for i in range(600)))
        (self.folder / "recipe.toml").write_text(f"""
            [data]
            dir = "{self.folder}/tokens"
            text = ["{self.folder}/text.txt"]
            document = "line"
            vocabulary = "byte"
            validation_block = 4
            [model]
            hidden = 32
            layers = 1
            heads = 2
            [train]
            steps = 3
            sequence = 16
            batch = 2
            """)

    def call(self, command, *arguments):
        return subprocess.run([BINARY, command, self.folder / "recipe.toml", *arguments],
                              capture_output=True, text=True, check=False, cwd=self.folder)

    def test_shows_the_result_alone(self):
        for command, result in (("prepare", "vocabulary"), ("train", "training loss")):
            with self.subTest(command=command):
                done = self.call(command, "--quiet")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(result, done.stdout)

    def test_shows_errors(self):
        done = self.call("train", "--quiet")
        self.assertEqual(done.returncode, 1)
        self.assertIn("thinwire: ", done.stderr)

    def test_without_it_a_start_is_announced(self):
        self.call("prepare")
        stderr = self.call("train").stderr
        self.assertIn("run: allreduce, 1 worker x 1 thread, fp32 on cpu", stderr)
        self.assertIn("checkpoints: every 5 min, at the end", stderr)


if __name__ == "__main__":
    unittest.main()
