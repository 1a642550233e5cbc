"""The method that docs/architecture.md adds as an example still applies to this tree."""

import re
import subprocess
import unittest

from tool_case import TOOLS

ROOT = TOOLS.parent


class ArchitectureExample(unittest.TestCase):
    def test_applies(self):
        page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
        patch = re.search(r"```diff\n(.*?)```", page, re.DOTALL).group(1)
        done = subprocess.run(
            ["git", "apply", "--check", "--verbose"],
            input=patch, cwd=ROOT, capture_output=True, text=True, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("Checking patch"), 6)


if __name__ == "__main__":
    unittest.main()
