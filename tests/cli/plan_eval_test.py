"""`thinwire eval` of a task with plans: a model that has learnt two plans by heart generates them, and they are scored."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
PLANS = {
    "Ada?\n": '1. ask("Ada")\n2. join()<END_OF_PLAN>',
    "Bob?\n": '1. find("Bob")\n2. tell("$1")\n3. join()<END_OF_PLAN>',
}
TASK = """[[source]]
file = "plans.jsonl"
contexts = ["{prompt}"]
plan = "{completion}"
stop = ["<END_OF_PLAN>"]
max_tokens = 60
metrics = ["plan_graph", "plan_exact"]
"""


class PlanEvalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.root = Path(temporary.name)
        cls.write_records(PLANS, "train.jsonl", 50)
        recipe = cls.root / "recipe.toml"
        recipe.write_text("\n".join([
            f'data.dir = "{cls.root}/tokens"', f'data.text = ["{cls.root}/train.jsonl"]', 'data.records = "prompts"',
            'data.vocabulary = "byte"', "data.validation_fraction = 0.1", f'run.dir = "{cls.root}/run"',
            "model.hidden = 32", "model.layers = 1", "model.heads = 2", "train.sequence = 96", "train.steps = 100",
            "train.batch = 8", "train.workers = 1", "optim.lr = 1e-2", "schedule.warmup = 10"]))
        for command in ("prepare", "train"):
            subprocess.run([THINWIRE, command, recipe], check=True, capture_output=True)

    @classmethod
    def write_records(cls, plans, name, times=1):
        lines = [json.dumps({"prompt": prompt, "completion": plan}) for prompt, plan in plans.items()]
        (cls.root / name).write_text("\n".join(lines * times) + "\n")

    def eval(self, plans, task=TASK, *arguments):
        self.write_records(plans, "plans.jsonl")
        file, items = self.root / "mine.toml", self.root / "items.jsonl"
        file.write_text(task)
        items.unlink(missing_ok=True)
        command = [THINWIRE, "eval", self.root / "run", file, "--data", self.root, "--json", "--items", items]
        done = subprocess.run([*map(str, command), *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in items.read_text().splitlines()]
        return json.loads(done.stdout)["tasks"]["mine"], lines

    def test_plans_learnt_by_heart_are_right(self):
        result, items = self.eval(PLANS)
        self.assertEqual(result, {"plan_graph": 1, "plan_graph_stderr": 0, "plan_exact": 1, "plan_exact_stderr": 0,
                                  "items": 2, "cut": 0})
        for item, plan in zip(items, PLANS.values()):
            self.assertEqual(item["text"], plan.removesuffix("<END_OF_PLAN>"))
            self.assertNotIn("error", item)

    def test_other_arguments_and_other_tools(self):
        plans = {"Ada?\n": '1. ask("Charles")\n2. join()', "Bob?\n": '1. find("Bob")\n2. tell("Bob")\n3. join()'}
        result, items = self.eval(plans)
        self.assertEqual((result["plan_graph"], result["plan_exact"]), (0.5, 0))
        self.assertEqual([item["plan_graph"] for item in items], [True, False])

    def test_what_ends_a_plan(self):
        _, items = self.eval(PLANS, TASK.replace("<END_OF_PLAN>", "\\n2"))
        self.assertEqual([item["text"] for item in items], ['1. ask("Ada")', '1. find("Bob")'])
        result, items = self.eval(PLANS, TASK.replace("60", "8"))
        self.assertEqual([item["text"] for item in items], ['1. ask("', '1. find('])
        self.assertEqual(result["plan_graph"], 0)
        self.assertIn("call 1, ask: a \" is missing", items[0]["error"])

    def test_a_prompt_longer_than_the_context_loses_its_beginning(self):
        result, _ = self.eval({"." * 200 + prompt: plan for prompt, plan in PLANS.items()})
        self.assertEqual(result["items"], 2)

    def test_a_table_and_errors(self):
        (self.root / "plans.jsonl").write_text('{"prompt": "x", "completion": "none"}\n')
        (self.root / "mine.toml").write_text(TASK)
        command = [THINWIRE, "eval", self.root / "run", self.root / "mine.toml", "--data", self.root]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("plans.jsonl: line 1: plan: the plan has no calls", done.stderr)
        self.write_records(PLANS, "plans.jsonl")
        (self.root / "mine.toml").write_text(TASK.replace("60", "96"))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("task mine: item 0: a text of up to 96 tokens leaves no room", done.stderr)
        (self.root / "mine.toml").write_text(TASK)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertIn("plan_exact", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
