"""Shared by the tests of tools/: a small source tree and a way to run a tool on it."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


class ToolCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run_tool(self, tool, *arguments):
        return subprocess.run(
            [sys.executable, TOOLS / tool, "--root", self.root, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
