"""vocab.json with merges.txt as vocabulary: `thinwire prepare` makes the tokens that transformers makes of such a folder,
for the classes of GPT-2, RoBERTa and Qwen 2; what is damaged or not supported is named."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

from tokenizer_slow_test import PACKAGES as TOKENIZERS
from tokenizer_slow_test import EOS, QWEN2, byte_level, texts

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")

PACKAGES = OptionalPackages()
with PACKAGES:
    import transformers
    from tokenizers import models, pre_tokenizers, trainers, Tokenizer
    transformers.utils.logging.set_verbosity_error()

MASK = {"content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False}
FLAGS = {"lstrip": False, "rstrip": False, "single_word": False}
ROBERTA = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>",
           "unk_token": "<unk>", "mask_token": MASK}


def roberta():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts(False)[:500], trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


@TOKENIZERS.needed
@PACKAGES.needed
class VocabAndMerges(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.hf = self.root / "hf"
        self.hf.mkdir()

    def write(self, tokenizer, **files):
        """files: by name without .json."""
        tokenizer.model.save(str(self.hf))
        for name, content in files.items():
            (self.hf / f"{name}.json").write_text(json.dumps(content))

    def prepare(self, lines):
        (self.root / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
        fields = [f"data.text={self.root}/text.jsonl", f"data.dir={self.root}/tokens", "data.validation_fraction=0"]
        return subprocess.run([THINWIRE, "prepare", *fields, f"data.vocabulary_model={self.hf}/vocab.json", "--force"],
                              capture_output=True, text=True, check=False)

    def assert_same(self, kind, normalized=False):
        reference = kind.from_pretrained(self.hf)
        lines = texts(normalized)
        lines += [line.replace("the", " <mask> ").replace("it's", EOS) for line in lines[:500]]
        done = self.prepare(lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        (shard,) = (self.root / "tokens" / "train").iterdir()
        raw = shard.read_bytes()
        got = list(struct.unpack_from(f"<{struct.unpack_from('<Q', raw, 16)[0]}H", raw, 64))
        at = 0
        for line, ids in zip(lines, reference(lines, add_special_tokens=False)["input_ids"]):
            ids = ids + [reference.eos_token_id]
            mine = got[at : at + len(ids)]
            self.assertEqual(mine, ids, f"{line!r}: {reference.convert_ids_to_tokens(ids)}")
            at += len(ids)
        self.assertEqual(at, len(got))

    def test_gpt2(self):
        tokenizer = byte_level()
        size = tokenizer.get_vocab_size()
        self.write(tokenizer, tokenizer_config={"eos_token": EOS}, added_tokens={"<tool>": size, "<user>": size + 1})
        self.assert_same(transformers.GPT2Tokenizer)

    def test_roberta(self):
        self.write(roberta(), tokenizer_config={"tokenizer_class": "RobertaTokenizer"}, special_tokens_map=ROBERTA)
        self.assert_same(transformers.RobertaTokenizer)

    def test_qwen2(self):
        tokenizer = byte_level(QWEN2)
        size = tokenizer.get_vocab_size()
        added = {str(size): {"content": "<tool>", "special": True, "normalized": False, **FLAGS},
                 str(size + 1): {"content": "<user>", "special": False, "normalized": False, **FLAGS, "lstrip": True},
                 "0": {"content": EOS, "special": True, "normalized": False, **FLAGS}}
        self.write(tokenizer, tokenizer_config={
            "tokenizer_class": "Qwen2Tokenizer", "eos_token": EOS, "added_tokens_decoder": added,
            "additional_special_tokens": ["<tool>"]}, special_tokens_map={"eos_token": "<tool>"})
        self.assert_same(transformers.Qwen2Tokenizer, normalized=True)

    def refusal(self, **files):
        self.write(byte_level(), **{"tokenizer_config": {"eos_token": EOS}, **files})
        done = self.prepare(["text"])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertFalse((self.root / "tokens").exists())
        return done.stderr

    def test_what_is_damaged_or_not_supported_is_named(self):
        self.assertIn('tokenizer_class = "CTRLTokenizer"; without a tokenizer.json only',
                      self.refusal(tokenizer_config={"tokenizer_class": "CTRLTokenizer"}))
        self.assertIn('"content":"<none>"', self.refusal(special_tokens_map={"pad_token": "<none>"}))
        self.assertIn('has the id "7"', self.refusal(special_tokens_map={}, added_tokens={"<tool>": "7"}))
        self.assertIn("which the model's vocabulary contradicts", self.refusal(added_tokens={EOS: 7}))
        self.assertIn("has the id <discarded>", self.refusal(
            added_tokens={}, tokenizer_config={"added_tokens_decoder": {"x": {"content": "y"}}}))
        self.assertIn("added_tokens.json is not a JSON object", self.refusal(added_tokens=[]))
        (self.hf / "added_tokens.json").unlink()
        merges = self.hf / "merges.txt"
        merges.write_text(merges.read_text() + "three pieces here\n")
        done = self.prepare(["text"])
        self.assertIn('is "three pieces here"; expected two pieces with a space between', done.stderr)
        merges.write_bytes(b"\xff \xfe\n")
        self.assertIn("merges.txt is not UTF-8", self.prepare(["text"]).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
