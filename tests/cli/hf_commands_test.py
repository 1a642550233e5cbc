"""`thinwire import` and `thinwire export` on wrong input: exit status and message."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")


class HfCommandsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def expect(self, status, message, *arguments):
        done = subprocess.run([THINWIRE, *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_foreign_model_fails_and_leaves_nothing(self):
        (self.root / "hf").mkdir()
        (self.root / "hf" / "config.json").write_text('{"model_type": "gpt2"}')
        self.expect(1, 'model_type is "gpt2"', "import", self.root / "hf", self.root / "out")
        self.assertEqual([path.name for path in self.root.iterdir()], ["hf"])

    def test_a_folder_without_a_model_fails(self):
        self.expect(1, "holds no model", "export", self.root, self.root / "out")
        self.expect(1, "no config.json", "import", self.root, self.root / "out")

    def test_wrong_use_is_told_apart_from_failure(self):
        self.expect(2, "does not exist", "export", self.root / "absent", self.root / "out")
        self.expect(2, "--dtype", "export", self.root, self.root / "out", "--dtype", "int3")
        self.expect(2, "out_dir", "import", self.root)


if __name__ == "__main__":
    unittest.main(verbosity=2)
