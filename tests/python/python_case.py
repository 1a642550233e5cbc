"""Shared by tests of the Python package: its source folder, and recipes of small models."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ["THINWIRE_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "python"), str(SOURCE / "tests")]

METHODS = {  # with exchanges often enough for short runs
    "allreduce": {},
    "distro": {},
    "diloco": {"diloco.sync_every": 4},
    "local_sgd": {"local_sgd.sync_every": 4},
    "sparseloco": {"sparseloco.sync_every": 4},
    "streaming": {"streaming.sync_every": 4},
}
PATIENCE = 120  # seconds; only what hangs takes that long


class PythonCase(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def recipe(self, run, **more):
        """Fields of a short run of an external model; those of `more` have two underscores for the dot."""
        fields = {"train.batch": 16, "train.steps": 24, "optim.lr": 0.02, "schedule.warmup": 2,
                  "log.tensorboard": False, "run.name": "tiny", "run.dir": str(self.folder / run)}
        return {**fields, **{name.replace("__", "."): value for name, value in more.items()}}

    def start(self, script, *words, talks=False):
        """Another Python that has the package, running a script of this folder; `talks`: this process writes its input."""
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python")}
        log = open(self.folder / f"{Path(script).stem}.log", "a+")
        self.addCleanup(log.close)
        one = subprocess.Popen([sys.executable, str(Path(__file__).parent / script), *map(str, words)],
                               env=environment, stdin=subprocess.PIPE if talks else None, stdout=subprocess.PIPE, stderr=log,
                               text=True)
        self.addCleanup(one.stdout.close)
        if talks:
            self.addCleanup(one.stdin.close)
        self.addCleanup(one.wait)
        self.addCleanup(one.kill)
        return one

    def wait_until_no_program_has(self, folder):
        """The program that computed for a Python which was killed ends, too."""
        deadline = time.monotonic() + PATIENCE
        while any(str(folder) in command for command in commands()):
            self.assertLess(time.monotonic(), deadline, "the program outlives its Python")
            time.sleep(0.02)


def commands():
    """The command lines of all processes."""
    for process in os.listdir("/proc"):
        if process.isdigit():
            try:
                with open(f"/proc/{process}/cmdline") as file:
                    yield file.read()
            except OSError:
                pass  # it has ended
