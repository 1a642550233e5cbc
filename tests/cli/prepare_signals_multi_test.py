"""A signal to `thinwire prepare`, whatever it is doing, ends it soon and leaves nothing behind."""

import os
import random
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]


class PrepareSignals(unittest.TestCase):
    def test_training_a_vocabulary_can_be_interrupted(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            letters = random.Random(1)
            # The trainer needs many minutes for this text.
            with open(folder / "text.txt", "w", encoding="utf-8") as text:
                for _ in range(60_000):
                    text.write("".join(letters.choices("abcdefghijklmnopqrstuvwxyz ", k=150)) + "\n")
            run = subprocess.Popen(
                [BINARY, "prepare", f"data.dir={folder}/tokens", f"data.text={folder}/text.txt",
                 "data.document=line", "data.vocabulary_type=unigram"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for line in run.stderr:
                if "training the vocabulary" in line:
                    break
            run.send_signal(signal.SIGTERM)
            _, stderr = run.communicate(timeout=60)
            self.assertEqual(run.returncode, -signal.SIGTERM, stderr)
            self.assertIn("nothing was written", stderr)
            self.assertEqual([path.name for path in folder.iterdir()], ["text.txt"])


if __name__ == "__main__":
    unittest.main()
