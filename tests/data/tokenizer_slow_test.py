"""A tokenizer.json as vocabulary: `thinwire prepare` makes the tokens that Hugging Face's tokenizers package makes, of
lines of many scripts and of noise, for the tokenizers of the usual families; what is damaged or not supported is named."""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
SHARED = Path(os.environ.get("THINWIRE_SHARED_DATA", ""))
LINES = int(os.environ.get("THINWIRE_TOKENIZER_LINES", "4000"))

PACKAGES = OptionalPackages()
with PACKAGES:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
EOS = "<|endoftext|>"
WORDS = (
    "the wire carries small payloads far, 2024 1234567 it's WE'LL can't Grüße naïve Ελλάδα мир 世界 こんにちは 한국어 שלום "
    "العربية नमस्ते e\u0301 q\u0323\u0307 ﬁ ½ ① ٣ Ⅷ 😀 👩‍👩‍👧 \u2581 <0x41> foo_bar() != ;; ... 'll \u01c5 İ ß Σας <tool> <user> user"
).split(" ")
SPACES = ["", " ", " ", "  ", "     ", "\n", "\r\n", "\n\n \n", "\t", "\u00a0", "\u3000", "\u2028", "\x0b", "\x85"]


def assigned(tables):
    return [chr(code) for code in range(32, 0x20000) if tables.category(chr(code)) not in ("Cn", "Cs", "Co")]


def texts(normalized):
    """Characters newer than everybody's tables would tell versions of Unicode apart; the package normalizes by tables
    that are much older than those of its patterns."""
    characters = assigned(unicodedata.ucd_3_2_0 if normalized else unicodedata)
    draw, made = random.Random(7), []
    while len(made) < LINES:
        parts = [draw.choice(SPACES)]
        for _ in range(draw.randrange(1, 12)):
            parts += [draw.choice(WORDS) if draw.random() < 0.8 else draw.choice(characters), draw.choice(SPACES)]
        if "".join(parts).strip(" \t\r\n\v\f"):
            made.append("".join(parts))
    return made


def corpus():
    return Path(__file__).read_text().splitlines() + [" ".join(WORDS)] * 20


def byte_level(pattern=None, normalizer=None, digits=False, **settings):
    tokenizer = Tokenizer(models.BPE(**settings))
    tokenizer.normalizer = normalizer
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=[EOS], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def llama2():
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    replace = decoders.Replace("▁", " ")
    strip = decoders.Strip(" ", 1, 0)
    tokenizer.decoder = decoders.Sequence([replace, decoders.ByteFallback(), decoders.Fuse(), strip])
    special = ["<unk>", EOS] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return without_special_bytes(tokenizer)


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.UnigramTrainer(
        vocab_size=600, special_tokens=["<unk>", EOS], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def without_special_bytes(tokenizer):
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = [t for t in described["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(described))


def with_added(tokenizer):
    tokenizer.add_tokens(
        [
            AddedToken("<tool>", lstrip=True, rstrip=True, normalized=False),
            AddedToken("user", single_word=True, normalized=True),
            AddedToken("foo_", normalized=True),
        ]
    )
    tokenizer.add_special_tokens([AddedToken("<user>", special=True)])
    return tokenizer


def gpt2():
    folder = SHARED / "tok" / "gpt2"
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "encoder.json"), str(folder / "vocab.bpe")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([EOS])
    return tokenizer


FAMILIES = {
    "GPT-2": byte_level,
    "Llama 3": lambda: byte_level(LLAMA3, ignore_merges=True),
    "Qwen 2": lambda: byte_level(QWEN2, normalizers.NFC()),
    "SmolLM": lambda: byte_level(digits=True),
    "lower case": lambda: byte_level(normalizer=normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()])),
    "Llama 2": llama2,
    "Unigram": unigram,
    "added tokens": lambda: with_added(byte_level(normalizer=normalizers.Lowercase())),
}


