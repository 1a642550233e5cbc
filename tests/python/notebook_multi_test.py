"""Ctrl-C in a notebook ends the cell that trains; the kernel goes on, and the run does so in the next cell."""

import json
import signal
import time
import unittest

from python_case import PATIENCE, PythonCase

from optional_packages import OptionalPackages

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch  # noqa: F401

# The cell of step 5 stands still until it is interrupted or may go on.
BEGIN = """
import time
from pathlib import Path
import numpy as np
import torch
import thinwire.torch

def compute(number):
    steps.append(number)
    if number == stands_at:
        (folder / "stands").touch()
        while not (folder / "goes_on").exists():
            time.sleep(0.01)
"""
# A model in NumPy answers for the step before the run stops; a loop of PyTorch is left where it stands.
NUMPY = """
def line(weights, gradients, step):
    compute(step.number)
    gradients["slope"][0] += weights["slope"][0]
    return 1.0

result = thinwire.train(recipe, model=line, quiet=True)
"""
TORCH = """
model = torch.nn.Linear(4, 2)
with thinwire.torch.local(model, thinwire.torch.recipe(model, recipe), quiet=True) as run:
    for step in run:
        compute(step.number)
        loss = model(torch.ones(8, 4)).square().mean()
        loss.backward()
        run.step(loss)
result = run.result
"""


@PACKAGES.needed
class Notebook(PythonCase):
    def setUp(self):
        super().setUp()
        self.kernel = self.start("kernel.py", talks=True)
        self.execute(BEGIN)

    def begin(self, cell):
        print(json.dumps(cell), file=self.kernel.stdin, flush=True)

    def raised(self):
        return json.loads(self.kernel.stdout.readline())

    def execute(self, cell):
        self.begin(cell)
        self.assertIsNone(self.raised())

    def goes_on(self, recipe, cell):
        """The steps of a cell that is interrupted in step 5, and those of the same cell afterwards."""
        self.execute(f"recipe, folder = {recipe}, Path({str(self.folder)!r})")
        self.execute("steps, stands_at = [], 5")
        self.begin(cell)
        deadline = time.monotonic() + PATIENCE
        while not (self.folder / "stands").exists():
            self.assertLess(time.monotonic(), deadline, "no step 5")
            time.sleep(0.01)
        self.kernel.send_signal(signal.SIGINT)
        (self.folder / "goes_on").touch()
        self.assertEqual(self.raised(), "KeyboardInterrupt")
        self.wait_until_no_program_has(self.folder)
        self.execute("before, steps = steps, []")
        self.execute(cell)
        self.execute(f"assert result.finished and steps[-1] == {recipe['train.steps'] - 1}, (steps, result)")
        self.execute("import json; (folder / 'steps.json').write_text(json.dumps([before, steps]))")
        return json.loads((self.folder / "steps.json").read_text())

    def test_a_run_of_a_model_in_numpy_goes_on_in_the_next_cell(self):
        external = {"model.architecture": "external", "external.tensors": ["slope 1"], "train.sequence": 1}
        before, after = self.goes_on({**self.recipe("run"), **external}, NUMPY)
        self.assertLess(len(before), 24)
        self.assertEqual(before + after, list(range(24)))

    def test_a_loop_of_pytorch_goes_on_in_the_next_cell(self):
        before, after = self.goes_on(self.recipe("run"), TORCH)
        self.assertEqual(before, list(range(6)))  # the last of them without a gradient
        self.assertEqual(after, list(range(5, 24)))


if __name__ == "__main__":
    unittest.main()
