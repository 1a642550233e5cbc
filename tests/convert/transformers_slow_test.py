"""Hugging Face's transformers and Thinwire read each other's Llama folders: small checkpoints made by
transformers go through `thinwire import` and `thinwire export` and come back with equal weights and
logits, tokenizers encode alike, and both programs write the same greedy text."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
SOURCE = Path(__file__).resolve().parents[2]
STORIES = Path(os.environ.get("THINWIRE_SHARED_DATA", "")) / "ckpt" / "stories260K"
LOGITS_TOLERANCE = 1e-4

PACKAGES = OptionalPackages()
with PACKAGES:
    import sentencepiece
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()

SHAPE = dict(
    vocab_size=101,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=6,
    max_position_embeddings=64,
    initializer_range=0.2,
)
CASES = {
    "untied": {},
    "tied": dict(tie_word_embeddings=True),
    "grouped-query": dict(num_key_value_heads=2, rope_parameters=dict(rope_type="default", rope_theta=5e5)),
}


def thinwire(*arguments):
    done = subprocess.run(
        [THINWIRE, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"thinwire {arguments}: {done.stderr}"
    return done.stdout


def make_model(**fields):
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**(SHAPE | fields))).eval()


def load(folder, dtype="float32"):
    model, info = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model.eval()


def logits(model):
    tokens = torch.arange(2 * 40).reshape(2, 40) * 7 % SHAPE["vocab_size"]
    with torch.no_grad():
        return model(tokens).logits.float()


def train_tokenizer(path):
    """A SentencePiece model as `thinwire prepare` trains it."""
    with open(path, "wb") as out, open(__file__) as text:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=text,
            model_writer=out,
            model_type="bpe",
            vocab_size=400,
            byte_fallback=True,
            split_digits=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            character_coverage=1.0,
            minloglevel=2,
        )


@PACKAGES.needed
class TransformersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def through_thinwire(self, *export_options):
        """self.root/hf -> import -> export; returns the exported folder."""
        thinwire("import", self.root / "hf", self.root / "imported")
        thinwire("export", self.root / "imported", self.root / "exported", *export_options)
        return self.root / "exported"

    def assert_same_model(self, model, exported):
        got, expected = exported.state_dict(), model.state_dict()
        self.assertEqual(got.keys(), expected.keys())
        for name, values in expected.items():
            self.assertTrue(torch.equal(got[name].float(), values.float()), name)
        difference = (logits(exported) - logits(model)).abs().max().item()
        self.assertLess(difference, LOGITS_TOLERANCE)

    def test_each_architecture_comes_back_with_equal_weights_and_logits(self):
        for case, fields in CASES.items():
            with self.subTest(case), tempfile.TemporaryDirectory() as folder:
                self.root = Path(folder)
                model = make_model(**fields)
                model.save_pretrained(self.root / "hf")
                exported = load(self.through_thinwire())
                self.assert_same_model(model, exported)
                self.assertEqual(exported.config.rope_parameters, model.config.rope_parameters)
                self.assertEqual(exported.config.tie_word_embeddings, model.config.tie_word_embeddings)

    def test_shards_with_an_index(self):
        model = make_model(num_key_value_heads=2)
        model.save_pretrained(self.root / "hf", max_shard_size="60KB")
        self.assertGreater(len(list((self.root / "hf").glob("*.safetensors"))), 2)
        self.assert_same_model(model, load(self.through_thinwire()))

    def test_half_precision_checkpoints(self):
        for dtype in (torch.bfloat16, torch.float16):
            with self.subTest(dtype), tempfile.TemporaryDirectory() as folder:
                self.root = Path(folder)
                make_model().to(dtype).save_pretrained(self.root / "hf")
                exported = load(self.through_thinwire())
                self.assert_same_model(load(self.root / "hf"), exported)

    def test_bf16_export_holds_the_rounded_weights(self):
        model = make_model()
        model.save_pretrained(self.root / "hf")
        exported = self.through_thinwire("--dtype", "bf16")
        self.assertEqual(load(exported, dtype="auto").dtype, torch.bfloat16)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.bfloat16).float()
        self.assert_same_model(model, load(exported))

    def test_tokenizer_encodes_and_decodes_as_sentencepiece_does(self):
        make_model(vocab_size=400).save_pretrained(self.root / "hf")
        train_tokenizer(self.root / "hf" / "tokenizer.model")
        pieces = sentencepiece.SentencePieceProcessor(str(self.root / "hf" / "tokenizer.model"))
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.through_thinwire())
# No leading space: transformers would take it for the one that encoding adds.
        for text in ("the licence of 2004, and its  terms", "Grüße, 世界!", "two\nlines\n"):
            tokens = tokenizer.encode(text, add_special_tokens=False)
            self.assertEqual(tokens, pieces.encode(text), text)
            self.assertEqual(tokenizer.decode(tokens), text)

    def test_greedy_text_is_that_of_transformers(self):
        model = make_model(vocab_size=400, num_key_value_heads=2)
# No byte and control tokens: bytes that are not UTF-8 are shown in different ways.
        model.lm_head.weight.data[:259] = 0
        model.save_pretrained(self.root / "hf")
        train_tokenizer(self.root / "hf" / "tokenizer.model")
        exported = self.through_thinwire()
        tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
        start = tokenizer("the terms", return_tensors="pt")
        self.assertEqual(start["input_ids"][0, 0], tokenizer.bos_token_id)
        tokens = load(exported).generate(**start, do_sample=False, max_new_tokens=40)[0]
        expected = tokenizer.decode(tokens, skip_special_tokens=True)
        written = thinwire("generate", self.root / "imported", "--prompt", "the terms", "--greedy", "--tokens", 40)
        self.assertEqual(written.removesuffix("\n"), expected)

    def test_a_run_and_its_export_write_the_same_greedy_text_as_transformers(self):
        (self.root / "text.txt").write_text(Path(__file__).read_text().replace("\n    def", "\n\n    def"))
        fields = [f"data.text={self.root}/text.txt", f"data.dir={self.root}/tokens", "data.vocabulary_size=400"]
        thinwire("prepare", *fields)
        model = ["model.hidden=64", "model.layers=2", "train.sequence=48", "optim.lr=0.01", "train.steps=80"]
        (self.root / "recipe.toml").write_text('run.name = "tiny"\n')
        thinwire("train", self.root / "recipe.toml", *fields, *model, f"run.dir={self.root}/run")
        thinwire("export", self.root / "run", self.root / "exported")
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.root / "exported")
        exported = load(self.root / "exported")
        for prompt in ("", "def test", "The tokens", "self.assertEqual("):
            with self.subTest(prompt):
                start = tokenizer(prompt, return_tensors="pt")
                self.assertEqual(start["input_ids"][0, 0], exported.config.eos_token_id)
                tokens = exported.generate(**start, do_sample=False, max_new_tokens=30)[0]
                expected = tokenizer.decode(tokens, skip_special_tokens=True)
                for folder in ("run", "exported"):
                    arguments = ["--prompt", prompt, "--greedy", "--tokens", 30]
                    written = thinwire("generate", self.root / folder, *arguments)
                    self.assertEqual(written.removesuffix("\n"), expected, folder)


@PACKAGES.needed
@unittest.skipUnless(STORIES.is_dir(), "the checkpoint stories260K is not beside the source tree")
class StoriesTest(unittest.TestCase):
    """A real checkpoint, whose greedy text is published."""

    def test_greedy_text_is_the_published_one(self):
        sys.path.insert(0, str(SOURCE / "tests" / "golden"))
        import stories260k_to_hf as stories

        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            stories.convert(STORIES, root / "hf")
            pieces = stories.read_pieces(STORIES / "tok512.bin")
            scores = stories_scores(STORIES / "tok512.bin")
            write_sentencepiece(root / "hf" / "tokenizer.model", pieces, scores)
            thinwire("import", root / "hf", root / "imported")
            written = thinwire("generate", root / "imported", "--greedy", "--ignore-end", "--tokens", 256)
            published = stories.published_text(STORIES / "stories260K.md")
            self.assertEqual(written.rstrip(), published.rstrip())


def stories_scores(path):
    raw, at, scores = path.read_bytes(), 4, []
    while at < len(raw):
        scores.append(float(memoryview(raw)[at : at + 4].cast("f")[0]))
        at += 8 + int.from_bytes(raw[at + 4 : at + 8], "little")
    return scores


def write_sentencepiece(path, pieces, scores):
    """llama2.c's list of pieces as the SentencePiece model it was made from."""
    from sentencepiece import sentencepiece_model_pb2 as proto

    model = proto.ModelProto()
    kind = proto.ModelProto.SentencePiece
    for token, (piece, score) in enumerate(zip(pieces, scores)):
        text = piece.decode().replace(" ", "\u2581")
        special = {0: ("<unk>", kind.UNKNOWN), 1: ("<s>", kind.CONTROL), 2: ("</s>", kind.CONTROL)}
        is_byte = re.fullmatch("<0x[0-9A-F]{2}>", text)
        text, piece_type = special.get(token, (text, kind.BYTE if is_byte else kind.NORMAL))
        model.pieces.add(piece=text, score=score, type=piece_type)
    model.trainer_spec.model_type = proto.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.vocab_size = len(pieces)
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.remove_extra_whitespaces = False
    path.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    unittest.main(verbosity=2)
