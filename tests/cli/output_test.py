"""Every command fails when stdout does not take what it prints, and ends quietly when nobody reads it."""

import os
import resource
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]


class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        (cls.folder / "text.txt").write_text("a line of a small text about thin wires\n" * 500)
        recipe = cls.folder / "recipe.toml"
        recipe.write_text("\n".join([
            f'data.dir = "{cls.folder}/tokens"', f'data.text = ["{cls.folder}/text.txt"]',
            'data.document = "line"', 'data.vocabulary = "byte"', "data.validation_block = 4",
            f'run.dir = "{cls.folder}/run"', "model.hidden = 16", "model.layers = 1", "model.heads = 1",
            "train.steps = 2", "train.batch = 2", "train.workers = 1", "train.sequence = 16"]))
        prepare = ["prepare", recipe]
        train = ["train", recipe]
        for command in (prepare, train):
            subprocess.run([BINARY, *command], check=True, capture_output=True)
        run = cls.folder / "run"
        cls.commands = [
            ["--help"], ["--version"], ["train", "--help"], ["plan", "--help"],
            ["recipe"], ["recipe", "--explain"], ["recipe", recipe],
            ["completion", "bash"], ["completion", "zsh"], ["completion", "fish"],
            ["compare", run], ["compare", run, "--csv"], ["compare", run, "--json"],
            ["inspect", run], ["plan", "distro"], ["plan", "efficiency"], ["plan", "utilization"],
            ["bench", "speed", recipe, "model.vocab=258", "--steps", "1", "--warmup", "0"],
            ["generate", run, "--tokens", "3", "--prompt", "wire"], prepare, train]

    def test_a_full_device_is_a_failure_with_a_reason(self):
        for command in self.commands:
            with self.subTest(command=command), open("/dev/full", "w") as full:
                done = subprocess.run([BINARY, *command], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("thinwire: cannot write to standard output: No space left on device\n",
                              done.stderr)

    def test_a_file_beyond_the_limit_on_files_is_a_failure_with_a_reason(self):
        limit = 4096
        done = subprocess.run(
            [BINARY, "prepare", self.folder / "recipe.toml", f"data.dir={self.folder}/limited"],
            capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertFalse((self.folder / "limited").exists())

    def unread(self, command, **options):
        reading, writing = os.pipe()
        os.close(reading)
        try:
            return subprocess.run([BINARY, *command], stdout=writing, stderr=subprocess.PIPE, text=True,
                                  **options)
        finally:
            os.close(writing)

    def test_ends_quietly_when_nobody_reads(self):
        for command in (["recipe", "--explain"], ["--help"], ["completion", "zsh"]):
            for restore in (True, False):  # whether SIGPIPE does what it does by default, or is ignored
                with self.subTest(command=command, restore=restore):
                    done = self.unread(command, restore_signals=restore)
                    self.assertEqual(done.returncode, -signal.SIGPIPE)
                    self.assertEqual(done.stderr, "")

    def test_what_printed_nothing_needs_no_stdout(self):
        done = subprocess.run(f'"{BINARY}" recipe no/such.toml >&-', shell=True, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no/such.toml", done.stderr)

    def test_errors_of_the_file_system_are_told_in_plain_words(self):
        recipe = self.folder / "recipe.toml"
        done = subprocess.run([BINARY, "train", recipe, f"run.dir={recipe}/run"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"thinwire: cannot create folder {recipe}/run: Not a directory\n")


if __name__ == "__main__":
    unittest.main()
