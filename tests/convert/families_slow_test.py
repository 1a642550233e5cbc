"""Random models of every family, made by transformers: `thinwire logits` gives transformers' logits, and what
`thinwire export` writes is what was imported, config field by field and in transformers' own logits."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
TOLERANCE = 1e-4

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    import transformers
    from safetensors import safe_open

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()

SHAPE = dict(vocab_size=101, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.2, bos_token_id=1, eos_token_id=2,
             pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=2.0, original_max_position_embeddings=32)


def rope(kind, **fields):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=1e4, **fields))


# name: model_type, fields beside SHAPE
CASES = {
    "llama": ("llama", {}),
    "llama with all biases and wide heads": ("llama", dict(attention_bias=True, mlp_bias=True, head_dim=20)),
    "llama 3": ("llama", dict(rope_parameters=LLAMA3)),
    "linear scaling": ("llama", rope("linear", factor=3.0)),
    "dynamic scaling, a text within the context": ("llama", rope("dynamic", factor=2.0)),
    "dynamic scaling, a text beyond the context": ("llama",
                                                   rope("dynamic", factor=2.0) | dict(max_position_embeddings=40)),
    "yarn": ("llama", dict(rope_parameters=YARN)),
    "yarn with every field": ("llama", dict(rope_parameters=YARN | dict(beta_fast=8.0, beta_slow=0.5, truncate=False,
                                                                        attention_factor=1.1))),
    "smollm": ("llama", dict(tie_word_embeddings=True, num_attention_heads=3, num_key_value_heads=1)),
    "mistral": ("mistral", dict(sliding_window=7, head_dim=12)),
    "mistral without a window": ("mistral", dict(sliding_window=None)),
    "qwen2": ("qwen2", {}),
    "qwen2 with windows": ("qwen2", dict(use_sliding_window=True, sliding_window=9, max_window_layers=1)),
    "qwen3": ("qwen3", dict(head_dim=16)),
    "qwen3 with windows, biases, yarn": ("qwen3", dict(head_dim=16, attention_bias=True, use_sliding_window=True,
                                                       sliding_window=20, max_window_layers=2, rope_parameters=YARN)),
    "olmo2": ("olmo2", {}),
    "olmo2 with biases, tied": ("olmo2", dict(attention_bias=True, tie_word_embeddings=True)),
}


def thinwire(*arguments):
    done = subprocess.run([THINWIRE, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, f"thinwire {arguments}: {done.stderr}"
    return done.stdout


def make_model(model_type, fields):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model_type, **(SHAPE | fields))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, values in model.named_parameters():  # biases and norms begin alike
            if values.dim() == 1:
                values.add_(0.2 * torch.randn_like(values))
    return model


def logits(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].float()


@PACKAGES.needed
class Families(unittest.TestCase):
    tokens = [i * 37 % 101 for i in range(60)]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def logits_by_thinwire(self, folder):
        out = self.root / "logits.safetensors"
        out.unlink(missing_ok=True)
        thinwire("logits", folder, "--tokens", ",".join(map(str, self.tokens)), "--out", out)
        with safe_open(out, "pt") as file:
            self.assertEqual(json.loads(file.metadata()["tokens"]), self.tokens)
            return file.get_tensor("logits")

    def assert_logits(self, got, expected):
        self.assertLess((got - expected).abs().max().item(), TOLERANCE)

    def test_logits_are_those_of_transformers_and_exports_are_what_came_in(self):
        for number, (name, (model_type, fields)) in enumerate(CASES.items()):
            with self.subTest(name):
                base = self.root / str(number)
                model = make_model(model_type, fields)
                model.save_pretrained(base / "hf")
                expected = logits(model, self.tokens)
                self.assertGreater(expected.std().item(), 0.5)
                self.assert_logits(self.logits_by_thinwire(base / "hf"), expected)
                thinwire("import", base / "hf", base / "imported")
                self.assert_logits(self.logits_by_thinwire(base / "imported"), expected)
                thinwire("export", base / "imported", base / "exported")
                exported = json.loads((base / "exported" / "config.json").read_text())
                for field, value in json.loads((base / "hf" / "config.json").read_text()).items():
                    self.assertEqual(exported[field], value, field)
                again = transformers.AutoModelForCausalLM.from_pretrained(base / "exported", dtype=torch.float32,
                                                                          attn_implementation="eager").eval()
                self.assertIs(type(again), type(model))
                self.assert_logits(logits(again, self.tokens), expected)

    def test_a_model_trained_here_is_exported_as_the_family_with_its_options(self):
        (self.root / "text.txt").write_text("What wire is thin enough?\n" * 200)
        (self.root / "recipe.toml").write_text('run.name = "tiny"\ndata.vocabulary = "byte"\ndata.document = "line"\n')
        data = [f"data.text={self.root}/text.txt", f"data.dir={self.root}/tokens"]
        thinwire("prepare", self.root / "recipe.toml", *data)
        model = ["model.hidden=32", "model.layers=2", "model.heads=4", "train.sequence=32", "train.batch=4",
                 "train.steps=3", "llama.kv_heads=2", "llama.intermediate=48"]
        for family, options in {
            "mistral": ["llama.window=8"],
            "qwen2": ["llama.qkv_bias=true"],
            "qwen3": ["llama.qk_norm=head", "llama.head_dim=12"],
            "olmo2": ["llama.qk_norm=all", "llama.norm_place=after"],
            "llama": ["llama.rope_scaling=yarn", "llama.rope_factor=2", "llama.rope_context=16"],
        }.items():
            with self.subTest(family):
                run, out = self.root / f"run-{family}", self.root / f"out-{family}"
                thinwire("train", self.root / "recipe.toml", *data, *model, *options, f"run.dir={run}")
                thinwire("export", run, out)
                exported = transformers.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32,
                                                                             attn_implementation="eager").eval()
                self.assertEqual(exported.config.model_type, family)
                self.assert_logits(self.logits_by_thinwire(run), logits(exported, self.tokens))

    def test_json_on_stdout_holds_the_same_numbers(self):
        make_model("qwen3", dict(head_dim=16)).save_pretrained(self.root / "hf")
        said = json.loads(thinwire("logits", self.root / "hf", "--tokens", "5,17,2"))
        self.assertEqual(said["tokens"], [5, 17, 2])
        self.tokens = [5, 17, 2]
        self.assertTrue(torch.equal(torch.tensor(said["logits"]), self.logits_by_thinwire(self.root / "hf")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
