"""A sweep called from Python: each setting with each seed, its numbers, and what it refuses."""

import shutil
import unittest

from python_case import PythonCase

from optional_packages import OptionalPackages

import thinwire

PACKAGES = OptionalPackages()
with PACKAGES:
    import numpy as np


@PACKAGES.needed
class Sweeps(PythonCase):
    def setUp(self):
        super().setUp()
        text = self.folder / "text.txt"
        text.write_text("".join(f"wire {i} is as thin as wire {i * 7 % 101}\n" for i in range(800)))
        self.fields = {"data.text": [str(text)], "data.dir": str(self.folder / "data"), "data.vocabulary": "byte",
                       "data.document": "line", "data.validation_fraction": 0.05, "train.sequence": 16, "model.layers": 1,
                       "model.hidden": 16, "model.heads": 2, "llama.intermediate": 32, "train.batch": 4, "train.steps": 5,
                       "log.tensorboard": False}
        thinwire.prepare(self.fields, quiet=True)

    def sweep(self, grid, **more):
        return thinwire.sweep(self.fields, grid, out=self.folder / "out", quiet=True, **more)

    def test_every_setting_runs_with_every_seed(self):
        rows = self.sweep({"optim.lr": [1e-3, 3e-3]}, seeds=[1, 2], fields={"optim.clip": 0.5},
                          points=[{"sync.method": "allreduce"}, {"sync.method": "distro", "distro.k": 8}])
        self.assertEqual({(row["optim.lr"], row["sync.method"], row["seed"]) for row in rows},
                         {(lr, method, seed) for lr in (1e-3, 3e-3) for method in ("allreduce", "distro") for seed in (1, 2)})
        for row in rows:
            self.assertEqual((row["state"], row["steps"]), ("done", 5))
            self.assertIsInstance(row["train_loss"], float)
            self.assertIsInstance(row["digest"], str)
        self.assertEqual({row["distro.k"] for row in rows if row["sync.method"] == "distro"}, {8})
        self.assertEqual(thinwire.read_events(self.folder / "out" / rows[0]["folder"])[0]["event"], "step")

    def test_swept_values_are_those_that_were_given(self):
        rows = self.sweep({"run.name": ["007", "1_000", "a-b"], "optim.lr": np.array([1e-5, 1e-3])}, fields={"train.steps": 1},
                          points=[{"sync.method": "distro", "distro.fixed_k": True}, {"sync.method": "allreduce"}])
        self.assertEqual(len(rows), 12)
        self.assertEqual({(row["run.name"], row["optim.lr"], row["sync.method"], row["distro.fixed_k"]) for row in rows},
                         {(name, lr, method, fixed) for name in ("007", "1_000", "a-b") for lr in (1e-5, 1e-3)
                          for method, fixed in (("distro", True), ("allreduce", None))})
        for row in rows:
            self.assertIsNone(row["seed"])
            self.assertIsInstance(row["method"], str)
            self.assertEqual((type(row["optim.lr"]), type(row["distro.fixed_k"])),
                             (float, bool if row["sync.method"] == "distro" else type(None)))

    def test_the_same_call_goes_on_and_keeps_finished_runs(self):
        grid = {"optim.lr": [1e-3, 3e-3]}
        first = self.sweep(grid, seeds=np.array([1, 2]))
        shutil.rmtree(self.folder / "out" / first[0]["folder"])
        kept = self.summaries(first[1:])
        second = self.sweep(grid, seeds=np.array([1, 2]))
        self.assertEqual(self.summaries(second[1:]), kept, "they were not run again")
        self.assertEqual([row["digest"] for row in second], [row["digest"] for row in first])
        self.assertEqual(len(self.summaries(second[:1])), 1)

    def summaries(self, rows):
        files = [self.folder / "out" / row["folder"] / "summary.json" for row in rows]
        return [(file.stat().st_mtime_ns, file.stat().st_ino) for file in files]

    def test_a_setting_that_cannot_be_is_refused_by_name(self):
        with self.assertRaisesRegex(thinwire.Error, "optim.lr"):
            self.sweep({"optim.lr": [-1.0]})


if __name__ == "__main__":
    unittest.main()