@PACKAGES.needed
class TokenizerJsonTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "hf").mkdir()
        (self.root / "hf" / "tokenizer_config.json").write_text(json.dumps({"eos_token": EOS}))
        self.file = self.root / "hf" / "tokenizer.json"

    def prepare(self, lines):
        (self.root / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
        fields = [f"data.text={self.root}/text.jsonl", f"data.dir={self.root}/tokens", "data.validation_fraction=0"]
        command = [THINWIRE, "prepare", *fields, f"data.vocabulary_model={self.file}", "--force"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def tokens_of(self, lines):
        """A list of tokens a line."""
        done = self.prepare(lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        (shard,) = (self.root / "tokens" / "train").iterdir()
        raw = shard.read_bytes()
        size, count = struct.unpack_from("<I", raw, 12)[0], struct.unpack_from("<Q", raw, 16)[0]
        return struct.unpack_from(f"<{count}{'H' if size == 2 else 'I'}", raw, 64)

    def assert_same(self, tokenizer):
        tokenizer.save(str(self.file))
        lines = texts(tokenizer.normalizer is not None)
        end = tokenizer.token_to_id(EOS)
        expected = [tokens.ids + [end] for tokens in tokenizer.encode_batch(lines, add_special_tokens=False)]
        got = list(self.tokens_of(lines))
        at = 0
        for line, ids in zip(lines, expected):
            mine = got[at : at + len(ids)]
            self.assertEqual(mine, ids, f"{line!r}: {[tokenizer.id_to_token(i) for i in ids]}")
            at += len(ids)
        self.assertEqual(at, len(got))

    def test_every_family_has_the_ids_of_the_package(self):
        for family, make in FAMILIES.items():
            with self.subTest(family):
                self.assert_same(make())

    @unittest.skipUnless((SHARED / "tok" / "gpt2").is_dir(), "GPT-2's vocabulary is not beside the source tree")
    def test_gpt2_itself(self):
        self.assert_same(gpt2())

    def refusal(self, change):
        described = json.loads(byte_level().to_str())
        change(described)
        self.file.write_text(json.dumps(described))
        done = self.prepare(["text"])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertFalse((self.root / "tokens").exists())
        return done.stderr

    def test_what_is_not_supported_is_named(self):
        def put(field, value):
            return self.refusal(lambda described: described.update({field: value}))

        self.assertIn('normalizer has the type "BertNormalizer"', put("normalizer", {"type": "BertNormalizer"}))
        self.assertIn('pre_tokenizer has the type "Odd"', put("pre_tokenizer", {"type": "Odd"}))
        self.assertIn('model has the type "WordPiece"', put("model", {"type": "WordPiece"}))
        self.assertIn('decoder has the type "CTC"', put("decoder", {"type": "CTC"}))
        broken = {"type": "Split", "pattern": {"Regex": "(["}, "behavior": "Isolated"}
        self.assertIn('pre_tokenizer.pattern.Regex cannot be read: "(["', put("pre_tokenizer", broken))
        self.assertIn("it has no decoder", put("decoder", None))

    def test_hostile_files_are_refused_by_place(self):
        def model(change):
            return self.refusal(lambda described: change(described["model"]))

        self.assertIn("model.merges[1] merges", model(lambda m: m["merges"].insert(1, m["merges"][0])))
        self.assertIn("is not in the vocabulary", model(lambda m: m["merges"].append(["<", "none>"])))
        self.assertIn("has already", model(lambda m: m["vocab"].update({"twice": 5})))
        self.assertIn("must be a whole number from 0", model(lambda m: m["vocab"].update({"far": 1 << 40})))
        self.assertIn("must be a whole number from 0", model(lambda m: m["vocab"].update({"below": -1})))
        token = {"content": "x" * 100, "special": False}
        many = [token | {"id": 1000 + i, "content": f"{i:0100}"} for i in range(100_000)]
        twice = [*many, many[0] | {"id": 999_999}]
        self.assertIn("which occurs twice", self.refusal(lambda d: d.update(added_tokens=twice)))
        whole = byte_level().to_str()
        self.file.write_text(whole[: len(whole) // 2])
        self.assertIn("truncated", self.prepare(["text"]).stderr)

    def test_an_end_of_text_must_be_named(self):
        byte_level().save(str(self.file))
        (self.root / "hf" / "tokenizer_config.json").write_text("{}")
        self.assertIn("tokenizer_config.json beside it", self.prepare(["text"]).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
