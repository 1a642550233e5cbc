"""The examples in the documentation, one of each kind, still apply to this tree."""

import re
import subprocess
import unittest

from tool_case import TOOLS

ROOT = TOOLS.parent


class ArchitectureExample(unittest.TestCase):
    def expect_applies(self, page, files=6):
        text = (ROOT / page).read_text(encoding="utf-8")
        patch = re.search(r"```diff\n(.*?)```", text, re.DOTALL).group(1)
        done = subprocess.run(
            ["git", "apply", "--check", "--verbose"],
            input=patch, cwd=ROOT, capture_output=True, text=True, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("Checking patch"), files)

    def test_method_applies(self):
        self.expect_applies("docs/architecture.md")

    def test_optimizer_applies(self):
        self.expect_applies("docs/optimizers/adding.md")

    def test_architecture_applies(self):
        self.expect_applies("docs/adding_an_architecture.md", files=3)


if __name__ == "__main__":
    unittest.main()
