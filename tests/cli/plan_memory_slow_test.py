"""The memory that thinwire plan predicts for a step, against the peak that thinwire bench speed measures."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

from plan_case import BINARY, PlanCase

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

from zero_model import write_zero_model  # noqa: E402

SHAPES = {
    "wide, fp32": ["model.hidden=512", "model.layers=3", "model.heads=8", "model.vocab=8192",
                   "train.batch=6", "train.sequence=256"],
    "large vocabulary, bf16, two passes": [
        "model.hidden=384", "model.layers=4", "model.heads=6", "model.vocab=32000",
        "train.batch=4", "train.microbatch=2", "train.sequence=512", "train.precision=bf16"],
    "long, blocks computed again, DisTrO": [
        "model.hidden=384", "model.layers=8", "model.heads=12", "llama.kv_heads=4",
        "model.vocab=4096", "train.batch=8", "train.sequence=512", "model.recompute=block",
        "sync.method=distro"],
    "updates during the backward pass": [
        "model.hidden=512", "model.layers=10", "model.heads=8", "model.vocab=8192",
        "train.batch=2", "train.sequence=256", "train.update=layer", "optim.clip_by=tensor"],
    "DiLoCo": [
        "model.hidden=512", "model.layers=10", "model.heads=8", "model.vocab=8192",
        "train.batch=2", "train.sequence=256", "sync.method=diloco"],
    "projected gradients in two passes": [
        "model.hidden=512", "model.layers=10", "model.heads=8", "model.vocab=8192",
        "train.batch=2", "train.microbatch=1", "train.sequence=256", "optim.method=galore",
        "optim.gradients=projected"],
    "everything in few bits": [
        "model.hidden=512", "model.layers=12", "model.heads=8", "model.vocab=16384",
        "train.batch=1", "train.sequence=1024", "train.precision=bf16", "train.weights=bf16",
        "train.update=layer", "optim.clip=0", "model.recompute=block", "model.block_inputs=bf16",
        "optim.method=galore", "galore.rank=64", "optim.gradients=projected", "optim.state=8bit",
        "optim.bases=8bit"],
}
SHAPES["in files"] = [*SHAPES["everything in few bits"], "train.offload=true"]
SHAPES["vocabulary in slabs"] = [*SHAPES["everything in few bits"], "model.vocab_slabs=8"]
SHAPES["vocabulary in slabs, in files"] = [*SHAPES["in files"], "model.vocab_slabs=8"]


class PlanMemory(PlanCase):
    def measured(self, *arguments):
        done = subprocess.run([BINARY, "bench", "speed", *arguments, "--steps", "1", "--warmup", "0",
                               "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def measured_peak(self, *arguments):
        return self.measured(*arguments)["peak_bytes"]

    def test_predictions_are_within_a_tenth_of_the_measured_peak(self):
        recipe = self.folder / "recipe.toml"
        recipe.write_text("[train]\nworkers = 1\n")
        for name, fields in SHAPES.items():
            with self.subTest(name):
                measured = self.measured_peak(recipe, *fields)
                plan = self.plan_json(recipe, *fields, "--members", "1", "--flops", "1T")
                method = next((field.removeprefix("sync.method=") for field in fields
                               if field.startswith("sync.method=")), "allreduce")
                predicted = next(cost["memory_bytes"] for cost in plan["methods"]
                                 if (cost["method"], cost["setting"]) == (method, ""))
                print(f"{name}: predicted {predicted / 1e6:.0f} MB, measured "
                      f"{measured / 1e6:.0f} MB, {100 * (predicted / measured - 1):+.1f} %")
                self.assertAlmostEqual(predicted / measured, 1, delta=0.1)

    def test_a_frozen_base_is_in_memory_once_and_its_start_is_predicted(self):
        base = self.folder / "base"
        model = write_zero_model(base, hidden=768, inner=2048, layers=8, heads=8, vocab=16384)
        whole = 4 * (2 * 16384 * 768 + 8 * (4 * 768 + 3 * 2048) * 768)
        recipe = self.folder / "recipe.toml"
        recipe.write_text("[train]\nworkers = 1\n")
        common = [*model, "train.batch=1", "train.sequence=16", "adapter.kind=lora", "adapter.rank=4",
                  f"train.init={base}"]
        head = 4 * 16384 * 768  # in the file, and in fp32 to be rounded
        for fields, held in (([], whole + head), (["adapter.whole=[\"model.norm\"]"], 2 * whole + head),
                             (["train.precision=bf16", "train.weights=bf16"], whole / 2 + 2 * head)):
            with self.subTest(fields):
                result = self.measured(recipe, *common, *fields)
                predicted, peak = result["predicted_bytes"], result["peak_bytes"]
                print(f"{fields}: predicted {predicted / 1e6:.0f} MB, measured {peak / 1e6:.0f} MB")
                self.assertAlmostEqual(predicted / peak, 1, delta=0.1)
                self.assertAlmostEqual((peak - result["program_bytes"]) / held, 1, delta=0.1)

    def test_updates_during_the_backward_pass_hold_no_arena_of_gradients(self):
        recipe = self.folder / "recipe.toml"
        fields = [*SHAPES["updates during the backward pass"], "optim.clip=0"]
        recipe.write_text("[train]\nworkers = 1\n")
        saved = self.measured_peak(recipe, *fields, "train.update=step") - self.measured_peak(recipe, *fields)
        vocabulary, width, inner, layers = 8192, 512, 1408, 10
        gradients = 2 * vocabulary * width + layers * (4 * width + 3 * inner) * width
        self.assertAlmostEqual(saved / (4 * (gradients - vocabulary * width)), 1, delta=0.1)


if __name__ == "__main__":
    unittest.main()
