"""The example that fine-tunes a model of transformers: two members with texts of their own end with the same weights."""

import os
import re
import shutil
import subprocess
import sys
import unittest

from python_case import PATIENCE, SOURCE, PythonCase

from optional_packages import OptionalPackages

PACKAGES = OptionalPackages()
with PACKAGES:
    import tokenizers
    import transformers

SCRIPT = SOURCE / "examples/transformers_finetuning/train.py"


@PACKAGES.needed
@unittest.skipUnless(shutil.which("nats-server"), "there is no nats-server here")
class Finetuning(PythonCase):
    def write_model(self):
        letters = tokenizers.Tokenizer(tokenizers.models.WordLevel(
            {"<end>": 0, **{chr(ord("a") + letter): 1 + letter for letter in range(26)}}, unk_token="<end>"))
        letters.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        transformers.PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="<end>").save_pretrained(self.folder / "model")
        transformers.set_seed(1)
        transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=27, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=128)).save_pretrained(self.folder / "model")

    def start_example(self, token, *words, stderr=None):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "OMP_NUM_THREADS": "1", "THINWIRE_TOKEN": token,
                       "HF_HUB_OFFLINE": "1"}
        one = subprocess.Popen([sys.executable, str(SCRIPT), str(self.folder / "model"), *words], cwd=self.folder,
                               env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.addCleanup(one.stdout.close)
        self.addCleanup(one.wait)
        self.addCleanup(one.kill)
        return one

    def test_two_members_tune_a_model(self):
        self.write_model()
        server = self.start_example("", "serve", "train.steps=30", "train.batch=8")
        token, address = re.search(r"THINWIRE_TOKEN=(\S+) python train.py \S+ (\S+)", server.stdout.readline()).groups()
        members = []
        for step in (1, 3):  # the alphabet by ones and by threes
            text = self.folder / f"text={step}.txt"
            text.write_text(" ".join(chr(ord("a") + step * place % 26) for place in range(128 * 20)))
            members.append(self.start_example(token, address, f"member={step}", text.name))
        said = [one.communicate(timeout=PATIENCE)[0] for one in members]
        digests = {re.search(r"finished after step 30; weights (\w{16})", one)[1] for one in said}
        self.assertEqual(len(digests), 1)
        self.assertEqual(server.wait(timeout=PATIENCE), 0)
        losses = [float(loss) for loss in re.findall(r"'loss': '?([\d.]+)", said[0])]
        self.assertLess(losses[-1], losses[0] - 0.3)
        weights = [(self.folder / f"member={step}/model/model.safetensors").read_bytes() for step in (1, 3)]
        self.assertEqual(*weights)

    def test_what_it_cannot_use_is_said(self):
        self.write_model()
        (self.folder / "short.txt").write_text("a b c")
        for said, words in (("short.txt must have at least 128 tokens, which one row takes, got 3",
                             ("localhost:1", "member", "short.txt")),
                            ("python train.py MODEL ADDRESS FOLDER TEXT", ("localhost:1", "member")),
                            ("python train.py MODEL serve", ("serve", "train.steps"))):
            with self.subTest(said):
                example = self.start_example("", *words, stderr=subprocess.STDOUT)
                self.assertIn(said, example.communicate(timeout=PATIENCE)[0])
                self.assertNotEqual(example.returncode, 0)


if __name__ == "__main__":
    unittest.main()
