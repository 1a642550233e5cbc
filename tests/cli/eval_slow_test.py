"""`thinwire eval` gives the log-likelihoods and accuracies of a reference that scores one choice at a time with
transformers, as the LM evaluation harness defines them, and those that the harness itself gave for stories260K."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
SOURCE = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("THINWIRE_SHARED_DATA", ""))
STORIES = SHARED / "ckpt" / "stories260K"
TOLERANCE = 1e-3

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()


def arc(stem, *choices, answer):
    texts = [{"text": text, "label": label} for text, label in zip(choices, "ABCDE")]
    return {"question": {"stem": stem, "choices": texts}, "answerKey": answer}


SCIENCE = [
    arc("Which of these is a metal?", "iron", "wood", "glass", "wool", answer="A"),
    arc("What do plants need to grow? ", "light and water", "light and sound", "noise", answer="A"),
    arc("A wire gets warm because", "of a current", "it is thin", "the wind blows", "of copper", answer="B"),
]
WAYS = [
    {"goal": "cut a wire", "sol1": "Use a pair of pliers.", "sol2": "Use a pair of socks."},
    {"goal": "boil an egg", "sol1": "Put it into cold milk", "sol2": "Put it into boiling water "},
]
BLANKS = [
    {"sentence": "Ann met Eve when _ was ill.", "option1": "Ann", "option2": "Eve", "answer": "2"},
    {"sentence": "The cup did not fit the box as the _ was small.", "option1": "cup", "option2": "box", "answer": "2"},
]
ENDINGS = "Roof: A man is on a roof. he\n2\nsings.\nis in [x] a boat.\nmends  the roof.\nsleeps in a wire.\n"
PASSAGES = ["He asked the clerk for the ticket", "the wire was thin and the wire was long"]


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def write_data(folder):
    for name in ("arc/ARC-Easy-Dev.jsonl", "arc/ARC-Challenge-Dev.jsonl", "openbookqa/dev.jsonl"):
        write_lines(folder / name, SCIENCE)
    write_lines(folder / "piqa/valid.jsonl", WAYS)
    (folder / "piqa/valid-labels.lst").write_text("0\n1\n")
    write_lines(folder / "winogrande/dev.jsonl", BLANKS)
    (folder / "hellaswag").mkdir()
    (folder / "hellaswag/hellaswag_val_full.txt").write_text(ENDINGS)
    write_lines(folder / "lambada/lambada_test.jsonl", [{"text": text} for text in PASSAGES])


def expected_items():
    """Each task's items as [(context, continuation) of each choice], right choice, choices' texts."""
    letters = "ABCDE".index
    ask = "Question: {}\nAnswer:".format

    def choices(context, texts, answer):
        return [(context, " " + text) for text in texts], answer, texts

    science = [
        (item["question"]["stem"], [c["text"] for c in item["question"]["choices"]], letters(item["answerKey"]))
        for item in SCIENCE
    ]
    blanks = []
    for item in BLANKS:
        before, after = item["sentence"].split("_")
        starts = [before + item["option1"], before + item["option2"]]
        blanks.append(([(start, " " + after.strip()) for start in starts], int(item["answer"]) - 1, None))
    endings = ["sings.", "is in a boat.", "mends the roof.", "sleeps in a wire."]
    return {
        "arc_easy": [choices(ask(stem), texts, answer) for stem, texts, answer in science],
        "openbookqa": [choices(stem, texts, answer) for stem, texts, answer in science],
        "piqa": [choices(ask(item["goal"]), [item["sol1"], item["sol2"]], i) for i, item in enumerate(WAYS)],
        "winogrande": blanks,
        "hellaswag": [choices("Roof: A man is on a roof. he", endings, 2)],
        "lambada": [([(before, " " + last)], None, None) for before, last in (text.rsplit(" ", 1) for text in PASSAGES)],
    }


class Reference:
    """Scores continuations one at a time, in the way of the harness's class HFLM."""

    def __init__(self, folder):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.length = self.model.config.max_position_embeddings

    def score(self, context, continuation):
        spaces = len(context) - len(context.rstrip())
        if spaces:
            context, continuation = context[:-spaces], context[-spaces:] + continuation
        before = self.tokenizer.encode(context)
        return self.score_tokens(before, self.tokenizer.encode(context + continuation)[len(before) :])

    def score_tokens(self, before, answer):
        inputs = torch.tensor([(before + answer)[-(self.length + 1) :][:-1]])
        with torch.no_grad():
            log_p = self.model(inputs).logits[0, -len(answer) :].double().log_softmax(-1)
        chosen = log_p.gather(-1, torch.tensor(answer)[:, None])
        return chosen.sum().item(), log_p.argmax(-1).tolist() == answer

    def score_text(self, text):
        tokens = self.tokenizer.encode(text)
        total = self.score_tokens([self.tokenizer.bos_token_id], tokens[: self.length])[0]
        for done in range(self.length, len(tokens), self.length):
            end = min(done + self.length, len(tokens))
            total += self.score_tokens(tokens[end - self.length - 1 : done], tokens[done:end])[0]
        return total


