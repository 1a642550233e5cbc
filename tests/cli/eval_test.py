"""`thinwire eval`: its JSON and items on a tiny model over bytes, and what it says to wrong use and wrong data."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from hf_commands_test import write_tiny_model

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
ITEM = {"goal": "cut", "sol1": "with pliers", "sol2": "with socks"}


class EvalTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        write_tiny_model(self.root / "hf")
        self.piqa = self.root / "data" / "piqa"
        self.piqa.mkdir(parents=True)
        (self.piqa / "valid.jsonl").write_text((json.dumps(ITEM) + "\n") * 3)
        (self.piqa / "valid-labels.lst").write_text("0\n1\n0\n")

    def eval(self, *arguments):
        command = [THINWIRE, "eval", self.root / "hf", *arguments, "--data", self.root / "data"]
        return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)

    def expect(self, status, message, *arguments):
        done = self.eval(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_prints_json_and_writes_items(self):
        items = self.root / "items.jsonl"
        done = self.eval("piqa", "--json", "--items", items)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)["tasks"]["piqa"]
        lines = [json.loads(line) for line in items.read_text().splitlines()]
        self.assertEqual(result["items"], 3)
        self.assertEqual([line["answer"] for line in lines], [0, 1, 0])
        self.assertEqual(lines[0]["tokens"], [len(" with pliers"), len(" with socks")])
        scores = lines[0]["log_likelihoods"]
        self.assertEqual(scores, lines[1]["log_likelihoods"])
        # Two of three answers are the first choice.
        self.assertAlmostEqual(result["acc"], 2 / 3 if scores[0] >= scores[1] else 1 / 3)
        self.assertEqual(json.loads(self.eval("piqa", "--json", "--limit", 2).stdout)["tasks"]["piqa"]["items"], 2)

    def test_prints_a_table(self):
        (self.root / "text.txt").write_text("some text\n")
        done = self.eval("piqa", "perplexity", "--text", self.root / "text.txt")
        self.assertEqual(done.returncode, 0, done.stderr)
        for cell in ("piqa", "acc_norm", "perplexity", "bits_per_byte"):
            self.assertIn(cell, done.stdout)

    def test_a_task_file_of_ones_own(self):
        (self.root / "data" / "words.jsonl").write_text('{"q": "one two", "a": "three"}\n')
        task = self.root / "count.toml"
        task.write_text(
            '[[source]]\nfile = "words.jsonl"\ncontexts = ["{q}"]\ncontinuations = ["{a}"]\nmetrics = ["acc"]\n'
        )
        done = self.eval(task, "--json")
        self.assertEqual(json.loads(done.stdout)["tasks"]["count"]["items"], 1)

    def test_wrong_use(self):
        self.expect(2, "did you mean piqa?", "pica")
        self.expect(2, "--text names the file", "perplexity")
        self.expect(2, "--text is for the task perplexity", "piqa", "--text", self.root / "hf" / "config.json")
        self.expect(2, "--limit must be a whole number >= 1", "piqa", "--limit", "0")

    def test_wrong_data_leaves_no_items(self):
        items = self.root / "items.jsonl"
        self.expect(1, "has no arc/ARC-Easy-Dev.jsonl", "arc_easy", "--items", items)
        (self.piqa / "valid.jsonl").write_text('{"goal": "cut", "sol1": "a"}\n')
        self.expect(1, "valid.jsonl: line 1: there is no field 'sol2'", "piqa", "--items", items)
        (self.piqa / "valid.jsonl").write_text(json.dumps(ITEM) + "\n")
        self.expect(1, "valid-labels.lst: line 2: an answer to no record", "piqa", "--items", items)
        self.assertEqual([path.name for path in self.root.iterdir() if "items" in path.name], [])

    def test_what_the_context_has_no_room_for_is_cut_and_counted(self):
        long = ITEM | {"sol1": "x" * 80}
        (self.piqa / "valid.jsonl").write_text((json.dumps(long) + "\n") * 3)
        items = self.root / "items.jsonl"
        done = self.eval("piqa", "--json", "--items", items)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("piqa: 3 of 6 texts do not fit into the context of 64 tokens; cut off at their beginning: "
                      "114 tokens, 51 of them from 3 choices, scored by the rest", done.stderr)
        self.assertEqual(json.loads(done.stdout)["tasks"]["piqa"]["cut"], 3)
        line = json.loads(items.read_text().splitlines()[0])
        self.assertEqual((line["tokens"], line["cut"]), ([64, 11], [38, 0]))
        # The last 64 tokens after the one before them, as without any context.
        self.assertNotIn("do not fit", self.eval("piqa", "--context", 200).stderr)

    def test_a_model_without_a_vocabulary(self):
        (self.root / "hf" / "vocabulary.json").unlink()
        self.expect(1, "holds no vocabulary", "piqa")


if __name__ == "__main__":
    unittest.main(verbosity=2)
