"""Texts with a class: `thinwire train` against a training loop of PyTorch around transformers' RoBERTa, from the same
weights and with the same learning rates. Every step takes all texts, so that their order does not matter, and the losses
agree step by step; so do the accuracy, F1 and Matthews's correlation of a validation set. The same for texts with a
number, and Pearson's and Spearman's correlation."""

import json
import os
import random
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "convert"))

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    import transformers
    from roberta_case import make_model, make_tokenizer, save, thinwire

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


def number_of(text):
    """Half of its words, and a tenth of those of its pair."""
    first, second = (len(text[field].split()) for field in ("text", "text_pair"))
    return round(0.5 * first + 0.1 * second, 3)


def ranks(numbers):
    """Equal numbers share the mean of their ranks."""
    return [sum(other < number for other in numbers) + (numbers.count(number) - 1) / 2 for number in numbers]


def correlation(a, b):
    return torch.corrcoef(torch.tensor([a, b], dtype=torch.float64))[0, 1].item()


class Case(unittest.TestCase):
    RECORDS, MODEL, LABEL = "labels", {}, staticmethod(lambda text: text["label"])

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        cls.tokenizer = make_tokenizer([" ".join(WORDS)])
        cls.model = make_model(transformers.RobertaForSequenceClassification, cls.tokenizer,
                               hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **cls.MODEL)
        save(cls.model, cls.tokenizer, cls.root / "hf")
        cls.train, cls.held_out = make_texts(1, TEXTS), make_texts(2, 40)
        for text in cls.train + cls.held_out:
            text["label"] = cls.LABEL(text)
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
records = "{self.RECORDS}"
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

    def compare_with_torch(self):
        """Returns the model of the loop of PyTorch, whose losses were those of the run in root/run."""
        recipe = self.recipe()
        self.run_thinwire("prepare", recipe)
        self.run_thinwire("train", recipe, f"run.dir={self.root}/run")
        steps = self.events(self.root / "run", "step")
        self.assertEqual(len(steps), STEPS)
        expected, model = self.torch_loop([step["learning_rate"] for step in steps])
        self.assertLess(expected[-1], 0.5 * expected[0])  # something was learnt
        for step, loss in zip(steps, expected):
            self.assertAlmostEqual(step["loss"], loss, delta=2e-4 + 2e-3 * loss)
        return model

    def predict(self, model):
        """For the validation set, the output of transformers' model, and the labels."""
        batch = self.batch(self.held_out)
        with torch.no_grad():
            return model(**batch), batch["labels"]

    def evaluate_packed(self):
        """Summaries of runs that change nothing, without and with packing."""
        recipe = self.recipe()
        self.run_thinwire("prepare", recipe)
        results = []
        for packing, fields in (("false", []), ("true", ["train.sequence=60", "train.batch=2"])):
            run = self.root / f"packed-{packing}"
            self.run_thinwire("train", recipe, f"run.dir={run}", f"train.packing={packing}", "train.steps=1",
                              "schedule.warmup=0", "optim.lr=1e-12", "eval.every=1", *fields)
            results.append(json.loads((run / "summary.json").read_text()))
        return results


@PACKAGES.needed
class Labels(Case):
    def test_losses_are_those_of_a_torch_loop(self):
        self.check_metrics(self.compare_with_torch())
        self.check_evaluation()

    def check_metrics(self, model):
        summary = json.loads((self.root / "run" / "summary.json").read_text())
        result, truth = self.predict(model)
        predicted = result.logits.argmax(1)
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
                                                 "--items", self.root / f"{model}.jsonl"))["tasks"]
            self.assertEqual(tasks["mrpc"]["items"], len(self.held_out))
            for metric in ("acc", "f1"):
                self.assertAlmostEqual(tasks["mrpc"][metric], scores[f"dev.{metric}"], places=6)
        items = [json.loads(line) for line in (self.root / "exported.jsonl").read_text().splitlines()]
        self.assertEqual([item["answer"] for item in items], [text["label"] for text in self.held_out])
        status, message = thinwire(THINWIRE, "eval", self.root / "run", "lambada", "--data", data.parent)
        self.assertNotEqual(status, 0)

    def test_packed_texts_do_not_see_each_other(self):
        alone, packed = self.evaluate_packed()
        self.assertAlmostEqual(packed["val_loss"]["dev"], alone["val_loss"]["dev"], places=5)
        self.assertEqual(packed["scores"], alone["scores"])


@PACKAGES.needed
class Numbers(Case):
    RECORDS, MODEL, LABEL = "numbers", {"num_labels": 1}, staticmethod(number_of)

    def test_losses_and_correlations_are_those_of_a_torch_loop(self):
        model = self.compare_with_torch()
        summary = json.loads((self.root / "run" / "summary.json").read_text())
        result, truth = self.predict(model)
        truth, predicted = truth.tolist(), result.logits.squeeze(1).tolist()
        pearson, spearman = correlation(truth, predicted), correlation(ranks(truth), ranks(predicted))
        self.assertAlmostEqual(summary["val_loss"]["dev"], result.loss.item(), delta=5e-3 * result.loss.item())
        self.assertEqual(list(summary["scores"]), ["dev.pearson"])
        self.assertAlmostEqual(summary["scores"]["dev.pearson"], pearson, delta=2e-3)
        data = self.root / "glue" / "stsb"
        data.mkdir(parents=True)
        (data / "dev.jsonl").write_text((self.root / "dev.jsonl").read_text())
        self.run_thinwire("export", self.root / "run", self.root / "exported")
        for folder in ("run", "exported"):
            task = json.loads(self.run_thinwire("eval", self.root / folder, "stsb", "--data", data.parent, "--json",
                                                "--items", self.root / f"{folder}.jsonl"))["tasks"]["stsb"]
            self.assertAlmostEqual(task["pearson"], summary["scores"]["dev.pearson"], places=4)
            self.assertAlmostEqual(task["spearman"], spearman, delta=5e-3)
        items = [json.loads(line) for line in (self.root / "exported.jsonl").read_text().splitlines()]
        self.assertEqual([item["answer"] for item in items], [text["label"] for text in self.held_out])
        self.assertAlmostEqual(correlation([item["answer"] for item in items], [item["logits"][0] for item in items]),
                               task["pearson"], places=6)
        (self.root / "glue" / "mrpc").symlink_to(data)
        status, message = thinwire(THINWIRE, "eval", self.root / "run", "mrpc", "--data", data.parent)
        self.assertNotEqual(status, 0)
        self.assertIn("which is not one of 0, 1", message)

    def test_packed_texts_give_the_same(self):
        alone, packed = self.evaluate_packed()
        self.assertAlmostEqual(packed["val_loss"]["dev"], alone["val_loss"]["dev"], places=4)

    def test_what_does_not_fit_is_named(self):
        recipe = self.recipe()
        self.run_thinwire("prepare", recipe)
        for fields, message in (
            (["data.records=labels"], "[roberta] labels must be >= 2 with [data] records = \"labels\", got 1"),
            (["model.architecture=llama", "train.init="], "[data] records = \"numbers\" needs an encoder"),
            (["train.init=", "model.architecture=roberta", "roberta.labels=2"],
             "[roberta] labels must be 1, the number that is predicted, with"),
        ):
            with self.subTest(message):
                status, output = thinwire(THINWIRE, "train", recipe, f"run.dir={self.root}/no", *fields)
                self.assertNotEqual(status, 0)
                self.assertIn(message, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
