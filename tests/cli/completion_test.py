"""thinwire completion: the scripts complete what thinwire accepts."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]


def script(shell):
    return subprocess.run([BINARY, "completion", shell], check=True, capture_output=True, text=True).stdout


def subcommands():
    """By the headings under which --help lists them."""
    shown = subprocess.run([BINARY, "--help"], check=True, capture_output=True, text=True).stdout
    groups = {}
    for block in shown.split("\n\n"):
        heading, *lines = block.splitlines()
        if heading.endswith(":") and heading not in ("Options:", "Examples:"):
            groups[heading] = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    return groups


def all_subcommands():
    return {name for names in subcommands().values() for name in names}


class Help(unittest.TestCase):
    def test_lists_every_command_under_one_of_four_headings(self):
        groups = subcommands()
        self.assertEqual(list(groups), ["Train a model:", "Share a run among many hosts:", "Use a model:",
                                        "Plan and set up:"])
        self.assertIn("chat", groups["Use a model:"])
        self.assertEqual(len(all_subcommands()), sum(map(len, groups.values())))

    def test_shows_three_examples_of_its_own(self):
        shown = subprocess.run([BINARY, "--help"], check=True, capture_output=True, text=True).stdout
        examples = shown[shown.index("Examples:"):].split("\n\n")[0].splitlines()[1:]
        self.assertEqual(len(examples), 3)
        for line in examples:
            self.assertIn(line.split()[1], all_subcommands())
        of_a_command = subprocess.run([BINARY, "train", "--help"], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("Examples:", of_a_command)


class BashCompletion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = script("bash")

    def complete(self, *words, folder="/"):
        """What bash would offer for the last of these words; bash splits words at '='."""
        program = f'{self.script}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _thinwire; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", program, "bash", "thinwire", *words], check=True, capture_output=True,
                              text=True, cwd=folder)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_offers_every_subcommand(self):
        self.assertEqual(self.complete(""), all_subcommands() | {"--help", "--version"})
        self.assertEqual(self.complete("reci"), {"recipe"})

    def test_offers_the_flags_of_the_subcommand(self):
        self.assertEqual(self.complete("recipe", "--e"), {"--explain"})
        self.assertIn("--help", self.complete("recipe", "-"))

    def test_offers_recipe_fields(self):
        self.assertEqual(self.complete("recipe", "x.toml", "train.s"),
                         {"train.steps=", "train.sequence=", "train.separate_documents="})
        self.assertIn("sync.method=", self.complete("recipe", "x.toml", ""))

    def test_offers_the_values_of_a_field(self):
        kinds = {"cosine", "linear", "constant", "wsd"}
        self.assertEqual(self.complete("recipe", "x.toml", "schedule.kind", "="), kinds)
        self.assertEqual(self.complete("recipe", "x.toml", "schedule.kind", "=", "c"), {"cosine", "constant"})
        self.assertIn("allreduce", self.complete("recipe", "sync.method", "=", ""))
        self.assertLessEqual({"adamw", "muon"}, self.complete("recipe", "optim.method", "=", ""))
        self.assertIn("llama", self.complete("recipe", "model.architecture", "=", ""))

    def test_offers_files_where_a_file_is_meant(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mine.toml").touch()
            self.assertEqual(self.complete("recipe", "mi", folder=folder), {"mine.toml"})
            self.assertEqual(self.complete("recipe", "x", "data.dir", "=", "mi", folder=folder), {"mine.toml"})

    def test_offers_the_shells(self):
        self.assertEqual(self.complete("completion", ""), {"bash", "zsh", "fish"})


class OtherShells(unittest.TestCase):
    def test_know_every_subcommand_and_are_well_formed(self):
        for shell in ("zsh", "fish"):
            text = script(shell)
            for name in all_subcommands():
                self.assertRegex(text, rf"\b{name}\b")
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=text, check=True, text=True)

    def test_unknown_shells_are_wrong_use(self):
        self.assertEqual(subprocess.run([BINARY, "completion", "tcsh"], capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
