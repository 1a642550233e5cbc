"""`--device` of eval, generate, chat and logits: LibTorch computes what our own code does; a program without it says so."""

import json
import re
import subprocess
import unittest

from trained_case import BINARY, TrainedCase

VERSION = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout
HAS_TORCH = re.search("^LibTorch +none$", VERSION, re.MULTILINE) is None


class Devices(TrainedCase):
    fields = ["train.steps = 30", "log.tensorboard = false"]

    def run_on(self, device, *words):
        return subprocess.run([BINARY, *map(str, words), "--device", device], capture_output=True, text=True, input="")

    def said_on(self, device, *words):
        done = self.run_on(device, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def commands(self):
        run = self.folder / "run"
        return {"eval": ["eval", run, "perplexity", "--text", self.folder / "text.txt", "--limit", 5, "--json"],
                "logits": ["logits", run, "--text", "a line about wires"],
                "generate": ["generate", run, "--prompt", "a line of", "--greedy", "--tokens", 24],
                "chat": ["generate", run, "--chat", "--template", self.template(), "--prompt", "a line", "--greedy",
                         "--tokens", 8]}

    @unittest.skipUnless(HAS_TORCH, "a program without LibTorch")
    def test_libtorch_computes_what_our_own_code_does(self):
        for name, words in self.commands().items():
            with self.subTest(name):
                own, other = (self.said_on(device, *words) for device in ("cpu", "torch_cpu"))
                if name in ("generate", "chat"):
                    self.assertEqual(other, own)
                else:
                    self.assert_near(json.loads(other), json.loads(own))

    def template(self):
        file = self.folder / "template.jinja"
        file.write_text("{% for message in messages %}{{ message['content'] }}{% endfor %}")
        return file

    def assert_near(self, one, other):
        if isinstance(other, dict):
            self.assertEqual(one.keys(), other.keys())
            one, other = list(one.values()), list(other.values())
        if isinstance(other, list):
            self.assertEqual(len(one), len(other))
            for a, b in zip(one, other):
                self.assert_near(a, b)
        elif isinstance(other, float):
            self.assertAlmostEqual(one, other, delta=1e-4 * max(1, abs(other)))
        else:
            self.assertEqual(one, other)

    @unittest.skipIf(HAS_TORCH, "a program with LibTorch")
    def test_a_program_without_libtorch_says_so(self):
        for name, words in self.commands().items():
            with self.subTest(name):
                done = self.run_on("torch_cpu", *words)
                self.assertEqual(done.returncode, 2)
                self.assertIn("--device torch_cpu, but this program was built without LibTorch", done.stderr)

    def test_a_device_that_is_missing_is_named(self):
        done = self.run_on("cuda", *self.commands()["generate"])
        if done.returncode == 0:
            self.skipTest("there is a GPU")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--device cuda, but this program was built without", done.stderr)
        done = self.run_on("tpu", *self.commands()["generate"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("--device", done.stderr)


if __name__ == "__main__":
    unittest.main()
