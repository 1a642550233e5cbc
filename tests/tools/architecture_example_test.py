"""The method and the optimizer that the documentation adds as examples still apply to this tree."""

import re
import subprocess
import unittest

from tool_case import TOOLS

ROOT = TOOLS.parent


class ArchitectureExample(unittest.TestCase):
    def expect_applies(self, page):
        text = (ROOT / page).read_text(encoding="utf-8")
        patch = re.search(r"```diff\n(.*?)```", text, re.DOTALL).group(1)
        done = subprocess.run(
            ["git", "apply", "--check", "--verbose"],
            input=patch, cwd=ROOT, capture_output=True, text=True, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("Checking patch"), 6)

    def test_method_applies(self):
        self.expect_applies("docs/architecture.md")

    def test_optimizer_applies(self):
        self.expect_applies("docs/optimizers/adding.md")


if __name__ == "__main__":
    unittest.main()
