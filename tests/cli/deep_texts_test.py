"""Texts nested a hundred thousand levels deep, which would exhaust the stack, in every file that is read: JSON, TOML
and what a chat template makes. Each is refused with a sentence."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from hf_commands_test import write_tiny_model

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
LEVELS = 100_000
DEEP = "[" * LEVELS + "]" * LEVELS
REFUSED = "nested more than 500 levels deep"


class DeepTexts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.model = self.root / "hf"
        write_tiny_model(self.model)
        (self.root / "text.jsonl").write_text('{"text": "a text"}\n' * 100)

    def run_program(self, *arguments):
        return subprocess.run([THINWIRE, *map(str, arguments)], cwd=self.root, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)

    def expect(self, message, *arguments):
        done = self.run_program(*arguments)
        self.assertIn(done.returncode, (1, 2), (arguments, done.stderr[-1000:]))
        self.assertIn(message, done.stderr)

    def succeed(self, *arguments):
        done = self.run_program(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)

    def data(self, records="text"):
        (self.root / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}{{ tools|tojson }}")
        return [f"data.text={self.root}/text.jsonl", f"data.dir={self.root}/tokens", "data.vocabulary=byte",
                f"data.records={records}"] + ([f"data.chat_template={self.root}/chat.jinja"] if records == "chats" else [])

    def test_lines_of_training_data(self):
        messages = '"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"'
        for records, line in (("text", f'{{"text": "a", "other": {DEEP}}}'),
                              ("chats", f'{{{messages}, "other": {DEEP}}}]}}'),
                              ("chats", f'{{{messages}}}], "tools": {DEEP}}}'),
                              ("prompts", f'{{"prompt": "a", "answer": {DEEP}}}'),
                              ("labels", f'{{"text": "a", "label": {DEEP}}}'),
                              ("preferences", f'{{"prompt": "a", "chosen": "b", "rejected": {DEEP}}}')):
            with self.subTest(records=records, line=line[:20]):
                (self.root / "text.jsonl").write_text(line + "\n")
                self.expect("line 1 is " + REFUSED, "prepare", *self.data(records))

    def test_what_a_chat_template_makes(self):
        line = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
        (self.root / "text.jsonl").write_text(line * 100)
        data = self.data("chats")
        (self.root / "chat.jinja").write_text("{% set n = namespace(x=1) %}{% for i in range(100000) %}"
                                              "{% set n.x = [n.x] %}{% endfor %}{{ n.x|tojson }}")
        self.expect("x is " + REFUSED, "prepare", *data)

    def test_files_of_a_model(self):
        for name in ("config.json", "tokenizer_config.json", "tokenizer.json", "model.safetensors.index.json",
                     "adapter_config.json"):
            with self.subTest(name):
                model = self.root / f"deep_{name}"
                shutil.copytree(self.model, model)
                (model / name).write_text(f'{{"a": {DEEP}}}')
                if name == "tokenizer.json":
                    (model / "vocabulary.json").unlink()
                if name == "model.safetensors.index.json":
                    (model / "model.safetensors").unlink()
                self.expect(REFUSED, "generate", model, "--prompt", "a")

    def test_the_header_of_a_safetensors_file(self):
        header = f'{{"a": {DEEP}}}'.encode()
        (self.model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
        self.expect("its header is nested too deeply", "generate", self.model, "--prompt", "a")

    def test_evaluation_data_and_tasks(self):
        (self.root / "piqa").mkdir()
        (self.root / "piqa/valid.jsonl").write_text(f'{{"goal": {DEEP}}}\n')
        (self.root / "piqa/valid-labels.lst").write_text("0\n")
        self.expect(REFUSED, "eval", self.model, "piqa", "--data", self.root)
        (self.root / "task.toml").write_text(f"[{'a.' * LEVELS}a]\n")
        self.expect("a key has more than", "eval", self.model, "task.toml")

    def test_recipes_and_sweeps(self):
        for number, text in enumerate((f"[{'a.' * LEVELS}a]\n", f"[train]\n{'a.' * LEVELS}a = 1\n",
                                       f"'a.b'{'.a' * LEVELS} = 1\n")):
            recipe = self.root / f"{number}.toml"
            recipe.write_text(text)
            self.expect(f"{recipe}:{text.count(chr(10))}: a key has more than 250 parts", "recipe", recipe)
        (self.root / "list.toml").write_text(f"[train]\nsteps = {DEEP}\n")
        self.expect("depth", "recipe", "list.toml")
        (self.root / "good.toml").write_text('run.name = "a"\n')
        self.expect("a key has more than", "sweep", "0.toml", "--out", "runs")

    def test_dots_that_are_no_key_are_read(self):
        (self.root / "dots.toml").write_text("# " + "." * 1000 + "\n[run]\nname = '" + "a." * 100 + "'\n"
                                             f"[data]\ntext = ['{'.' * 1000}', \"{'.' * 1000}\"]\n")
        self.succeed("recipe", "dots.toml")

    def test_what_runs_leave(self):
        run = self.root / "run"
        data = self.data()
        self.succeed("prepare", *data)
        (self.root / "recipe.toml").write_text('run.name = "a"\n')
        train = ["train", "recipe.toml", *data, f"run.dir={run}", "model.hidden=16", "model.layers=1", "model.heads=1",
                 "train.steps=2", "train.batch=2", "train.sequence=16"]
        self.succeed(*train)
        checkpoint = next((run / "checkpoints").iterdir())
        for file, command in ((run / "summary.json", ("compare", run)),
                              (checkpoint / "checkpoint.json", ("generate", checkpoint, "--prompt", "a")),
                              (run / "events.jsonl", (*train, "train.steps=3")),
                              (self.root / "tokens/prepare.json", ("inspect", self.root / "tokens"))):
            with self.subTest(file.name):
                kept = file.read_text()
                file.write_text(f'{{"a": {DEEP}}}\n')
                done = self.run_program(*command)
                self.assertIn(REFUSED, done.stderr + done.stdout)
                self.assertIn(done.returncode, (0, 1, 2))
                file.write_text(kept)
        (self.root / "speed.json").write_text(f'{{"a": {DEEP}}}')
        self.expect("is not what `thinwire bench speed --json` prints", "plan", "--members", "2", "--speed",
                    "speed.json")


if __name__ == "__main__":
    unittest.main()
