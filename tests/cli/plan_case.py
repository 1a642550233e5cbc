"""Shared by the tests of `thinwire plan`: a folder and a way to call it."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]


class PlanCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def plan(self, *arguments):
        return subprocess.run([BINARY, "plan", *arguments], capture_output=True, text=True)

    def plan_json(self, *arguments):
        done = self.plan(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)
