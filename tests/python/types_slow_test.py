"""The Python package is typed throughout."""

import subprocess
import sys
import tempfile
import unittest

from python_case import SOURCE

from optional_packages import OptionalPackages

PACKAGES = OptionalPackages()
with PACKAGES:
    import mypy  # noqa: F401
    import numpy  # noqa: F401
    import torch  # noqa: F401


@PACKAGES.needed
class Types(unittest.TestCase):
    def test_mypy_finds_nothing(self):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run([sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}",
                                   str(SOURCE / "python/thinwire")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
