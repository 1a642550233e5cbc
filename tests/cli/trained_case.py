"""Shared by tests of a finished run: a folder with a small text, its recipe, and the run."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]


class TrainedCase(unittest.TestCase):
    run_name = "run"  # under the folder
    fields = []       # of the recipe, beyond those below

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        cls.recipe = cls.folder / "recipe.toml"
        (cls.folder / "text.txt").write_text("a line of a small text about thin wires\n" * 500)
        cls.recipe.write_text("\n".join([
            f'data.dir = "{cls.folder}/tokens"', f'data.text = ["{cls.folder}/text.txt"]', 'data.document = "line"',
            'data.vocabulary = "byte"', "data.validation_block = 4", f'run.dir = "{cls.folder}/{cls.run_name}"',
            "model.hidden = 16", "model.layers = 1", "model.heads = 1", "train.sequence = 16", *cls.fields]))
        for command in ("prepare", "train"):
            done = subprocess.run([BINARY, command, cls.recipe], check=True, capture_output=True, text=True)
        cls.trained = done.stdout
