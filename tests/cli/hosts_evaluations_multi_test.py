"""Runs of many hosts that evaluations end early, and whose best weights they choose; and shipped recipes, served as they
are."""

import json
import subprocess
import unittest
from pathlib import Path

from hosts_case import BINARY, HostsCase

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
TEMPLATE = ("{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")


class HostsEvaluations(HostsCase):
    # The rate rises until it is far too high, so that only the first evaluations are good ones.
    fields = [*HostsCase.fields, "train.workers=2", "train.steps=60", "eval.every=2", "eval.patience=2",
              "checkpoint.best=true", "schedule.kind=constant", "schedule.warmup=20", "optim.lr=4"]

    def test_a_run_ends_where_threads_end_it_and_has_the_best_weights_in_the_end(self):
        server, members = self.run_of(2)
        digest = self.assert_complete(server, **members)
        self.assertEqual(digest, self.trained_digest())
        steps = self.summary("train")["steps"]
        self.assertLess(steps, 60)
        for name in ("serve", "member0", "member1"):
            self.assertEqual(self.summary(name)["steps"], steps, name)
        self.assertIn(f"ends early, after step {steps}", server.messages)
        self.assertIn("ended early", members["member0"].messages)
        contributed = self.summary("serve")["members"]
        self.assertEqual(sum(one["rows"] for one in contributed), 4 * steps)
        for one in contributed:
            self.assertTrue(one["bytes"] > 0 and 0 < one["hours"] < 1, one)
            self.assertIn(f"member {one['id']} ({one['machine']}) contributed {one['rows']} rows", server.messages)
        best = [(self.folder / name / "best").resolve() for name in ("train", "serve", "member0", "member1")]
        self.assertEqual(len({one.name for one in best}), 1, best)
        self.assertNotEqual(best[0].name, f"step-{steps:08}")
        weights = {(one / "weights.safetensors").read_bytes() for one in best}
        self.assertEqual(len(weights), 1)
        self.run_program("export", self.folder / "serve" / "best", self.folder / "best")
        self.run_program("export", self.folder / "serve", self.folder / "last")
        exported = [(self.folder / name / "model.safetensors").read_bytes() for name in ("best", "last")]
        self.assertNotEqual(*exported)

    def test_members_receive_tasks_and_the_coordinator_adds_their_scores(self):
        data = self.folder / "data"
        (data / "small").mkdir(parents=True)
        (data / "small" / "words.jsonl").write_text("".join(
            json.dumps({"text": f"line {i} of a small", "ends": ["text", "wire", "house"], "right": "text"}) + "\n"
            for i in range(7)))
        task = self.folder / "words.toml"
        task.write_text("\n".join(["[[source]]", 'file = "small/words.jsonl"', 'contexts = ["{text}"]',
                                   'continuations = ["{ends[]}"]', 'labels = ["{ends[]}"]', 'answer = "{right}"']))
        fields = [f"eval.tasks={task}", f"eval.data={data}", "train.steps=4", "checkpoint.best=false",
                  "eval.patience=0", "optim.lr=0.01", "schedule.warmup=1"]
        server, members = self.run_of(2, *fields)
        self.assert_complete(server, **members)
        received = self.folder / "member1" / "tasks"
        self.assertEqual((received / "words.toml").read_bytes(), task.read_bytes())
        self.assertTrue((received / "data" / "small" / "words.jsonl").exists())
        self.trained_digest(*fields)
        scores = self.summary("train")["scores"]
        self.assertEqual(set(scores), {"words.acc", "words.acc_norm"})
        self.assertEqual(self.summary("serve")["scores"], scores)
        self.assertAlmostEqual(self.summary("serve")["val_loss"]["validation"],
                               self.summary("train")["val_loss"]["validation"], places=5)
        (data / "small" / "words.jsonl").write_text(json.dumps({"text": "other", "ends": ["a", "b"], "right": "a"}))
        again = self.start("serve", "recipe.toml", *self.fields, *fields, f"run.dir={self.folder}/serve", "--listen",
                           "127.0.0.1:0")
        self.assert_refused(again, 2, "are not those with which the run in")

    def test_a_set_that_is_not_there_is_wrong_use(self):
        server = self.start("serve", "recipe.toml", *self.fields, "eval.watch=mine", f"run.dir={self.folder}/serve",
                            "--listen", "127.0.0.1:0")
        self.assert_refused(server, 2, "[eval] watch = 'mine' is not a validation set")

    def run_program(self, *arguments, cwd=None):
        done = subprocess.run([BINARY, *map(str, arguments)], cwd=cwd or self.root, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")


class ShippedRecipes(HostsCase):
    """With a tiny model and few rows; nothing else of the recipe is changed."""

    small = ["train.steps=4", "train.batch=2", "train.microbatch=1", "train.sequence=128", "eval.every=2",
             "schedule.warmup=1", "log.tensorboard=false", "train.workers=2"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_program("train", "recipe.toml", *HostsCase.fields, "train.steps=2", "train.sequence=128",
                        "data.vocabulary=byte_bpe", "data.vocabulary_size=260", "data.dir=bpe", "run.dir=base", first="prepare")
        cls.run_program("export", "base", "model")
        (cls.root / "model" / "chat_template.jinja").write_text(TEMPLATE)
        chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]
        cls.records = {
            "chat": {"messages": chat},
            "dpo": {"prompt": chat[:1], "chosen": chat[1:], "rejected": [{"role": "assistant", "content": "no"}]},
            "tinyagent": {"prompt": "call a friend", "completion": "1. get_phone_number('a')\n2. join()<END_OF_PLAN>"},
        }

    @classmethod
    def run_program(cls, *arguments, first=None):
        for command in ([first] if first else []) + [arguments[0]]:
            done = subprocess.run([BINARY, command, *map(str, arguments[1:])], cwd=cls.root, capture_output=True,
                                  text=True, check=False)
            assert done.returncode == 0, f"{command} {arguments[1:]}: {done.stderr}"

    def check(self, name, text, *more):
        vocabulary = self.root / "model" / "tokenizer.json"
        data = [f"data.dir={self.folder}/data", f"data.text={text}", f"data.vocabulary_model={vocabulary}",
                "train.init=model", "data.validation_fraction=0.2", *more]
        recipe = RECIPES / f"{name}.toml"
        self.run_program("prepare", recipe, *data)
        ready = self.folder / "ready.json"
        server = self.start("serve", recipe, *data, *self.small, f"run.dir={self.folder}/serve", "--listen",
                            "127.0.0.1:0", "--ready-file", ready)
        self.wait_until_ready(server, ready)
        members = {f"member{i}": self.join(f"member{i}") for i in range(2)}
        self.assert_complete(server, **members)
        steps = {self.checkpoint_of(one) for one in ("serve", *members)}
        self.assertEqual(len(steps), 1, "each has the best checkpoint")

    def checkpoint_of(self, name):
        best = self.folder / name / "best"
        self.assertTrue((best / "weights.safetensors").exists(), name)
        return best.resolve().name

    def records_of(self, name):
        file = self.folder / "records.jsonl"
        file.write_text((json.dumps(self.records[name]) + "\n") * 60)
        return file

    def test_chat(self):
        self.check("chat", self.records_of("chat"))

    def test_dpo(self):
        self.check("dpo", self.records_of("dpo"))

    def test_tinyagent(self):
        self.check("tinyagent", self.records_of("tinyagent"))

    def test_lora(self):
        self.check("lora", self.root / "text.txt", "data.document=line")


if __name__ == "__main__":
    unittest.main()
