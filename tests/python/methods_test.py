"""The optimizers that communicate have the fields that the program describes."""

import os
import subprocess
import sys
import unittest

from python_case import SOURCE


class Methods(unittest.TestCase):
    def test_the_file_is_up_to_date(self):
        done = subprocess.run([sys.executable, str(SOURCE / "tools/python_methods.py"), os.environ["THINWIRE_BINARY"],
                               "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
