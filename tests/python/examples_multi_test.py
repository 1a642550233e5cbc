"""The examples with PyTorch do what they say."""

import os
import re
import subprocess
import sys
import unittest

from python_case import PATIENCE, SOURCE, PythonCase

from optional_packages import OptionalPackages

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch  # noqa: F401


@PACKAGES.needed
class Examples(PythonCase):
    def run_example(self, name, *words):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, str(SOURCE / "examples" / name / "train.py"), *words], cwd=self.folder,
                              env=environment, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_loop_learns_a_text(self):
        text = self.folder / "text.txt"
        text.write_text("a line of a small text about thin wires, and another one\n" * 100)
        said = self.run_example("torch_loop", str(text), "train.steps=60", "train.batch=8")
        losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)$", said, re.MULTILINE)]
        self.assertEqual(len(losses), 3)
        self.assertLess(losses[-1], losses[0])
        self.assertRegex(said, r"(?m)^finished after step 60; weights \w{16}$")

    def test_digits_are_learnt_by_the_methods_that_are_named(self):
        said = self.run_example("torch_digits", "distro", "allreduce", "train.steps=40")
        found = re.findall(r"^(\w+) +accuracy ([\d.]+), +(\d+) B a step and worker$", said, re.MULTILINE)
        self.assertEqual([method for method, _, _ in found], ["distro", "allreduce"])
        self.assertLess(int(found[0][2]), int(found[1][2]) / 50)
        for method, accuracy, _ in found:
            self.assertGreater(float(accuracy), 0.2, method)


if __name__ == "__main__":
    unittest.main()
