"""thinwire compare over a folder of runs, some of which are not finished."""

import shutil
import subprocess
import unittest

from trained_case import BINARY, TrainedCase


class CompareCommand(TrainedCase):
    run_name = "runs/done"
    fields = ["train.steps = 15", "train.batch = 4", "train.workers = 4", 'sync.method = "diloco"',
              'sync.within = "allreduce"', "sync.clusters = 2", "diloco.sync_every = 5"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
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
        self.assertRegex(self.trained, r", ([1-9]\d*(\.\d)? (ms|s)|[1-9]\d* min \d\d s), digest ")


if __name__ == "__main__":
    unittest.main()
