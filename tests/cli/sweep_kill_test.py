"""SIGKILL of `thinwire sweep` ends the runs it has started."""

import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]


class SweepKill(unittest.TestCase):
    # Each run holds the writing end of the pipe, which ends when the last run ends.
    def test_children_of_a_killed_sweep_end(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            reading, writing = os.pipe()
            (folder / "recipe.toml").write_text("")
            (folder / "grid.toml").write_text(f'recipe = "{folder}/recipe.toml"\nseeds = [1, 2]\n')
            program = folder / "program"
            program.write_text(f"#!/bin/sh\necho started > /dev/fd/{writing}\nexec sleep 1000\n")
            program.chmod(0o755)
            sweep = subprocess.Popen(
                [BINARY, "sweep", f"{folder}/grid.toml", "--jobs", "2", "--out", f"{folder}/out",
                 "--program", str(program)],
                pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.close(writing)
            with os.fdopen(reading) as started:
                for _ in range(2):
                    self.assertEqual(started.readline(), "started\n")
                sweep.send_signal(signal.SIGKILL)
                sweep.wait()
                self.assertEqual(started.read(), "")


if __name__ == "__main__":
    unittest.main()
