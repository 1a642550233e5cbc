"""thinwire recipe: prints what a run would use, and explains every field."""

import json
import os
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]
RECIPES = Path(os.environ["THINWIRE_SOURCE_DIR"]) / "recipes"
NUMBERS = ("optim.lr=1e-3", "adamw.beta1=0.9", "adamw.beta2=0.95", "schedule.warmup=0")


def recipe(*arguments):
    return subprocess.run([BINARY, "recipe", *map(str, arguments)], capture_output=True, text=True)


class Recipe(unittest.TestCase):
    def test_prints_the_resolved_recipe_as_toml(self):
        done = recipe(RECIPES / "tiny.toml", "train.steps=2k")
        self.assertEqual(done.returncode, 0, done.stderr)
        resolved = tomllib.loads(done.stdout)
        self.assertEqual(resolved["train"]["steps"], 2000)
        self.assertEqual(resolved["run"]["dir"], "runs/tiny")

    def test_what_it_prints_is_a_recipe(self):
        first = recipe(RECIPES / "tiny.toml").stdout
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "again.toml"
            path.write_text(first)
            self.assertEqual(recipe(path).stdout, first)

    def test_needs_no_file(self):
        self.assertEqual(tomllib.loads(recipe("model.layers=3").stdout)["model"]["layers"], 3)

    def test_explains_every_field_it_prints(self):
        explained = recipe("--explain").stdout
        for table, fields in tomllib.loads(recipe().stdout).items():
            self.assertIn(f"[{table}]", explained)
            for field in fields:
                self.assertIn(f"\n  {field}: ", explained)

    def test_explains_one_table_or_field(self):
        table = recipe("--explain", "sync").stdout
        self.assertTrue(table.startswith("[sync]\n  method: text; default \"allreduce\"\n"), table)
        self.assertIn("        distro: Sends the largest DCT coefficients", table)
        self.assertNotIn("[train]", table)
        field = recipe("--explain", "train.batch").stdout
        self.assertTrue(field.startswith("[train]\n  batch: integer; in rows;"), field)
        self.assertNotIn("  steps:", field)
        self.assertIn("[diloco]\n  sync_every:", recipe("--explain", "sync_every").stdout)
        self.assertIn("[distro]\n  Sends the largest", recipe("--explain", "distro").stdout)
        done = recipe("--explain", "train.btach")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no table or field 'train.btach'; did you mean train.batch?", done.stderr)

    def test_says_what_goes_with_what(self):
        lora = recipe("--combinations", "adapter.kind=lora").stdout
        self.assertTrue(lora.startswith("adapter.kind = lora\n  needs train.init = MODEL\n  goes with "), lora)
        self.assertIn("  not with optim.method = apollo, fira, galore, natural_galore;", lora)
        self.assertIn('    [adapter] kind = "lora" trains matrices of low rank, got [optim] method = "apollo"', lora)
        several = recipe("--combinations", "adapter", "thinwire serve").stdout
        self.assertIn("\nadapter.kind = low_rank\n", several)
        self.assertIn("\nthinwire serve\n  goes with", several)
        everything = recipe("--combinations").stdout
        self.assertIn("sync.within = allreduce, distro\n  not with thinwire serve\n", everything)
        self.assertLessEqual(max(map(len, everything.splitlines())), 100)
        done = recipe("--combinations", "adapter.knd")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no feature 'adapter.knd', did you mean adapter.kind?", done.stderr)
        self.assertIn("--combinations", recipe("--markdown").stderr)

    def test_a_model_that_is_not_here_is_named_for_every_kind_of_records(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("chat", "glue"):
                done = subprocess.run([BINARY, "recipe", RECIPES / f"{name}.toml"], cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, r"\[train\] init: there is no data/models/\w+ here, so the model is assumed")
            self.assertEqual(tomllib.loads(done.stdout)["model"]["architecture"], "roberta")

    def test_names_ignored_fields(self):
        done = recipe(RECIPES / "tiny.toml", "distro.k=8")
        self.assertEqual(done.returncode, 0)
        self.assertIn("distro.k = 8 is ignored: sync.method is allreduce", done.stderr)
        self.assertEqual(recipe(RECIPES / "tiny.toml").stderr, "")

    def test_numbers_that_rules_choose_are_printed_and_said(self):
        for fields in ((), ("optim.lr=auto",)):
            done = recipe("train.steps=4000", *fields)
            resolved = tomllib.loads(done.stdout)
            self.assertEqual(done.stderr, "".join(f"{table}.{field} auto: {resolved[table][field]:g}\n" for table, field in
                                                  (("optim", "lr"), ("adamw", "beta1"), ("adamw", "beta2"),
                                                   ("schedule", "warmup"))))
        given = recipe("train.steps=4000", *NUMBERS)
        self.assertEqual(given.stderr, "")
        self.assertEqual(tomllib.loads(given.stdout)["optim"]["lr"], 1e-3)
        tuned = recipe("train.init=a-model", "optim.lr=auto")
        self.assertEqual(tomllib.loads(tuned.stdout)["optim"]["lr"], 1e-3)
        self.assertNotIn("auto", tuned.stderr)

    def test_explains_the_rule_of_a_number(self):
        explained = recipe("--explain", "optim.lr").stdout
        self.assertIn('lr: number or "auto"; default "auto"; > 0 and <= 1000000\n', explained)
        self.assertIn("        auto: ", explained)
        self.assertIn("0.001", explained)

    def test_tells_present_names_of_what_has_another_one(self):
        done = recipe("optim.method=muon", "optim.muon_lr=0.5", "muon.momentum=0.95", *NUMBERS)
        self.assertEqual(done.stderr, "optim.muon_lr is now called muon.lr\n")
        self.assertEqual(tomllib.loads(done.stdout)["muon"]["lr"], 0.5)
        launched = recipe("train.engine=local", *NUMBERS)
        self.assertEqual(launched.stderr, "train.engine is now called train.launcher\n"
                         "train.launcher = \"local\" is now called \"threads\"\n")
        self.assertIn('launcher = "threads"', launched.stdout)
        both = recipe("optim.muon_lr=0.5", "muon.lr=0.5")
        self.assertEqual(both.returncode, 2)
        self.assertIn("optim.muon_lr and muon.lr are the same", both.stderr)
        self.assertIn("optim.muon_lr is now called muon.lr.\n\n[muon]\n  lr: number",
                      recipe("--explain", "optim.muon_lr").stdout)

    def test_says_which_name_was_meant(self):
        for fields, hint in (("sync.methd=x", "did you mean method?"),
                             ("sync.method=distor", "did you mean distro?"),
                             ("schedule.kind=cosin", "did you mean cosine?")):
            done = recipe(RECIPES / "tiny.toml", fields)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"override '{fields}': ", done.stderr)
            self.assertIn(hint, done.stderr)
            self.assertNotIn("tiny.toml", done.stderr)

    def test_data_of_classes_needs_no_encoder_yet(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = "".join(json.dumps({"text": f"wire {i}", "label": i % 2}) + "\n" for i in range(50))
            (Path(folder) / "lines.jsonl").write_text(lines)
            fields = [f"data.text={folder}/lines.jsonl", f"data.dir={folder}/tokens", "data.vocabulary=byte_bpe",
                      "data.vocabulary_size=258"]
            for field, status in (("data.records=labels", 0), ("model.architecture=roberta", 2)):
                command = [BINARY, "prepare", *fields, field]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, status, done.stderr)

    def test_a_bad_recipe_is_wrong_use(self):
        done = recipe(RECIPES / "tiny.toml", "train.workers=99")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        self.assertIn("more workers than batch rows", done.stderr)
        self.assertEqual(recipe("no/such.toml").returncode, 2)


if __name__ == "__main__":
    unittest.main()
