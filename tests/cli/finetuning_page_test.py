"""The recipes and commands of docs/finetuning.md for chats and preferences, typed one after the other."""

import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "finetuning.md"
# The page's recipes are for models of a useful size.
SMALL = ["train.steps=2", "train.batch=2", "train.sequence=128"]


class FinetuningPage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def run_program(self, *arguments):
        done = subprocess.run([THINWIRE, *arguments], cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done.stderr

    def make_model(self):
        """A folder with a tiny chat model, as one that was downloaded."""
        (self.root / "text.txt").write_text("a line of a small text about thin wires\n" * 200)
        (self.root / "base.toml").write_text('run.name = "base"\n')
        base = ["base.toml", "data.text=text.txt", "data.dir=base_tokens", "data.document=line",
                "data.vocabulary=byte_bpe", "data.vocabulary_size=260"]
        self.run_program("prepare", *base)
        self.run_program("train", *base, *SMALL, "model.hidden=16", "model.layers=1", "model.heads=1")
        self.run_program("export", "runs/base", "model")
        (self.root / "model" / "chat_template.jinja").write_text(
            "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")

    def section(self, title):
        text = PAGE.read_text(encoding="utf-8")
        return re.search(rf"^## {title}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)[1]

    def type_section(self, title, *names):
        section = self.section(title)
        recipe = re.search(r"```toml\n# (\S+)\n(.*?)```", section, re.DOTALL)
        (self.root / recipe[1]).write_text(recipe[2])
        commands = re.findall(r"^    thinwire (.*)$", section, re.MULTILINE)
        self.assertEqual([shlex.split(command)[0] for command in commands], list(names))
        for command in commands:
            more = SMALL if command.startswith("train") else []
            self.run_program(*shlex.split(command, comments=True), *more)

    def test_chats_then_preferences(self):
        self.make_model()
        chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]
        pair = {"prompt": chat[:1], "chosen": chat[1:], "rejected": [{"role": "assistant", "content": "no"}]}
        (self.root / "chats.jsonl").write_text((json.dumps({"messages": chat}) + "\n") * 200)
        (self.root / "preferences.jsonl").write_text((json.dumps(pair) + "\n") * 200)
        self.type_section("Prompts and chats", "prepare", "train", "chat")
        self.type_section("Preferences", "prepare", "train")
        for run in ("chat", "preferences"):
            self.assertTrue((self.root / "runs" / run / "summary.json").exists(), run)


if __name__ == "__main__":
    unittest.main()
