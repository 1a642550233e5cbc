"""thinwire recipe: prints what a run would use, and explains every field."""

import os
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]
RECIPES = Path(os.environ["THINWIRE_SOURCE_DIR"]) / "recipes"


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

    def test_a_bad_recipe_is_wrong_use(self):
        done = recipe(RECIPES / "tiny.toml", "train.workers=99")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        self.assertIn("more workers than batch rows", done.stderr)
        self.assertEqual(recipe("no/such.toml").returncode, 2)


if __name__ == "__main__":
    unittest.main()
