"""The examples with PyTorch do what they say."""

import contextlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest
from math import log

from python_case import PATIENCE, SOURCE, PythonCase

from optional_packages import OptionalPackages

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch  # noqa: F401


def epsilon_of(noise, contributions, delta):
    """Of Gaussian mechanisms one after another (Mironov 2017, arXiv 1702.07476; Balle et al. 2020, arXiv 1905.09982, theorem 21)."""
    orders = [1 + tenths / 10 for tenths in range(1, 630)]
    return min(contributions * order / (2 * noise**2) + log((order - 1) / order) - log(delta * order) / (order - 1)
               for order in orders)


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

    def test_a_task_in_numpy_predicts_ratings(self):
        said = self.run_example("numpy_ratings", "diloco")
        found = re.search(r"^diloco +error of unknown ratings ([\d.]+) of ([\d.]+),", said, re.MULTILINE)
        self.assertLess(float(found[1]), float(found[2]) / 2)

    @unittest.skipUnless(shutil.which("nats-server"), "there is no nats-server here")
    def test_members_with_records_of_their_own_say_what_their_contributions_tell(self):
        said = self.run_example("numpy_federated", "0", "0.1")
        told = re.findall(r"^noise ([\d.]+): ([\d.]+)% of another's records are told apart$", said, re.MULTILINE)
        self.assertEqual([noise for noise, _ in told], ["0", "0.1"])
        for noise, right in told:
            self.assertGreater(float(right), 85, noise)
        members = re.findall(r"^  member (\d): epsilon ([\d.]+) at delta 1e-05 after 20 contributions$", said, re.MULTILINE)
        self.assertEqual([number for number, _ in members], ["0", "1", "2"])
        for number, epsilon in members:
            self.assertAlmostEqual(float(epsilon), epsilon_of(0.1, 20, 1e-5), 2, number)

    def test_a_residual_network_learns_from_workers_with_digits_of_their_own(self):
        said = self.run_example("torch_resnet", "diloco", "train.steps=100")
        found = re.search(r"^diloco +accuracy ([\d.]+), +(\d+) B a step and worker$", said, re.MULTILINE)
        self.assertGreater(float(found[1]), 0.75)  # a worker sees seven of the ten digits, and alone knows no more

    def test_a_diffusion_model_is_trained_and_draws(self):
        said = self.run_example("torch_diffusion", "adamw", "one_bit", "--images", "samples.png", "train.steps=120",
                                "train.threads=1")
        found = re.findall(r"^(\w+) +held-out loss ([\d.]+), +\d+ B a step and worker, +([\d.]+) times", said, re.MULTILINE)
        self.assertEqual([method for method, _, _ in found], ["adamw", "one_bit"])
        for method, loss, _ in found:
            self.assertLess(float(loss), 0.8, method)  # of 1 for no idea at all
        self.assertGreater(float(found[1][2]), 500)
        picture = (self.folder / "samples.png").read_bytes()
        self.assertTrue(picture.startswith(b"\x89PNG"))
        width, height = struct.unpack(">II", picture[16:24])
        self.assertEqual((width, height), (16 * 40, 3 * 40))

    def test_the_notebooks_cells_do_what_they_say(self):
        notebook = json.loads((SOURCE / "examples/notebook/two_methods.ipynb").read_text())
        names, said = {}, io.StringIO()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        with contextlib.redirect_stdout(said):
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    exec("".join(cell["source"]), names)
        self.assertIn("\rstep 600: loss", said.getvalue())
        for accuracy in names["accuracy"].values():
            self.assertGreater(accuracy, 0.9)
        picture = names["Curves"]([(method, names["losses"](method)) for method in names["methods"]])._repr_svg_()
        self.assertEqual(picture.count("<polyline"), 2)


if __name__ == "__main__":
    unittest.main()
