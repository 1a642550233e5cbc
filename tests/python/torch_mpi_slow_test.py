"""PyTorch modules on the ranks of an MPI job: the bits of a run of as many workers in one process, and one end for all."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from python_case import METHODS, PATIENCE, SOURCE, PythonCase

from optional_packages import OptionalPackages

sys.path.append(str(SOURCE / "tests/cli"))
from mpi_case import MPIRUN, has_mpi  # noqa: E402, where the tests of the program are

import thinwire  # noqa: E402

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    from torch_model import loss_of, small_model

    import thinwire.torch

RANK = Path(__file__).parent / "torch_mpi_rank.py"


@PACKAGES.needed
@unittest.skipUnless(has_mpi(), "no mpirun, or a program without MPI")
class TorchMpi(PythonCase):
    def begin(self, ranks, recipe, fields, fails=None):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "OMP_NUM_THREADS": "1"}
        asked = json.dumps({"recipe": str(recipe), "fields": fields, "fails": fails})
        return subprocess.run([*MPIRUN, "-n", str(ranks), sys.executable, str(RANK), asked], cwd=self.folder,
                              env=environment, capture_output=True, text=True, timeout=PATIENCE)

    def ends(self, *what):
        done = self.begin(*what)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [json.loads(line) for line in done.stdout.splitlines()]
        return sorted(said, key=lambda one: one["rank"])

    def written(self, **more):
        """A recipe whose weights are those of the module with seed 0."""
        file = self.folder / "recipe.toml"
        thinwire.torch.recipe(small_model(), self.recipe("run", **more), path=file,
                              weights=self.folder / "weights.safetensors")
        return file

    def in_one_process(self, recipe, fields):
        model = small_model()
        with thinwire.torch.local(model, recipe, fields, quiet=True) as run:
            for step in run:
                loss = loss_of(model, step)
                loss.backward()
                run.step(loss)
        return run.result.digest

    def test_ranks_have_the_bits_of_workers_of_one_process(self):
        recipe = self.written(train__workers=2)
        for method in ("distro", "diloco"):
            with self.subTest(method):
                fields = {"sync.method": method, **METHODS[method]}
                one = self.in_one_process(recipe, {**fields, "run.dir": str(self.folder / f"{method}-one")})
                ends = self.ends(2, recipe, {**fields, "run.dir": str(self.folder / f"{method}-ranks")})
                self.assertEqual([end["finished"] for end in ends], [True, True])
                self.assertEqual([end["digest"] for end in ends], [one, ""])
                self.assertEqual(ends[0]["held"], ends[1]["held"])
                self.assertEqual([end["reports"] for end in ends], [24, 0])
                for rank, end in enumerate(ends):
                    self.assertEqual(end["steps"], [[number, rank, 8] for number in range(24)])

    def test_a_rank_has_several_workers_where_they_are_more(self):
        recipe = self.written(train__workers=3)
        ends = self.ends(2, recipe, {"sync.method": "allreduce"})
        self.assertEqual({worker for _, worker, _ in ends[0]["steps"]} | {worker for _, worker, _ in ends[1]["steps"]},
                         {0, 1, 2})
        self.assertEqual(sorted(len(end["steps"]) for end in ends), [24, 48])

    def test_an_exception_in_one_rank_ends_all_and_the_run_goes_on_from_its_checkpoint(self):
        recipe = self.written(train__workers=2, checkpoint__every=5)
        whole = self.in_one_process(recipe, {"run.dir": str(self.folder / "whole")})
        fields = {"run.dir": str(self.folder / "parts")}
        done = self.begin(2, recipe, fields, [1, 13])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no such row", done.stderr)
        self.wait_until_no_program_has(self.folder / "parts")
        ends = self.ends(2, recipe, fields)
        self.assertEqual(ends[0]["steps"][0][0], 10)
        self.assertEqual(ends[0]["digest"], whole)

    def test_what_cannot_be_is_said(self):
        def unused(*_):
            raise AssertionError

        external = {"model.architecture": "external", "external.tensors": ["slope 1"], "train.sequence": 1}
        with self.assertRaisesRegex(thinwire.Error, "initial must be None with .* launcher = \"mpi\""):
            thinwire.train({**self.recipe("run"), **external, "train.launcher": "mpi"}, model=unused, initial=unused, quiet=True)
        recipe = self.written(train__workers=2)
        done = self.begin(3, recipe, {})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the job has 3 ranks; start it with mpirun -n 2 or fewer", done.stderr)


if __name__ == "__main__":
    unittest.main()
