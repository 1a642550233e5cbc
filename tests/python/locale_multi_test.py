"""The package under a locale whose numbers have a decimal comma: what is said to the program, and what it says, is the same."""

import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from python_case import PATIENCE, SOURCE, PythonCase

from optional_packages import OptionalPackages

PACKAGES = OptionalPackages()
with PACKAGES:
    import numpy  # noqa: F401

NAME = "de_DE.UTF-8"
DEFINITION = Path("/usr/share/i18n/locales/de_DE")  # of Debian's package locales
SCRIPT = """
import json, locale, sys

def choose():
    locale.setlocale(locale.LC_ALL, "")
    assert f"{0.5:n}" == sys.argv[2], "the locale is not in use"

when, _, folder = sys.argv[1:]
if when == "before":
    choose()
import numpy as np
import thinwire
if when == "after":
    choose()

def line(weights, gradients, step):
    x = (step.rows % 7 / 7).astype(np.float32)
    error = weights["slope"][0] * x - 3.25 * x
    gradients["slope"][0] += np.mean(2 * error * x)
    return float(np.mean(error**2))

recipe = {"model.architecture": "external", "external.tensors": ["slope 1"], "train.sequence": 1, "train.steps": 8,
          "train.batch": 8, "optim.lr": 0.0625, "schedule.warmup": 0, "log.tensorboard": False, "run.name": "line",
          "run.dir": f"{folder}/run"}
reports = []
result = thinwire.train(recipe, {"optim.weight_decay": 0.125}, model=line, quiet=True,
                        on_step=lambda report: reports.append((report.loss, report.learning_rate, report.gradient_norm)))
events = [{name: event[name] for name in ("loss", "learning_rate")}
          for event in thinwire.read_events(result.folder) if event["event"] == "step"]
plan = thinwire.plan({"model.layers": 2, "model.hidden": 64, "train.steps": 100, "optim.lr": 0.001}, members=4, flops="1.5T",
                     up="2.5M", down="10.5M")
predicted = [(one["method"], one["step_seconds"], one["loss"]) for one in plan["methods"]]
try:
    thinwire.train(recipe, {"optim.lr": -0.5}, model=line)
except thinwire.Error as error:
    refused = str(error)
json.dump([result.digest, result.train_loss, reports, events, plan["members"], predicted, refused,
           float(thinwire.load(result.folder)["slope"][0])], sys.stdout)
"""


@PACKAGES.needed
@unittest.skipUnless(shutil.which("localedef") and DEFINITION.exists(), "there is no localedef or no definition of de_DE")
class Locale(PythonCase):
    def said(self, run, when, half, **environment):
        done = subprocess.run([sys.executable, "-c", SCRIPT, when, half, str(self.folder / run)], capture_output=True,
                              text=True, timeout=PATIENCE,
                              env={**os.environ, "PYTHONPATH": str(SOURCE / "python"), **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_decimal_comma_changes_nothing(self):
        subprocess.run(["localedef", "-i", DEFINITION.name, "-f", "UTF-8", str(self.folder / NAME)], check=True,
                       capture_output=True)
        plain = self.said("plain", "never", "0.5", LC_ALL="C.UTF-8")
        self.assertIn("-0.5", plain[-2])
        for when in ("before", "after"):
            with self.subTest(when):
                self.assertEqual(self.said(when, when, "0,5", LOCPATH=str(self.folder), LC_ALL=NAME), plain)


if __name__ == "__main__":
    unittest.main()
