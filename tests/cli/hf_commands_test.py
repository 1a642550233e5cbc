"""`thinwire import` and `thinwire export` on wrong input: exit status and message. Where `thinwire generate` takes its
prompt from."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from tiny_model import write_tiny_model

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

    def test_a_model_of_another_architecture_fails_and_leaves_nothing(self):
        (self.root / "hf").mkdir()
        (self.root / "hf" / "config.json").write_text('{"model_type": "gpt2"}')
        self.expect(1, 'model_type is "gpt2"', "import", self.root / "hf", self.root / "out")
        self.assertEqual([path.name for path in self.root.iterdir()], ["hf"])

    def test_a_folder_without_a_model_fails(self):
        self.expect(1, "holds no model", "export", self.root, self.root / "out")
        self.expect(1, "no config.json", "import", self.root, self.root / "out")

    def test_wrong_use_is_told_apart_from_failure(self):
        self.expect(2, "MODEL: there is no folder", "export", self.root / "absent", self.root / "out")
        self.expect(2, "--dtype", "export", self.root, self.root / "out", "--dtype", "int3")
        self.expect(2, "OUT_DIR is missing", "import", self.root)

    def test_logits_refuses_what_has_no_tokens(self):
        write_tiny_model(self.root / "hf")
        model = self.root / "hf"
        self.expect(2, "one of --text and --tokens", "logits", model)
        self.expect(2, "--tokens", "logits", model, "--text", "a", "--tokens", "1")
        for wrong in ("1,,2", "1,x", "-1", "1,2,", "99999999999"):
            message = f'whole numbers >= 0 with commas between them, got "{wrong}"'
            self.expect(2, message, "logits", model, f"--tokens={wrong}")
        self.expect(1, "token 300", "logits", model, "--tokens", "5,300")
        self.expect(2, "must end in .safetensors", "logits", model, "--text", "a", "--out", self.root / "a.npy")
        self.expect(1, "token 300", "logits", model, "--tokens", "300", "--out", self.root / "a.safetensors")
        self.assertFalse((self.root / "a.safetensors").exists())

    def test_logits_of_a_text_are_those_of_its_tokens(self):
        write_tiny_model(self.root / "hf")

        def logits(*arguments):
            command = [THINWIRE, "logits", self.root / "hf", *arguments]
            return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

        said = logits("--text", "Hi")
        self.assertEqual(said["tokens"], [256, 72, 105])
        self.assertEqual(said, logits("--tokens", "256,72,105"))
        self.assertEqual([len(row) for row in said["logits"]], [258] * 3)

    def test_a_prompt_may_come_from_standard_input(self):
        write_tiny_model(self.root / "hf")

        def generate(*arguments, stdin=""):
            command = [THINWIRE, "generate", self.root / "hf", "--greedy", "--ignore-end", "--tokens", "5", *arguments]
            done = subprocess.run(command, input=stdin.encode(), capture_output=True, check=True)
            return done.stdout

        expected = generate("--prompt", "two\nlines\n")
        self.assertTrue(expected.startswith(b"two\nlines\n"))
        # The line break at the end of the input is not part of the prompt.
        self.assertEqual(generate("--prompt", "-", stdin="two\nlines\n\n"), expected)
        self.assertEqual(generate(stdin="two\nlines\n\n"), expected)
        self.assertEqual(generate("--prompt", "two\nlines\n", stdin="something else"), expected)
        self.assertEqual(generate(stdin=""), generate("--prompt", ""))

    def test_a_text_may_be_longer_than_the_training_had_it(self):
        write_tiny_model(self.root / "hf")

        def generate(*arguments):
            command = [THINWIRE, "generate", self.root / "hf", "--greedy", "--ignore-end", "--prompt", "a" * 60, *arguments]
            return subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")

        within = generate("--tokens", "3")
        self.assertEqual(within.returncode, 0, within.stderr)
        self.assertNotIn("longer", within.stderr)
        beyond = generate("--tokens", "20")
        self.assertEqual(beyond.returncode, 0, beyond.stderr)
        self.assertIn("this text of up to 81 tokens is longer than the 64 that the model was trained with", beyond.stderr)
        self.assertEqual(beyond.stdout, generate("--tokens", "20", "--context", "81").stdout)
        refused = generate("--tokens", "20", "--context", "64")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("a text of 81 tokens, with what is to be added, exceeds --context 64", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
