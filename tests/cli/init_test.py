"""thinwire init: writes a recipe for a text, which is prepared and trained on."""

import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]


class Init(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "books").mkdir()
        draws = random.Random(1)
        words = ["".join(draws.choices("etaoinshrdlu", k=draws.randint(2, 9))) for _ in range(3000)]
        lines = (" ".join(draws.choices(words, k=8)) + ".\n\n" for _ in range(4000))
        (self.folder / "books/one.txt").write_text("".join(lines))

    def thinwire(self, *arguments, status=0):
        done = subprocess.run([BINARY, *arguments], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_its_recipe_is_prepared_and_trained(self):
        said = self.thinwire("init", "mine.toml", "--text", "books", "--hours", "0.2", "--flops", "20G")
        self.assertIn("mine.toml: ", said)
        self.assertIn("thinwire train mine.toml", said)
        recipe = (self.folder / "mine.toml").read_text()
        self.assertTrue(recipe.startswith("# Written by thinwire init, for "), recipe)
        self.thinwire("prepare", "mine.toml", "-q")
        said = self.thinwire("train", "mine.toml", "train.steps=2", "schedule.warmup=1")
        self.assertIn("runs/mine: 2 steps", said)

    def test_a_trained_model_is_tuned(self):
        self.thinwire("init", "mine.toml", "--text", "books", "--flops", "20G")
        self.thinwire("prepare", "mine.toml", "-q")
        self.thinwire("train", "mine.toml", "train.steps=2", "schedule.warmup=1", "-q")
        said = self.thinwire("init", "tuned.toml", "--text", "books", "--model", "runs/mine", "--flops", "20G")
        self.assertIn(" parameters of LoRA, ", said)
        recipe = (self.folder / "tuned.toml").read_text()
        self.assertIn('init = "runs/mine"', recipe)
        self.assertRegex(recipe, r'vocabulary_model = "runs/mine/.*vocabulary.model"')
        self.thinwire("prepare", "tuned.toml", "-q")
        said = self.thinwire("train", "tuned.toml", "train.steps=2", "schedule.warmup=1")
        self.assertIn("runs/tuned: 2 steps", said)

    def test_a_folder_without_a_model_is_named(self):
        said = self.thinwire("init", "tuned.toml", "--text", "books", "--model", "books", "--flops", "20G", status=1)
        self.assertIn("books holds no model: expected a run folder", said)
        self.assertFalse((self.folder / "tuned.toml").exists())

    def test_the_speed_of_this_machine_is_measured(self):
        said = self.thinwire("init", "mine.toml", "--text", "books", "--hours", "0.5")
        self.assertIn("FLOP/s", said)

    def test_members_with_thin_lines_send_one_bit(self):
        said = self.thinwire("init", "ours.toml", "--text", "books", "--flops", "20G", "--members", "3", "--up", "10M")
        self.assertIn("thinwire serve ours.toml", said)
        self.assertIn('wire = "int1"', (self.folder / "ours.toml").read_text())

    def test_text_without_blank_lines_is_taken_line_by_line(self):
        (self.folder / "lines.txt").write_text((self.folder / "books/one.txt").read_text().replace("\n\n", "\n"))
        self.thinwire("init", "mine.toml", "--text", "lines.txt", "--flops", "20G")
        self.assertIn('document = "line"', (self.folder / "mine.toml").read_text())
        self.thinwire("prepare", "mine.toml", "-q")

    def test_a_file_of_any_name_names_a_run(self):
        self.thinwire("init", "Ünser Lauf.toml", "--text", "books", "--flops", "20G")
        self.assertRegex((self.folder / "Ünser Lauf.toml").read_text(), r'\nname = "[-A-Za-z]+-Lauf"\n')

    def test_nothing_is_overwritten(self):
        (self.folder / "mine.toml").write_text("run.name = 'kept'\n")
        self.assertIn("mine.toml", self.thinwire("init", "mine.toml", "--text", "books", status=2))
        self.assertEqual((self.folder / "mine.toml").read_text(), "run.name = 'kept'\n")

    def test_text_that_is_not_there_is_named(self):
        self.assertIn("nowhere", self.thinwire("init", "mine.toml", "--text", "nowhere", status=2))
        self.assertFalse((self.folder / "mine.toml").exists())


if __name__ == "__main__":
    unittest.main()
