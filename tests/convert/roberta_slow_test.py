"""A random RoBERTa made by transformers: `thinwire logits` gives transformers' logits for texts and pairs, and
`thinwire export` gives back what was imported, config field by field, tokenizer and logits."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    import transformers
    from roberta_case import make_model, make_tokenizer, save, thinwire

TEXTS = [("the cat sat", None), ("it rains today", "the mat <mask> and the cat"), ("été 😀\n", "x"), ("a", "a" * 40)]
NAMES = {"id2label": {0: "yes", 1: "maybe", 2: "no"}, "label2id": {"yes": 0, "maybe": 1, "no": 2}}


@PACKAGES.needed
class Roberta(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.tokenizer = make_tokenizer(["the cat sat on the mat and it rains today"])

    def run_thinwire(self, *arguments):
        status, output = thinwire(THINWIRE, *arguments)
        self.assertEqual(status, 0, output)
        return output

    def refusal(self, *arguments):
        status, output = thinwire(THINWIRE, *arguments)
        self.assertNotEqual(status, 0)
        return output

    def logits(self, model, text, pair):
        with torch.no_grad():
            return model(**self.tokenizer(text, pair, return_tensors="pt", return_token_type_ids=False)).logits

    def test_logits_are_transformers(self):
        model = make_model(transformers.RobertaForSequenceClassification, self.tokenizer, **NAMES)
        folder = save(model, self.tokenizer, self.root / "hf")
        self.run_thinwire("import", folder, self.root / "imported")
        for source in (folder, self.root / "imported"):
            for text, pair in TEXTS:
                found = json.loads(self.run_thinwire("logits", source, "--text", text,
                                                     *([] if pair is None else ["--text-pair", pair])))
                self.assertEqual(found["tokens"], self.tokenizer(text, pair)["input_ids"])
                difference = (torch.tensor(found["logits"]) - self.logits(model, text, pair)).abs().max().item()
                self.assertLess(difference, 1e-4)

    def test_export_gives_back_what_was_imported(self):
        model = make_model(transformers.RobertaForSequenceClassification, self.tokenizer, hidden_dropout_prob=0.2,
                           type_vocab_size=3, **NAMES)
        folder = save(model, self.tokenizer, self.root / "hf")
        self.run_thinwire("import", folder, self.root / "imported")
        self.run_thinwire("export", self.root / "imported", self.root / "exported")
        self.assertEqual(json.loads((self.root / "exported" / "config.json").read_text()),
                         json.loads((folder / "config.json").read_text()))
        again = transformers.RobertaForSequenceClassification.from_pretrained(self.root / "exported").eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.root / "exported")
        for text, pair in TEXTS:
            self.assertEqual(tokenizer(text, pair)["input_ids"], self.tokenizer(text, pair)["input_ids"])
            self.assertTrue(torch.equal(self.logits(again, text, pair), self.logits(model, text, pair)))

    def test_one_that_predicts_a_number_gives_it(self):
        model = make_model(transformers.RobertaForSequenceClassification, self.tokenizer, num_labels=1)
        folder = save(model, self.tokenizer, self.root / "hf")
        for text, pair in TEXTS:
            second = [] if pair is None else ["--text-pair", pair]
            row = json.loads(self.run_thinwire("logits", folder, "--text", text, *second))["logits"]
            self.assertEqual(len(row[0]), 1)
            self.assertAlmostEqual(row[0][0], float(self.logits(model, text, pair)[0]), delta=1e-4)
        self.run_thinwire("import", folder, self.root / "imported")
        self.run_thinwire("export", self.root / "imported", self.root / "exported")
        again = transformers.RobertaForSequenceClassification.from_pretrained(self.root / "exported")
        self.assertEqual(again.config.num_labels, 1)

    def test_a_published_encoder_gets_a_head(self):
        folder = save(make_model(transformers.RobertaForMaskedLM, self.tokenizer), self.tokenizer, self.root / "hf")
        self.assertIn("has no classification head; `thinwire import", self.refusal("import", folder, self.root / "no"))
        self.assertIn("has no classification head", self.refusal("logits", folder, "--text", "a"))
        self.run_thinwire("import", folder, self.root / "imported", "--labels", 4)
        self.assertIn("has a classification head; only an encoder without one gets a new one", self.refusal(
            "import", self.run_thinwire("export", self.root / "imported", self.root / "exported").strip(),
            self.root / "no", "--labels", 4))
        model, info = transformers.RobertaForSequenceClassification.from_pretrained(
            self.root / "exported", output_loading_info=True)
        self.assertEqual((model.config.num_labels, list(info["missing_keys"]), list(info["unexpected_keys"])), (4, [], []))

    def test_an_encoder_alone_gets_the_head_of_one_under_another(self):
        kinds = {"alone": transformers.RobertaModel, "masked": transformers.RobertaForMaskedLM}
        rows = {}
        for name, kind in kinds.items():
            model = make_model(kind, self.tokenizer)
            encoder = getattr(model, "roberta", model)
            if name == "masked":
                encoder.load_state_dict(alone, strict=False)
            alone = encoder.state_dict()
            folder = save(model, self.tokenizer, self.root / name)
            self.assertIn("has no classification head; `thinwire import",
                          self.refusal("import", folder, self.root / "no"))
            self.run_thinwire("import", folder, self.root / f"{name}_imported", "--labels", 3)
            rows[name] = [self.run_thinwire("logits", self.root / f"{name}_imported", "--text", text)
                          for text, _ in TEXTS]
        self.assertEqual(rows["alone"], rows["masked"])
        self.run_thinwire("export", self.root / "alone_imported", self.root / "exported")
        model, info = transformers.RobertaForSequenceClassification.from_pretrained(
            self.root / "exported", output_loading_info=True)
        self.assertEqual((list(info["missing_keys"]), list(info["unexpected_keys"])), ([], []))
        self.assertTrue(torch.equal(model.roberta.embeddings.word_embeddings.weight,
                                    alone["embeddings.word_embeddings.weight"]))

    def test_older_folders_hold_vocab_and_merges(self):
        model = make_model(transformers.RobertaForSequenceClassification, self.tokenizer, **NAMES)
        folder = save(model, self.tokenizer, self.root / "hf")
        self.tokenizer.backend_tokenizer.model.save(str(folder))
        (folder / "tokenizer.json").unlink()
        mask = {"content": "<mask>", "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "RobertaTokenizer"}))
        (folder / "special_tokens_map.json").write_text(json.dumps({"mask_token": mask}))
        self.run_thinwire("import", folder, self.root / "imported")
        self.run_thinwire("export", self.root / "imported", self.root / "exported")
        exported = transformers.AutoTokenizer.from_pretrained(self.root / "exported")
        for text, pair in TEXTS:
            expected = self.tokenizer(text, pair)["input_ids"]
            self.assertEqual(exported(text, pair)["input_ids"], expected)
            for source in (folder, self.root / "imported"):
                found = json.loads(self.run_thinwire("logits", source, "--text", text,
                                                     *([] if pair is None else ["--text-pair", pair])))
                self.assertEqual(found["tokens"], expected)

    def test_what_is_not_computed_is_refused(self):
        model = make_model(transformers.RobertaForSequenceClassification, self.tokenizer)
        folder = save(model, self.tokenizer, self.root / "hf")
        config = json.loads((folder / "config.json").read_text())
        for fields, message in (
            ({"hidden_act": "relu"}, 'hidden_act is "relu"; only "gelu" is supported'),
            ({"is_decoder": True}, "is_decoder is true; only false is supported"),
            ({"position_embedding_type": "relative_key"}, 'position_embedding_type is "relative_key"'),
            ({"problem_type": "regression"},
             'problem_type is "regression"; with 2 labels only "single_label_classification" is supported'),
            ({"pad_token_id": 0}, "pad_token_id must be 1, got 0"),
            ({"id2label": {"0": "score"}, "problem_type": "single_label_classification"},
             'problem_type is "single_label_classification"; with 1 label only "regression" is supported'),
            ({"max_position_embeddings": 2}, "max_position_embeddings must be > 2, got 2"),
            ({"layer_norm_eps": 0}, "layer_norm_eps must be > 0 and < 1, got 0"),
            ({"num_attention_heads": 5}, "hidden must be an even multiple of heads"),
            ({"rotary": 3}, "rotary"),
        ):
            with self.subTest(fields):
                (folder / "config.json").write_text(json.dumps(config | fields))
                self.assertIn(message, self.refusal("import", folder, self.root / "no"))
                self.assertFalse((self.root / "no").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
