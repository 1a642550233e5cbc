"""PEFT and Thinwire read each other's adapters: Thinwire loads one made by PEFT, and PEFT one that a run trained, with
equal logits."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

sys.path.insert(0, str(Path(__file__).resolve().parent))

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
LOGITS_TOLERANCE = 1e-4

PACKAGES = OptionalPackages()
with PACKAGES:
    import peft
    import torch
    import transformers
    from roberta_case import make_model, make_tokenizer, save

    transformers.utils.logging.disable_progress_bar()

SHAPE = dict(
    vocab_size=258,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    initializer_range=0.2,
)


def thinwire(*arguments):
    done = subprocess.run(
        [THINWIRE, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"thinwire {arguments}: {done.stderr}"
    return done.stdout


def load(folder):
    return transformers.LlamaForCausalLM.from_pretrained(folder, dtype="float32").eval()


def logits(model):
    tokens = torch.arange(2 * 40).reshape(2, 40) * 7 % SHAPE["vocab_size"]
    with torch.no_grad():
        return model(tokens).logits.float()


@PACKAGES.needed
class PeftTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        torch.manual_seed(0)
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE)).save_pretrained(self.root / "base")

    def assert_same_logits(self, got, expected):
        self.assertLess((logits(got) - logits(expected)).abs().max().item(), LOGITS_TOLERANCE)
        self.assertGreater((logits(got) - logits(load(self.root / "base"))).abs().max().item(), 0.01)

    def assert_merged_as_peft_uses_it(self, **fields):
        with self.subTest(**fields), tempfile.TemporaryDirectory() as folder:
            model = peft.get_peft_model(load(self.root / "base"), peft.LoraConfig(
                r=5, lora_alpha=11, task_type="CAUSAL_LM", **fields))
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.data.normal_(std=0.2)
            model.eval().save_pretrained(Path(folder) / "peft")
            thinwire("import", Path(folder) / "peft", Path(folder) / "imported", "--base", self.root / "base")
            thinwire("export", Path(folder) / "imported", Path(folder) / "merged")
            self.assert_same_logits(load(Path(folder) / "merged"), model)

    def test_thinwire_merges_what_peft_wrote(self):
        self.assert_merged_as_peft_uses_it(target_modules=["q_proj", "down_proj"])
        self.assert_merged_as_peft_uses_it(
            target_modules="all-linear", use_rslora=True, modules_to_save=["lm_head"])

    def save_tied_base(self):
        config = transformers.LlamaConfig(**SHAPE, tie_word_embeddings=True)
        transformers.LlamaForCausalLM(config).save_pretrained(self.root / "base")

    def test_a_tied_embedding_that_peft_trained_is_merged_as_peft_uses_it(self):
        self.save_tied_base()
        for fields in (dict(modules_to_save=["embed_tokens"]), dict(modules_to_save=["lm_head"]),
                       dict(modules_to_save=["embed_tokens", "lm_head"]),
                       dict(modules_to_save=["embed_tokens"], ensure_weight_tying=True)):
            self.assert_merged_as_peft_uses_it(target_modules=["q_proj"], **fields)

    def test_peft_loads_a_tied_embedding_that_a_run_trained(self):
        self.save_tied_base()
        data = self.prepare()
        thinwire("train", self.root / "recipe.toml", *data, f"run.dir={self.root}/run",
                 f"train.init={self.root}/base", "train.steps=8", "train.batch=4", "train.sequence=32",
                 "optim.lr=0.02", "adapter.kind=lora", "adapter.rank=4", 'adapter.whole=["embed_tokens"]')
        thinwire("export", self.root / "run", self.root / "merged")
        thinwire("export", self.root / "run", self.root / "peft", "--adapter")
        model = peft.PeftModel.from_pretrained(load(self.root / "base"), self.root / "peft").eval()
        self.assert_same_logits(model, load(self.root / "merged"))
        # Its own reader knows that the two tensors are one.
        thinwire("import", self.root / "peft", self.root / "again", "--base", self.root / "base")
        thinwire("export", self.root / "again", self.root / "both")
        self.assertTrue(json.loads((self.root / "both" / "config.json").read_text())["tie_word_embeddings"])
        self.assert_same_logits(load(self.root / "both"), load(self.root / "merged"))
        thinwire("train", self.root / "recipe.toml", *data, f"run.dir={self.root}/next",
                 f"train.init={self.root}/base", f"adapter.init={self.root}/peft", "train.steps=1", "train.batch=4",
                 "train.sequence=32", "adapter.kind=lora", "adapter.rank=4", 'adapter.whole=["embed_tokens"]')

    def test_activated_lora_is_refused(self):
        model = peft.get_peft_model(load(self.root / "base"), peft.LoraConfig(
            r=5, task_type="CAUSAL_LM", target_modules=["q_proj"], alora_invocation_tokens=[5, 6]))
        model.save_pretrained(self.root / "peft")
        done = subprocess.run([THINWIRE, "import", self.root / "peft", self.root / "imported", "--base",
                               self.root / "base"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("alora_invocation_tokens = [5,6] is a variant", done.stderr)

    def prepare(self):
        (self.root / "text.txt").write_text(Path(__file__).read_text())
        data = [f"data.text={self.root}/text.txt", f"data.dir={self.root}/tokens", "data.vocabulary=byte",
                "data.document=line"]
        thinwire("prepare", *data)
        (self.root / "recipe.toml").write_text('run.name = "tuned"\n')
        return data

    def test_peft_loads_what_a_run_trained(self):
        data = self.prepare()
        for targets, whole in (('["*_proj"]', "[]"), ('["layers.1.*", "q_proj"]', '["model.norm", "lm_head"]')):
            with self.subTest(targets), tempfile.TemporaryDirectory() as folder:
                thinwire("train", self.root / "recipe.toml", *data, f"run.dir={folder}/run",
                         f"train.init={self.root}/base", "train.steps=8", "train.batch=4", "train.sequence=32",
                         "optim.lr=0.02", "adapter.kind=lora", "adapter.rank=4", f"adapter.targets={targets}",
                         f"adapter.whole={whole}")
                thinwire("export", f"{folder}/run", f"{folder}/merged")
                thinwire("export", f"{folder}/run", f"{folder}/peft", "--adapter")
                model = peft.PeftModel.from_pretrained(load(self.root / "base"), f"{folder}/peft").eval()
                self.assert_same_logits(model, load(f"{folder}/merged"))


TEXTS = [("the cat sat on the mat", "it rains today"), ("a dog sleeps", "trees near water")]


@PACKAGES.needed
class EncoderTest(unittest.TestCase):
    """RoBERTa with a classification head, which PEFT trains in full beside the factors."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.tokenizer = make_tokenizer([" ".join(pair) for pair in TEXTS])
        save(make_model(transformers.RobertaForSequenceClassification, self.tokenizer), self.tokenizer, self.root / "base")

    def load(self, folder):
        return transformers.RobertaForSequenceClassification.from_pretrained(folder).eval()

    def logits(self, model):
        tokens = self.tokenizer(*zip(*TEXTS), padding=True, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            return model(**tokens).logits

    def assert_same_logits(self, got, expected):
        self.assertLess((self.logits(got) - self.logits(expected)).abs().max().item(), LOGITS_TOLERANCE)
        self.assertGreater((self.logits(got) - self.logits(self.load(self.root / "base"))).abs().max().item(), 0.01)

    def test_thinwire_merges_what_peft_wrote(self):
        model = peft.get_peft_model(self.load(self.root / "base"), peft.LoraConfig(
            r=3, lora_alpha=7, task_type="SEQ_CLS", target_modules=["query", "value", "intermediate.dense"]))
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data.normal_(std=0.2)
        model.eval().save_pretrained(self.root / "peft")
        thinwire("import", self.root / "peft", self.root / "imported", "--base", self.root / "base")
        thinwire("export", self.root / "imported", self.root / "merged")
        self.assert_same_logits(self.load(self.root / "merged"), model)

    def test_peft_loads_what_a_run_trained(self):
        lines = [json.dumps({"text": a, "text_pair": b, "label": label}) for label, (a, b) in enumerate(TEXTS)]
        (self.root / "texts.jsonl").write_text("\n".join(lines * 8) + "\n")
        data = [f"data.text={self.root}/texts.jsonl", f"data.dir={self.root}/tokens", "data.records=labels",
                "data.validation_fraction=0", f"data.vocabulary_model={self.root}/base/tokenizer.json",
                f"train.init={self.root}/base"]
        thinwire("prepare", *data)
        (self.root / "recipe.toml").write_text('run.name = "tuned"\n')
        thinwire("train", self.root / "recipe.toml", *data, f"run.dir={self.root}/run", "train.steps=8",
                 "train.batch=4", "train.sequence=32", "optim.lr=0.02", "adapter.kind=lora",
                 "adapter.rank=4", 'adapter.targets=["query", "output.dense"]')
        thinwire("export", self.root / "run", self.root / "merged")
        thinwire("export", self.root / "run", self.root / "peft", "--adapter")
        config = json.loads((self.root / "peft" / "adapter_config.json").read_text())
        self.assertEqual((config["task_type"], config["modules_to_save"]), ("SEQ_CLS", ["classifier"]))
        model = peft.PeftModel.from_pretrained(self.load(self.root / "base"), self.root / "peft").eval()
        self.assert_same_logits(model, self.load(self.root / "merged"))
        head = [self.load(self.root / folder).classifier.out_proj.weight for folder in ("base", "merged")]
        self.assertFalse(torch.equal(*head))


if __name__ == "__main__":
    unittest.main()