def evaluate(model, *arguments):
    """The JSON that `thinwire eval` prints, and the lines of its --items."""
    with tempfile.TemporaryDirectory() as folder:
        items = Path(folder) / "items.jsonl"
        command = [THINWIRE, "eval", model, *arguments, "--json", "--items", items]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["tasks"], [json.loads(line) for line in items.read_text().splitlines()]


def first_best(values):
    return max(range(len(values)), key=lambda i: (values[i], -i))


@PACKAGES.needed
class EvalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A model trained for a moment on this file, exported."""
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.root = Path(temporary.name)
        text = Path(__file__).read_text().replace("\n    def", "\n\n    def")
        (cls.root / "text.txt").write_text(text)
        fields = [f"data.text={cls.root}/text.txt", f"data.dir={cls.root}/tokens", "data.vocabulary_size=400"]
        model = ["model.hidden=64", "model.layers=2", "train.sequence=48", "optim.lr=0.01", "train.steps=30"]
        (cls.root / "recipe.toml").write_text('run.name = "tiny"\n')
        for command in (
            ["prepare", *fields],
            ["train", cls.root / "recipe.toml", *fields, *model, f"run.dir={cls.root}/run"],
            ["export", cls.root / "run", cls.root / "hf"],
        ):
            subprocess.run([THINWIRE, *map(str, command)], check=True, capture_output=True)
        write_data(cls.root / "data")
        cls.reference = Reference(cls.root / "hf")

    def test_each_task_gives_what_the_reference_gives(self):
        tasks = expected_items()
        for folder in ("hf", "run"):
            results, lines = evaluate(self.root / folder, *tasks, "--data", self.root / "data")
            self.assertEqual(list(results), list(tasks))
            for task, items in tasks.items():
                with self.subTest(folder=folder, task=task):
                    self.check_task(items, results[task], [line for line in lines if line["task"] == task])

    def check_task(self, items, result, lines):
        self.assertEqual(result["items"], len(items))
        self.assertEqual([line["item"] for line in lines], list(range(len(items))))
        right, right_norm, total = 0, 0, 0
        for (pairs, answer, texts), line in zip(items, lines):
            scores = [self.reference.score(*pair) for pair in pairs]
            for got, (expected, _) in zip(line["log_likelihoods"], scores, strict=True):
                self.assertAlmostEqual(got, expected, delta=TOLERANCE)
            values = [value for value, _ in scores]
            total += values[0]
            if answer is None:
                self.assertEqual(line["greedy"], [scores[0][1]])
                right += scores[0][1]
                continue
            right += first_best(values) == answer
            if texts:
                right_norm += first_best([v / len(text) for v, text in zip(values, texts)]) == answer
        self.assertAlmostEqual(result["acc"], right / len(items))
        if items[0][2]:
            self.assertAlmostEqual(result["acc_norm"], right_norm / len(items))
        if items[0][1] is None:
            self.assertAlmostEqual(result["perplexity"] / math.exp(-total / len(items)), 1, delta=TOLERANCE)

    def test_perplexity_of_texts(self):
        text = Path(__file__).read_text()[:3000].strip()
        (self.root / "one.txt").write_text(text)
        results, lines = evaluate(self.root / "hf", "perplexity", "--text", self.root / "one.txt")
        expected = self.reference.score_text(text)
        self.assertAlmostEqual(lines[0]["log_likelihood"] / expected, 1, delta=1e-5)
        size = len(text.encode())
        self.assertAlmostEqual(results["perplexity"]["bits_per_byte"], -expected / size / math.log(2), delta=1e-4)
        self.assertAlmostEqual(results["perplexity"]["byte_perplexity"], math.exp(-expected / size), delta=1e-4)
        words = len(text.split())
        self.assertEqual(lines[0]["words"], words)


@PACKAGES.needed
@unittest.skipUnless(STORIES.is_dir() and (SHARED / "eval").is_dir(), "stories260K and the data sets are absent")
class HarnessTest(unittest.TestCase):
    """What the harness, lm_eval 0.4.13, gave for the first items of each task (docs/evaluation.md)."""

    def test_stories260k_has_the_harness_s_log_likelihoods(self):
        sys.path.insert(0, str(SOURCE / "tests" / "golden"))
        sys.path.insert(0, str(SOURCE / "tests" / "convert"))
        import stories260k_to_hf as stories
        import transformers_slow_test as convert

        recorded = json.loads((SOURCE / "tests/golden/eval_stories260k.json").read_text())
        with tempfile.TemporaryDirectory() as folder:
            hf = Path(folder) / "hf"
            stories.convert(STORIES, hf)
            source = STORIES / "tok512.bin"
            convert.write_sentencepiece(
                hf / "tokenizer.model", stories.read_pieces(source), convert.stories_scores(source)
            )
            results, lines = evaluate(hf, *recorded, "--data", SHARED / "eval", "--limit", 20)
        for task, harness in recorded.items():
            with self.subTest(task):
                self.assertEqual(results[task]["acc"], harness["acc"])
                self.assertEqual(results[task].get("acc_norm"), harness["acc_norm"])
                own = [line["log_likelihoods"] for line in lines if line["task"] == task]
                for got, expected in zip(sum(own, []), sum(harness["log_likelihoods"], []), strict=True):
                    self.assertAlmostEqual(got, expected, delta=TOLERANCE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
