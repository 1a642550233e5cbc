"""Byte-level BPE that `thinwire prepare` trains: vocabulary, merges and ids are those of the tokenizers package on the
same text."""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
SIZE = 900

PACKAGES = OptionalPackages()
with PACKAGES:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

# Qwen 2's.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")


def texts():
    draw = random.Random(5)
    lines = [line for path in sorted(Path(__file__).parent.glob("*.py")) for line in path.read_text().splitlines()]
    odd = "aaaa aaaaaaa banana bananana it's IT'S 2024 мир миру 世界 世界人 😀😀 \u00a0x \u3000 <|end \t\t\n\n\n".split(" ")
    for _ in range(400):
        lines.append(draw.choice([" ", "  ", "\n"]).join(draw.choice(odd) for _ in range(draw.randrange(1, 12))))
    return [line for line in lines if line.strip()]


def reference(lines):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=SIZE, min_frequency=2, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


@PACKAGES.needed
class ByteBpe(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.lines = texts()
        (self.root / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in self.lines))
        (self.root / "recipe.toml").write_text("")

    def prepare(self, size=SIZE):
        fields = {"data.dir": self.root / "tokens", "data.text": json.dumps([str(self.root / "text.jsonl")]),
                  "data.vocabulary": "byte_bpe", "data.vocabulary_size": size, "data.validation_fraction": 0}
        return subprocess.run([THINWIRE, "prepare", self.root / "recipe.toml",
                               *(f"{name}={value}" for name, value in fields.items())], capture_output=True, text=True)

    def test_vocabulary_merges_and_ids_are_those_of_tokenizers(self):
        done = self.prepare()
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = reference(self.lines)
        kept = json.loads((self.root / "tokens" / "vocabulary.tokenizer.json").read_text())
        model = json.loads(expected.to_str())["model"]
        self.assertEqual([tuple(pair) for pair in kept["model"]["merges"]], [tuple(pair) for pair in model["merges"]])
        self.assertEqual(kept["model"]["vocab"], model["vocab"])
        ids = [token for line in self.lines for token in [*expected.encode(line).ids, 0]]
        shard = (self.root / "tokens" / "train" / "00000.tws").read_bytes()
        self.assertEqual(list(struct.unpack(f"<{len(ids)}H", shard[64:])), ids)
        kept.pop("thinwire")
        read = Tokenizer.from_str(json.dumps(kept))
        self.assertEqual([read.encode(line).ids for line in self.lines], [expected.encode(line).ids for line in self.lines])
        self.assertEqual(read.decode(read.encode("мир 世界 2024").ids), "мир 世界 2024")

    def test_sizes_that_the_text_does_not_give_are_errors(self):
        for size, why in ((100, "less than the 257 tokens"), (200_000, "set at most")):
            done = self.prepare(size)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"data.vocabulary_size = {size} is", done.stderr)
            self.assertIn(why, done.stderr)
            self.assertFalse((self.root / "tokens").exists())


if __name__ == "__main__":
    unittest.main()
