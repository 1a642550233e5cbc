"""Texts with a class: `thinwire train` against a training loop of PyTorch around transformers' RoBERTa, from the same
weights and with the same learning rates. Every step takes all texts, so that their order does not matter, and the losses
agree step by step; so do the accuracy, F1 and Matthews's correlation of a validation set."""

import json
import os
import random
import sys
import tempfile
import unittest
from pathlib import Path

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "convert"))

try:
    import torch
    import transformers
    from roberta_case import make_model, make_tokenizer, save, thinwire
except ImportError as error:
    ABSENT = f"not installed: {error.name} (requirements-test.txt lists what this test needs)"
else:
    ABSENT = None

STEPS = 30
TEXTS = 24
WORDS = "the cat sat on a mat and it rains today while dogs sleep under trees near water".split()


def make_texts(seed, count):
    """Pairs of which class 1 shares its first word."""
    chosen = random.Random(seed)
    texts = []
    for _ in range(count):
        first, second = (chosen.choices(WORDS, k=chosen.randint(2, 6)) for _ in range(2))
        label = chosen.randint(0, 1)
        if label == 1:
            second[0] = first[0]
        texts.append({"text": " ".join(first), "text_pair": " ".join(second), "label": label})
    return texts


@unittest.skipIf(ABSENT, ABSENT)
class Labels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        cls.tokenizer = make_tokenizer([" ".join(WORDS)])
        cls.model = make_model(transformers.RobertaForSequenceClassification, cls.tokenizer,
                               hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        save(cls.model, cls.tokenizer, cls.root / "hf")
        cls.train, cls.held_out = make_texts(1, TEXTS), make_texts(2, 40)
        for name, texts in (("train", cls.train), ("dev", cls.held_out)):
            (cls.root / f"{name}.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))

    def run_thinwire(self, *arguments):
        status, output = thinwire(THINWIRE, *arguments)
        self.assertEqual(status, 0, output)
        return output

    def recipe(self):
        path = self.root / "recipe.toml"
        path.write_text(f"""
[run]
name = "labels"
[data]
dir = "{self.root}/data"
text = ["{self.root}/train.jsonl"]
validation_text = ["dev={self.root}/dev.jsonl"]
validation_fraction = 0
records = "labels"
vocabulary_model = "{self.root}/hf/tokenizer.json"
[train]
init = "{self.root}/hf"
steps = {STEPS}
batch = {TEXTS}
sequence = 32
workers = 2
threads = 1
device = "cpu"
precision = "fp32"
[optim]
lr = 3e-3
weight_decay = 0.1
clip = 1.0
[schedule]
warmup = 5
[eval]
every = {STEPS}
[sync]
method = "allreduce"
[allreduce]
wire = "fp32"
""")
        return path

    def events(self, folder, kind):
        lines = (folder / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def batch(self, texts):
        tokens = self.tokenizer([text["text"] for text in texts], [text["text_pair"] for text in texts], padding=True,
                                return_tensors="pt", return_token_type_ids=False)
        return tokens | {"labels": torch.tensor([text["label"] for text in texts])}

    def torch_loop(self, rates):
        """The loss of each step before it."""
        model = transformers.RobertaForSequenceClassification.from_pretrained(self.root / "hf").train()
        decayed = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim == 1]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                      betas=(0.9, 0.95), eps=1e-8)
        losses = []
        for rate in rates:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss = model(**self.batch(self.train)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses, model.eval()

    def test_losses_are_those_of_a_torch_loop(self):
        recipe = self.recipe()
        self.run_thinwire("prepare", recipe)
        self.run_thinwire("train", recipe, f"run.dir={self.root}/run")
        steps = self.events(self.root / "run", "step")
        self.assertEqual(len(steps), STEPS)
        expected, model = self.torch_loop([step["learning_rate"] for step in steps])
        self.assertLess(expected[-1], 0.5 * expected[0])  # something was learnt
        for step, loss in zip(steps, expected):
            self.assertAlmostEqual(step["loss"], loss, delta=2e-4 + 2e-3 * loss)
        self.check_metrics(model)
        self.check_evaluation()

    def check_metrics(self, model):
        summary = json.loads((self.root / "run" / "summary.json").read_text())
        batch = self.batch(self.held_out)
        with torch.no_grad():
            result = model(**batch)
        predicted, truth = result.logits.argmax(1), batch["labels"]
        pairs = [((predicted == a) & (truth == b)).sum().item() for a, b in ((1, 1), (1, 0), (0, 1), (0, 0))]
        tp, fp, fn, tn = pairs
        root = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
        expected = {"acc": (tp + tn) / len(truth), "f1": 2 * tp / (2 * tp + fp + fn),
                    "mcc": (tp * tn - fp * fn) / root if root else 0.0}
        for name, value in expected.items():
            self.assertAlmostEqual(summary["scores"][f"dev.{name}"], value, places=6)
        self.assertAlmostEqual(summary["val_loss"]["dev"], result.loss.item(), delta=5e-3 * result.loss.item())

    def check_evaluation(self):
        """`thinwire eval` of a GLUE task and of an exported folder gives the metrics of the run."""
        data = self.root / "glue" / "mrpc"
        data.mkdir(parents=True)
        (data / "dev.jsonl").write_text((self.root / "dev.jsonl").read_text())
        self.run_thinwire("export", self.root / "run", self.root / "exported")
        scores = json.loads((self.root / "run" / "summary.json").read_text())["scores"]
        for model in ("run", "exported"):
            tasks = json.loads(self.run_thinwire("eval", self.root / model, "mrpc", "--data", data.parent, "--json",
                                                 "--items", self.root / "items.jsonl"))["tasks"]
            self.assertEqual(tasks["mrpc"]["items"], len(self.held_out))
            for metric in ("acc", "f1"):
                self.assertAlmostEqual(tasks["mrpc"][metric], scores[f"dev.{metric}"], places=6)
        items = [json.loads(line) for line in (self.root / "items.jsonl").read_text().splitlines()]
        self.assertEqual([item["answer"] for item in items], [text["label"] for text in self.held_out])
        status, message = thinwire(THINWIRE, "eval", self.root / "run", "lambada", "--data", data.parent)
        self.assertNotEqual(status, 0)

    def test_packed_texts_do_not_see_each_other(self):
        recipe = self.recipe()
        self.run_thinwire("prepare", recipe)
        results = []
        for packing, fields in (("false", []), ("true", ["train.sequence=60", "train.batch=2"])):
            run = self.root / f"packed-{packing}"
            self.run_thinwire("train", recipe, f"run.dir={run}", f"train.packing={packing}", "train.steps=1",
                              "schedule.warmup=0", "optim.lr=1e-12", "eval.every=1", *fields)
            results.append(json.loads((run / "summary.json").read_text()))
        alone, packed = results
        self.assertAlmostEqual(packed["val_loss"]["dev"], alone["val_loss"]["dev"], places=5)
        self.assertEqual(packed["scores"], alone["scores"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
