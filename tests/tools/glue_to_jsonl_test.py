import json
import subprocess
import sys
import unittest

from tool_case import TOOLS, ToolCase


class GlueToJsonl(ToolCase):
    def convert(self, task, **files):
        for name, text in files.items():
            self.write(f"{task}/{name}.tsv", text)
        command = [sys.executable, TOOLS / "glue_to_jsonl.py", self.root / task, "--out", self.root / "made"]
        return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)

    def made(self, name):
        return [json.loads(line) for line in (self.root / "made" / name).read_text().splitlines()]

    def test_pairs_have_named_columns(self):
        rte = "index\tsentence1\tsentence2\tlabel\n0\tIt \"rains.\tIt is wet.\tentailment\n1\tA\tB\tnot_entailment\n"
        done = self.convert("RTE", train=rte, dev=rte)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.made("train.jsonl"), [
            {"text": 'It "rains.', "label": 0, "text_pair": "It is wet."},
            {"text": "A", "label": 1, "text_pair": "B"},
        ])
        self.assertEqual(self.made("dev.jsonl"), self.made("train.jsonl"))

    def test_cola_has_no_header_and_one_text(self):
        text = "gj04\t1\t\tOur friends won't buy it.\ngj04\t0\t*\tThey drank the pub.\n"
        self.assertEqual(self.convert("CoLA", train=text, dev=text).returncode, 0)
        self.assertEqual(self.made("dev.jsonl"), [{"text": "Our friends won't buy it.", "label": 1},
                                                  {"text": "They drank the pub.", "label": 0}])

    def test_short_lines_are_counted(self):
        text = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tA?\tB?\t1\n4\t5\n"
        done = self.convert("QQP", train=text, dev=text)
        self.assertIn("train.jsonl: 1 lines; 1 without all columns skipped", done.stdout)

    def test_what_is_wrong_is_named(self):
        good = "sentence\tlabel\nfine\t1\n"
        for files, message in (
            ({"train": good}, "has no dev.tsv"),
            ({"train": "text\tlabel\n", "dev": good}, "has no column 'sentence'; it has text, label"),
            ({"train": "sentence\tlabel\nfine\tgood\n", "dev": good}, "train.tsv:2 has the class 'good', not one of 0, 1"),
        ):
            with self.subTest(message):
                for name in ("train", "dev"):
                    (self.root / "SST-2" / f"{name}.tsv").unlink(missing_ok=True)
                done = self.convert("SST-2", **files)
                self.assertEqual(done.returncode, 1)
                self.assertIn(message, done.stderr)
                self.assertFalse(list((self.root / "made").glob("*.partial")))
        self.assertIn("is no folder of a GLUE task", self.convert("STS", train=good).stderr)

    def test_scores_are_numbers(self):
        header = "index\tgenre\tsentence1\tsentence2\tscore\n"
        good = header + "0\tnews\tA plane.\tA plane lands.\t3.750\n"
        self.assertEqual(self.convert("STS-B", train=good, dev=good).returncode, 0)
        self.assertEqual(self.made("dev.jsonl"), [{"text": "A plane.", "label": 3.75, "text_pair": "A plane lands."}])
        for score, message in (("high", "which is not a number"), ("nan", "which is not finite")):
            bad = header + f"0\tnews\tA\tB\t{score}\n"
            self.assertIn(f"train.tsv:2 has the score '{score}', {message}", self.convert("STS-B", train=bad, dev=good).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
