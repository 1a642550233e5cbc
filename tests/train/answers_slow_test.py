"""Fine-tuning on answers: losses and weights of `thinwire train` on prompts are those of a PyTorch loop over transformers'
own loss on the same records, however rows are packed and divided among workers and passes."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
STEPS = 5
RATE = 1e-2
PROMPTS = [("two and two is", " four"), ("what carries?", " a thin wire, far"), ("", "ab"), ("say it:", " I say it now")]
PROMPTS = [(f"{prompt} {i}", answer * (1 + i % 3)) for i in range(3) for prompt, answer in PROMPTS]

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers


def thinwire(*arguments):
    result = subprocess.run([THINWIRE, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def make_model(folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["</s>"], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([prompt + answer for prompt, answer in PROMPTS], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")
    fast.save_pretrained(folder)
    torch.manual_seed(1)
    shape = {"vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, eos_token_id=0, bos_token_id=None))
    model.save_pretrained(folder)
    return model, fast


def batch_of(tokenizer):
    """Inputs and labels, padded; only the answer and its end are labels. Each part is encoded as the whole text is."""
    rows = []
    for prompt, answer in PROMPTS:
        ids = tokenizer.encode(prompt + answer, add_special_tokens=False) + [tokenizer.eos_token_id]
        before = tokenizer.encode(prompt, add_special_tokens=False)
        assert ids[: len(before)] == before
        rows.append((ids, [-100] * len(before) + ids[len(before) :]))
    longest = max(len(ids) for ids, _ in rows)
    pad = lambda values, with_: values + [with_] * (longest - len(values))
    return (
        torch.tensor([pad(ids, 0) for ids, _ in rows]),
        torch.tensor([pad([1] * len(ids), 0) for ids, _ in rows]),
        torch.tensor([pad(labels, -100) for _, labels in rows]),
    )


def reference(model, tokenizer):
    """Losses before each step and at the end; AdamW as torch has it, over the whole batch at once."""
    ids, mask, labels = batch_of(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), eps=1e-8, weight_decay=0)
    losses = []
    for step in range(STEPS + 1):
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        losses.append(loss.item())
        if step < STEPS:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return losses


@PACKAGES.needed
class AnswersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.model, tokenizer = make_model(self.root / "model")
        self.losses = reference(self.model, tokenizer)
        lines = [json.dumps({"prompt": prompt, "completion": answer}) for prompt, answer in PROMPTS]
        (self.root / "prompts.jsonl").write_text("\n".join(lines))
        (self.root / "recipe.toml").write_text(
            f"""
            [run]
            dir = "{self.root}/run"
            [data]
            dir = "{self.root}/tokens"
            text = ["{self.root}/prompts.jsonl"]
            validation_text = ["same={self.root}/prompts.jsonl"]
            validation_fraction = 0
            records = "prompts"
            vocabulary_model = "{self.root}/model/tokenizer.json"
            [train]
            init = "{self.root}/model"
            steps = {STEPS}
            batch = {len(PROMPTS)}
            sequence = 40
            [optim]
            lr = {RATE}
            weight_decay = 0
            clip = 0
            [adamw]
            beta1 = 0.9
            beta2 = 0.99
            eps = 1e-8
            [schedule]
            kind = "constant"
            warmup = 0
            [sync]
            method = "allreduce"
            [allreduce]
            wire = "fp32"
            """
        )
        thinwire("prepare", self.root / "recipe.toml")

    def check(self, *settings):
        run = self.root / f"run{len(list(self.root.iterdir()))}"
        thinwire("train", self.root / "recipe.toml", f"run.dir={run}", *settings)
        events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        losses = [event["loss"] for event in events if event["event"] == "step"]
        for step, (got, expected) in enumerate(zip(losses, self.losses, strict=False)):
            self.assertAlmostEqual(got, expected, delta=2e-5, msg=f"before step {step + 1} with {settings}")
        self.assertEqual(len(losses), STEPS)
        validation = [event["loss"] for event in events if event["event"] == "eval"][-1]
        self.assertAlmostEqual(validation, self.losses[-1], delta=2e-5)
        thinwire("export", run, self.root / "out")
        exported = transformers.LlamaForCausalLM.from_pretrained(self.root / "out")
        for name, values in self.model.state_dict().items():
            difference = (exported.state_dict()[name] - values).abs().max().item()
            self.assertLess(difference, 2e-4, f"{name} with {settings}")

    def test_one_worker(self):
        self.check()

    def test_several_workers_and_passes(self):
        self.check("train.workers=3", "train.microbatch=2")

    def test_libtorch(self):
        if re.search(r"LibTorch +none", thinwire("--version")):
            self.skipTest("built without LibTorch; the preset `torch` runs it")
        self.check("train.device=torch_cpu")


if __name__ == "__main__":
    unittest.main()
