import json
import subprocess
import sys
import unittest

from tool_case import TOOLS, ToolCase


def record(*answers):
    return {"input": "Ask Ada", "output": list(answers), "closest_5_queries": []}


def answer(kind, question, text):
    return {"type": kind, "raw_input": question, "raw_output": text, "parsed_output": [], "id": "", "index": 0}


DATA = {
    "first": record(answer("plan", "Tools: ask\nQuestion: Ask Ada ", ' 1. ask("Ada")\n2. join()<END_OF_PLAN>\n'),
                    answer("join", "Thought?", "Action: Finish(done)")),
    "second": record(answer("plan", "Ask é", "1. join()")),
}


class TinyAgentToJsonl(ToolCase):
    def convert(self, text):
        command = [sys.executable, TOOLS / "tinyagent_to_jsonl.py", self.write("data.json", text),
                   "--out", self.root / "made" / "out.jsonl"]
        return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)

    def assert_refused(self, message, text):
        done = self.convert(text)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(done.stderr.startswith("tinyagent_to_jsonl"), done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual(list((self.root / "made").iterdir()), [])

    def test_plans_become_prompts_and_completions(self):
        for indent in (None, 4):
            done = self.convert(json.dumps(DATA, indent=indent))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("2 plans", done.stdout)
            rows = [json.loads(line) for line in (self.root / "made" / "out.jsonl").read_text().splitlines()]
            self.assertEqual(rows, [
                {"prompt": "Tools: ask\nQuestion: Ask Ada\n", "completion": '1. ask("Ada")\n2. join()<END_OF_PLAN>'},
                {"prompt": "Ask é\n", "completion": "1. join()"},
            ])

    def test_other_files_are_refused(self):
        self.assert_refused("expected {", "[]")
        self.assert_refused("data.json", '{"a": {"output": []}')
        self.assert_refused("record a is not one of TinyAgent's", '{"a": {"input": ""}}')
        self.assert_refused("record a is not one of TinyAgent's", '{"a": {"output": [{"type": "plan"}]}}')


if __name__ == "__main__":
    unittest.main(verbosity=2)
