"""`thinwire import` and `thinwire export` on wrong input: exit status and message. Where `thinwire generate` takes its
prompt from."""

import json
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")


def write_tiny_model(folder):
    """A Llama of a few weights on bytes."""
    hidden, between, vocab = 8, 16, 258
    config = {
        "model_type": "llama",
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": between,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
        "bos_token_id": 256,
    }
    layer = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden]}
    layer |= {f"self_attn.{name}_proj": [hidden, hidden] for name in "qkvo"}
    layer |= {"mlp.gate_proj": [between, hidden], "mlp.up_proj": [between, hidden], "mlp.down_proj": [hidden, between]}
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{count}f", *((i * 7919 % 997 - 498) / 997 for i in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocabulary.json").write_text('{"vocabulary": "byte"}\n')
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


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


if __name__ == "__main__":
    unittest.main(verbosity=2)
