"""thinwire compare over a folder of runs, some of which are not finished."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]


class CompareCommand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        (cls.folder / "text.txt").write_text("a line of a small text about thin wires\n" * 500)
        (cls.folder / "recipe.toml").write_text("")
        fields = [f"data.dir={cls.folder}/tokens", f"data.text={cls.folder}/text.txt", "data.document=line",
                  "data.vocabulary=byte", "data.validation_block=4", f"run.dir={cls.folder}/runs/done",
                  "model.hidden=16", "model.layers=1", "model.heads=1", "train.steps=15", "train.batch=4",
                  "train.sequence=16", "train.workers=4", "sync.method=diloco", "sync.within=allreduce",
                  "sync.clusters=2", "diloco.sync_every=5"]
        for command in ("prepare", "train"):
            done = subprocess.run([BINARY, command, cls.folder / "recipe.toml", *fields], check=True,
                                  capture_output=True, text=True)
        cls.trained = done.stdout
        shutil.copytree(cls.folder / "runs/done", cls.folder / "runs/open")
        (cls.folder / "runs/open/summary.json").unlink()
        (cls.folder / "runs/notes.txt").touch()

    def compare(self, *names):
        return subprocess.run([BINARY, "compare", *(f"runs/{name}" for name in names)], cwd=self.folder,
                              capture_output=True, text=True)

    def test_shows_what_is_finished_and_says_why_the_rest_is_left_out(self):
        done = self.compare("done", "notes.txt", "open")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "left out: runs/notes.txt: not a run folder\n"
                                      "left out: runs/open: at step 15 of 15, not finished\n")
        self.assertIn("\ndiloco (within: allreduce)  ", done.stdout)
        self.assertIn("train loss: mean of the last 2 steps.\n", done.stdout)

    def test_nothing_finished_is_a_failure(self):
        done = self.compare("open", "notes.txt")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertIn("thinwire: no finished run among these to compare\n", done.stderr)
        self.assertEqual(self.compare("done", "no-such-run").returncode, 1)

    def test_training_says_what_its_loss_is_and_how_long_it_took(self):
        self.assertRegex(self.trained, r"training loss \d\.\d{4} \(mean of the last 2 steps\)")
        self.assertRegex(self.trained, r", \d+ ms, digest|, [1-9]\d*\.\d s, digest")


if __name__ == "__main__":
    unittest.main()
