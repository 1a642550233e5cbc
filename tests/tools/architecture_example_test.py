"""What docs/architecture.md adds as examples, a method and an architecture, still applies to this tree."""

import re
import subprocess
import unittest

from tool_case import TOOLS

ROOT = TOOLS.parent


class ArchitectureExample(unittest.TestCase):
    def test_applies(self):
        page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
        patches = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
        files = []
        for patch in patches:
            done = subprocess.run(
                ["git", "apply", "--check", "--verbose"],
                input=patch, cwd=ROOT, capture_output=True, text=True, check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            files.append(done.stderr.count("Checking patch"))
        self.assertEqual(files, [6, 7])


if __name__ == "__main__":
    unittest.main()
