"""PEFT and Thinwire read each other's adapters: Thinwire loads one made by PEFT, and PEFT one that a run trained, with
equal logits."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
LOGITS_TOLERANCE = 1e-4

try:
    import peft
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
except ImportError as error:
    ABSENT = f"not installed: {error.name} (requirements-test.txt lists what this test needs)"
else:
    ABSENT = None

SHAPE = dict(
    vocab_size=258,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    initializer_range=0.2,
)


def thinwire(*arguments):
    done = subprocess.run(
        [THINWIRE, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"thinwire {arguments}: {done.stderr}"
    return done.stdout


def load(folder):
    return transformers.LlamaForCausalLM.from_pretrained(folder, dtype="float32").eval()


def logits(model):
    tokens = torch.arange(2 * 40).reshape(2, 40) * 7 % SHAPE["vocab_size"]
    with torch.no_grad():
        return model(tokens).logits.float()


@unittest.skipIf(ABSENT, ABSENT)
class PeftTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        torch.manual_seed(0)
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE)).save_pretrained(self.root / "base")

    def assert_same_logits(self, got, expected):
        self.assertLess((logits(got) - logits(expected)).abs().max().item(), LOGITS_TOLERANCE)
        self.assertGreater((logits(got) - logits(load(self.root / "base"))).abs().max().item(), 0.01)

    def test_thinwire_merges_what_peft_wrote(self):
        for fields in (dict(target_modules=["q_proj", "down_proj"]),
                       dict(target_modules="all-linear", use_rslora=True, modules_to_save=["lm_head"])):
            with self.subTest(**fields), tempfile.TemporaryDirectory() as folder:
                model = peft.get_peft_model(load(self.root / "base"), peft.LoraConfig(
                    r=5, lora_alpha=11, task_type="CAUSAL_LM", **fields))
                for parameter in model.parameters():
                    if parameter.requires_grad:
                        parameter.data.normal_(std=0.2)
                model.eval().save_pretrained(Path(folder) / "peft")
                thinwire("import", Path(folder) / "peft", Path(folder) / "imported", "--base", self.root / "base")
                thinwire("export", Path(folder) / "imported", Path(folder) / "merged")
                self.assert_same_logits(load(Path(folder) / "merged"), model)

    def test_peft_loads_what_a_run_trained(self):
        (self.root / "text.txt").write_text(Path(__file__).read_text())
        data = [f"data.text={self.root}/text.txt", f"data.dir={self.root}/tokens", "data.vocabulary=byte",
                "data.document=line"]
        thinwire("prepare", *data)
        (self.root / "recipe.toml").write_text('run.name = "tuned"\n')
        for targets, whole in (('["*_proj"]', "[]"), ('["layers.1.*", "q_proj"]', '["model.norm", "lm_head"]')):
            with self.subTest(targets), tempfile.TemporaryDirectory() as folder:
                thinwire("train", self.root / "recipe.toml", *data, f"run.dir={folder}/run",
                         f"train.init={self.root}/base", "train.steps=8", "train.batch=4", "train.sequence=32",
                         "optim.lr=0.02", "adapter.kind=lora", "adapter.rank=4", f"adapter.targets={targets}",
                         f"adapter.whole={whole}")
                thinwire("export", f"{folder}/run", f"{folder}/merged")
                thinwire("export", f"{folder}/run", f"{folder}/peft", "--adapter")
                model = peft.PeftModel.from_pretrained(load(self.root / "base"), f"{folder}/peft").eval()
                self.assert_same_logits(model, load(f"{folder}/merged"))


if __name__ == "__main__":
    unittest.main()
