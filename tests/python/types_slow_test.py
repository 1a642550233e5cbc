"""The Python package is typed throughout, and so are the examples."""

import os
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
    import transformers  # noqa: F401

# What PyTorch itself leaves untyped: the call of a module, and backward().
LENIENT = ["--allow-untyped-calls", "--no-warn-return-any", "--no-warn-unused-ignores", "--ignore-missing-imports"]


@PACKAGES.needed
class Types(unittest.TestCase):
    def test_mypy_finds_nothing(self):
        with tempfile.TemporaryDirectory() as cache:
            self.check(cache, "python/thinwire")
            for example in sorted((SOURCE / "examples").glob("*/train.py")):
                self.check(cache, str(example), *LENIENT)

    def check(self, cache, what, *options):
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}", *options, str(SOURCE / what)],
                              capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(SOURCE / "python")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
