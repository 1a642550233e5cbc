"""Imports packages that a test needs and that may not be installed, and skips the test without them:

    PACKAGES = OptionalPackages()
    with PACKAGES:
        import torch

    @PACKAGES.needed
    class Test(unittest.TestCase): ...
"""

import unittest


class OptionalPackages:
    absent = ""  # why the test is skipped

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, ImportError):
            self.absent = f"not installed: {error.name} (requirements.txt lists what this test needs)"
        return bool(self.absent)

    @property
    def needed(self):
        return unittest.skipIf(self.absent, self.absent)
