"""Exported tokenizers make the tokens that SentencePiece makes, in Hugging Face's transformers: of thousands of texts,
for merges and unigrams, whatever the special pieces are called; and what came with a model leaves with it."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
TEXTS = 4000

PACKAGES = OptionalPackages()
with PACKAGES:
    import sentencepiece
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()

WORDS = (
    "the wire carries small payloads far 2024 12345 Grüße naïve Ελλάδα мир 世界 こんにちは 한국어 שלום العربية नमस्ते "
    "e\u0301 ﬁ ½ ① 😀 👩‍👩‍👧 \u2581 <0x41> <b> foo_bar() != ;; ... 'll don't"
).split(" ")
SPACES = ["", " ", "  ", "   ", "\n", "\n\n", "\t", " \n", "\u00a0", "\u3000"]


def texts(count=TEXTS):
    """Words of many scripts and characters of all planes, with spaces of all kinds between, before and behind. No
    combining character stands alone, which the tokenizers package drops where it normalizes, and no special piece is
    spelled out, which it takes for the piece itself."""
    draw = random.Random(1)
    made = ["", " ", "  ", " one", "one ", "  one", "\none"]
    while len(made) < count:
        parts = [draw.choice(SPACES)]
        for _ in range(draw.randrange(1, 12)):
            rare = chr(draw.choice([draw.randrange(32, 0xD800), draw.randrange(0x10000, 0x20000)]))
            plain = draw.random() < 0.9 or unicodedata.category(rare).startswith("M")
            parts += [draw.choice(WORDS) if plain else rare, draw.choice(SPACES)]
        made.append("".join(parts))
    return made


def train(path, kind, without="", **settings):
    with open(path, "wb") as out:
        settings = {
            "byte_fallback": True,
            "split_digits": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "allow_whitespace_only_pieces": True,
            "minloglevel": 2,
        } | settings
        text = Path(__file__).read_text().translate(str.maketrans("", "", without))
        lines = (line for line in text.splitlines() * 2)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines, model_writer=out, model_type=kind, vocab_size=480, **settings
        )


def thinwire(*arguments):
    done = subprocess.run([THINWIRE, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"thinwire {arguments}: {done.stderr}"
    return done.stderr


@PACKAGES.needed
class TokenizerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "hf").mkdir()
        self.model = self.root / "hf" / "tokenizer.model"

    def export(self, **config):
        shape = {"vocab_size": 490, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
        shape |= {"num_attention_heads": 2, "num_key_value_heads": 2}
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape | config))
        model.save_pretrained(self.root / "hf")
        thinwire("import", self.root / "hf", self.root / "imported")
        thinwire("export", self.root / "imported", self.root / "exported")
        return transformers.AutoTokenizer.from_pretrained(self.root / "exported")

    def assert_same_ids(self, tokenizer, ties=0):
        """Unigrams can divide a run of one character in several ways of equal score, such as three spaces into two and
        one: so the same text may be cut in other places in this many of the texts."""
        pieces = sentencepiece.SentencePieceProcessor(str(self.model))
        cut_elsewhere = 0
        for text in texts():
            ids, expected = tokenizer.encode(text, add_special_tokens=False), pieces.encode(text)
            if ids != expected:
                cut = "".join(tokenizer.convert_ids_to_tokens(ids))
                self.assertEqual(cut, "".join(pieces.id_to_piece(expected)), text)
                cut_elsewhere += 1
        self.assertLessEqual(cut_elsewhere, ties)
        self.assertEqual(len(tokenizer), pieces.get_piece_size())

    def test_merges(self):
        train(self.model, "bpe")
        tokenizer = self.export()
        self.assert_same_ids(tokenizer)
        self.assertEqual(tokenizer.encode("one")[0], tokenizer.bos_token_id)
        for text in (" one", "one", "Grüße, 世界! 😀"):
            self.assertEqual(tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)), text)

    def test_unigrams(self):
        train(self.model, "unigram")
        self.assert_same_ids(self.export(), ties=TEXTS // 1000)

    def test_bytes_that_a_text_spells_are_no_bytes(self):
        for kind in ("bpe", "unigram"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                self.root = Path(folder)
                (self.root / "hf").mkdir()
                self.model = self.root / "hf" / "tokenizer.model"
                train(self.model, kind, without="<>")
                tokenizer, pieces = self.export(), sentencepiece.SentencePieceProcessor(str(self.model))
                for text in ("<0x41>", "a<0x41><0x42> b", "<0x4", "<<0x00>>", " <0xFF>"):
                    self.assertEqual(tokenizer.encode(text, add_special_tokens=False), pieces.encode(text), text)

    def test_texts_that_are_normalised(self):
        for kind in ("bpe", "unigram"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                self.root = Path(folder)
                (self.root / "hf").mkdir()
                self.model = self.root / "hf" / "tokenizer.model"
                train(self.model, kind, normalization_rule_name="nmt_nfkc", remove_extra_whitespaces=True)
                self.assert_same_ids(self.export())

    def test_special_pieces_of_other_names(self):
        names = {"unk_piece": "[UNK]", "bos_piece": "[BEGIN]", "eos_piece": "<|end|>"}
        train(self.model, "bpe", user_defined_symbols=["<tool>"], **names)
        tokenizer = self.export()
        self.assertEqual((tokenizer.bos_token, tokenizer.eos_token), ("[BEGIN]", "<|end|>"))
        self.assertEqual((tokenizer.bos_token_id, tokenizer.eos_token_id), (1, 2))
        self.assert_same_ids(tokenizer)

    def test_qwen2_models_whose_tokenizer_transformers_misreads_are_told(self):
        train(self.model, "bpe")
        shape = {"vocab_size": 490, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
        config = transformers.Qwen2Config(**shape, num_attention_heads=2, num_key_value_heads=2)
        transformers.Qwen2ForCausalLM(config).save_pretrained(self.root / "hf")
        self.assertIn("PreTrainedTokenizerFast", thinwire("export", self.root / "hf", self.root / "pieces"))
        self.assert_same_ids(transformers.PreTrainedTokenizerFast.from_pretrained(self.root / "pieces"))
        self.model.unlink()
        own = transformers.Qwen2Tokenizer(vocab={c: i for i, c in enumerate(["<|endoftext|>", *"abc", "\u0120"])}, merges=[])
        own.save_pretrained(self.root / "hf")
        self.assertNotIn("PreTrainedTokenizerFast", thinwire("export", self.root / "hf", self.root / "own"))
        self.assertEqual(transformers.AutoTokenizer.from_pretrained(self.root / "own").encode("ab c"), [1, 2, 4, 3])

    def test_added_tokens_keep_their_ids(self):
        train(self.model, "bpe")
        (self.root / "hf" / "added_tokens.json").write_text('{"<|user|>": 480, "<|answer|>": 481}')
        tokenizer = self.export()
        self.assertEqual(tokenizer.convert_tokens_to_ids(["<|user|>", "<|answer|>"]), [480, 481])
        self.assertEqual(tokenizer.encode("hi<|answer|>", add_special_tokens=False)[-1], 481)

    def test_files_of_the_tokenizer_come_back(self):
        train(self.model, "bpe")
        first = self.export()
        first.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        first.add_tokens(["<|user|>"])
        first.save_pretrained(self.root / "exported")
        config = json.loads((self.root / "exported" / "tokenizer_config.json").read_text())
        config["add_bos_token"] = False
        (self.root / "exported" / "tokenizer_config.json").write_text(json.dumps(config))
        thinwire("import", self.root / "exported", self.root / "again")
        thinwire("export", self.root / "again", self.root / "out")
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            before, after = self.root / "exported" / name, self.root / "out" / name
            if before.exists():
                # The class that transformers 4 knows, too, is the same tokenizer.
                expected = before.read_text().replace('"TokenizersBackend"', '"PreTrainedTokenizerFast"')
                same = json.loads if name.endswith(".json") else str
                self.assertEqual(same(expected), same(after.read_text()), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
