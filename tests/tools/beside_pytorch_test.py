import math
import runpy
import sys
import unittest

from tool_case import TOOLS

BENCH = TOOLS.parent / "bench"
sys.path += [str(BENCH), str(TOOLS)]

import beside_pytorch  # noqa: E402
import zero_model  # noqa: E402

RECIPE = TOOLS.parent / "recipes/galore-60m.toml"
SHAPES = zero_model.shapes_of(hidden=512, inner=1376, layers=8, vocab=32000)
MATRICES = [shape for name, shape in SHAPES.items() if "proj" in name]


def values(shapes):
    return sum(math.prod(shape) for shape in shapes)


def job(case):
    return beside_pytorch.job_of(case, RECIPE, rank=128, rows=8, sequence=256, threads=1, steps=2)


def needed(case):
    return beside_pytorch.needed_bytes(job(case))


class Arithmetic(unittest.TestCase):
    def test_every_case_is_one_of_the_benchmark(self):
        cases = runpy.run_path(str(BENCH / "memory"))["CASES"]
        self.assertLessEqual(beside_pytorch.CASES.keys(), cases.keys())
        self.assertIsNone(job("diloco"))

    def test_adamw_holds_weights_gradients_and_two_moments(self):
        parts, count = needed("adamw"), values(SHAPES.values())
        self.assertEqual(parts["weights"], 4 * count)
        self.assertEqual(parts["gradients"], 4 * count)
        self.assertEqual(parts["state"], 8 * count)
        self.assertEqual(needed("adamw-layer")["gradients"], 4 * 32000 * 512)

    def test_galore_holds_moments_of_projections_and_bases(self):
        rest = values(SHAPES.values()) - values(MATRICES)
        projected = sum(128 * (2 * max(shape) + min(shape)) for shape in MATRICES)
        self.assertEqual(needed("galore")["state"], 4 * (2 * rest + projected))
        self.assertEqual(needed("galore-thin")["state"], 2 * (2 * rest + projected))

    def test_lora_trains_only_factors(self):
        factors = sum(16 * sum(shape) for shape in MATRICES)
        for case in ("lora", "lora-thin"):
            self.assertEqual(needed(case)["gradients"], 4 * factors)
            self.assertEqual(needed(case)["state"], 8 * factors)

    def test_the_peak_is_either_in_the_pass_or_at_its_end(self):
        parts = {"import": 1, "weights": 10, "state": 100, "gradients": 1000, "activations": 300, "logits": 400}
        self.assertEqual(beside_pytorch.total(parts), 1111)
        self.assertEqual(beside_pytorch.total(parts | {"gradients": 600}), 811)


if __name__ == "__main__":
    unittest.main()
