"""thinwire bench speed: training steps without data or other workers."""

import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

from zero_model import write_zero_model  # noqa: E402

BINARY = os.environ["THINWIRE_BINARY"]
MODEL = ["model.hidden=32", "model.layers=1", "model.heads=2", "train.sequence=16",
         "train.batch=8", "train.workers=2", "optim.lr=1e-2"]


class BenchSpeed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.recipe = Path(self.folder.name) / "recipe.toml"
        self.recipe.write_text("[model]\nvocab = 64\n")

    def speed(self, *arguments):
        return subprocess.run([BINARY, "bench", "speed", self.recipe, *MODEL, *arguments],
                              capture_output=True, text=True)

    def test_takes_real_steps_of_one_worker(self):
        done = self.speed("--steps", "12", "--warmup", "3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["tokens_per_step"], 4 * 16)
        self.assertEqual(len(result["losses"]), 15)
        self.assertEqual(len(result["step_seconds"]), 12)
        self.assertAlmostEqual(sum(result["part_seconds"].values()),
                               sum(result["step_seconds"]) / 12, delta=1e-6)
        self.assertAlmostEqual(result["losses"][0], math.log(64), delta=0.1)
        self.assertLess(result["losses"][-1], result["losses"][0] - 0.5)
        self.assertGreater(result["peak_bytes"], result["loaded_bytes"])

    def test_the_parts_of_memory_held_are_those_predicted(self):
        galore = ["optim.method=galore", "galore.rank=4", "train.workers=1"]
        thin = ["train.precision=bf16", "train.weights=bf16", "optim.state=8bit", "model.recompute=block",
                "model.block_inputs=bf16", "optim.bases=8bit", "optim.gradients=projected",
                "train.update=layer", "optim.clip=0"]
        base = Path(self.folder.name) / "base"
        write_zero_model(base, hidden=32, inner=64, layers=1, heads=2, vocab=64)
        lora = ["adapter.kind=lora", "adapter.rank=4", "llama.intermediate=64", f"train.init={base}"]
        for fields in ([], ["train.precision=bf16"], ["train.update=layer", "optim.clip=0"],
                       ["sync.method=diloco"], ["sync.method=distro"],
                       [*galore, "optim.gradients=projected"],
                       [*galore, "optim.gradients=projected", "train.microbatch=1"],
                       [*galore, "optim.gradients=projected", "train.update=layer", "optim.clip=0"],
                       ["train.update=layer", "optim.clip=0", "model.vocab=1024", "model.vocab_slabs=3"],
                       [*galore, *thin, "model.vocab=1024", "model.vocab_slabs=3"],
                       [*galore, *thin], [*galore, *thin, f"train.offload_dir={self.folder.name}", "train.offload=true"],
                       ["optim.method=scale", "train.workers=1", *thin[:4]],
                       ["adapter.kind=low_rank", "adapter.rank=4"], ["adapter.kind=relora", "adapter.rank=4"],
                       lora, [*lora, "train.precision=bf16"], [*lora, "train.precision=bf16", "train.weights=bf16"],
                       [*lora, "train.precision=bf16", "train.weights=nf4"],
                       [*lora, "train.precision=bf16", "train.weights=bf16", "train.offload=true",
                        f"train.offload_dir={self.folder.name}"],
                       [*lora, "train.precision=bf16", "train.weights=nf4", "train.offload=true",
                        f"train.offload_dir={self.folder.name}"]):
            done = self.speed(*fields, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            for name in ("weights", "gradients", "optimizer and method"):
                with self.subTest(f"{name} {fields}"):
                    part = result["memory"][name]
                    self.assertEqual(part["held"], part["predicted"])
            window = result["memory"]["window of files"]
            if "train.offload=true" in fields:
                self.assertGreater(window["held"], 0)
            # Arrays are whole pages.
            self.assertLessEqual(window["held"], window["predicted"] + 4096 * 100)
            self.assertGreater(result["predicted_bytes"], result["program_bytes"])

    def test_every_method_steps_alone(self):
        done = self.speed("sync.method=distro", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = json.loads(done.stdout)["losses"]
        self.assertLess(losses[-1], losses[0])

    def test_given_tokens_are_used_in_turn(self):
        tokens = Path(self.folder.name) / "tokens.bin"
        batches = [[1] * 68, [2] * 68]
        tokens.write_bytes(b"".join(struct.pack("<68i", *batch) for batch in batches))
        done = self.speed("--tokens", tokens, "--warmup", "0", "--steps", "3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, second, again = json.loads(done.stdout)["losses"]
        self.assertLess(again, first)
        self.assertNotEqual(first, second)

    def test_names_what_is_wrong(self):
        tokens = Path(self.folder.name) / "tokens.bin"
        tokens.write_bytes(b"1234567")
        done = self.speed("--tokens", tokens)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tokens.bin has 7 bytes; a batch of 68 tokens takes 272", done.stderr)
        self.recipe.write_text("[run]\nseed = 1\n")
        done = self.speed(f"data.dir={self.folder.name}/none")
        self.assertEqual(done.returncode, 2)
        self.assertIn("[model] vocab must be set, or the data prepared: there is no vocabulary in", done.stderr)

    def test_asks_prepared_data_for_the_size_of_the_vocabulary(self):
        prepared = Path(self.folder.name) / "prepared"
        prepared.mkdir()
        (prepared / "vocabulary.json").write_text('{"vocabulary": "byte"}')
        data = f"data.dir={prepared}"
        done = self.speed(data, "model.vocab=0", "--steps", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertAlmostEqual(json.loads(done.stdout)["losses"][0], math.log(258), delta=0.1)

    def test_the_parts_add_up_to_the_step(self):
        done = self.speed("--parts")
        self.assertEqual(done.returncode, 0, done.stderr)
        shares = {}
        for line in done.stdout.split("of best, %")[1].splitlines()[2:8]:
            name, _, share, _, of_best = line.rsplit(maxsplit=4)
            shares[name.strip()] = float(share)
            self.assertGreaterEqual(float(of_best), 0)
        self.assertEqual(len(shares), 6)
        self.assertEqual(shares.pop("step"), 100)
        self.assertAlmostEqual(sum(shares.values()), 100, delta=0.5)
        for name, share in shares.items():
            self.assertGreater(share, 0, name)

    def test_prints_a_summary_for_people(self):
        done = self.speed()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tokens/s", done.stdout)
        self.assertIn("64 tokens a step", done.stdout)


if __name__ == "__main__":
    unittest.main()
