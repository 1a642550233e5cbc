"""The examples in docs/examples, one of each kind, still apply to this tree, and are what the pages show of them."""

import re
import subprocess
import unittest

from tool_case import TOOLS

DOCS = TOOLS.parent / "docs"


class ArchitectureExample(unittest.TestCase):
    def expect_applies(self, name, page, files=6):
        patch = (DOCS / "examples" / name).read_text(encoding="utf-8")
        done = subprocess.run(
            ["git", "apply", "--check", "--verbose"],
            input=patch, cwd=DOCS.parent, capture_output=True, text=True, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("Checking patch"), files)
        self.expect_shows(patch, (DOCS / page).read_text(encoding="utf-8"), name)

    def expect_shows(self, patch, page, name):
        """The page's C++ is the patch's, apart from indentation, and its commands name the patch."""
        self.assertIn(f"    git apply docs/examples/{name}\n", page)
        added = [line[1:].strip() for line in patch.splitlines() if line.startswith("+")]
        shown = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
        self.assertTrue(shown)
        for part in shown:
            lines = [line.strip() for line in part.splitlines()]
            self.assertIn("\n".join(lines), "\n".join(added))

    def test_method_applies(self):
        self.expect_applies("signsgd.patch", "architecture.md")

    def test_optimizer_applies(self):
        self.expect_applies("lion.patch", "adding_an_optimizer.md", files=4)

    def test_architecture_applies(self):
        self.expect_applies("seed_oss.patch", "adding_an_architecture.md", files=3)


if __name__ == "__main__":
    unittest.main()
