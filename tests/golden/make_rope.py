"""Rotary frequencies under every scaling: writes rope.json beside itself.

    python tests/golden/make_rope.py

Definitions, for pair i of D / 2 with f = theta^(-2i / D), context c and factor s:

    linear    f / s
    dynamic   f of theta * (s * n / c - (s - 1))^(D / (D - 2)) for texts of n > c tokens
    llama3    with t = c f / 2 pi turns in the context: f / s where t < low, f where t > high, else
              (1 - k) f / s + k f with k = (t - low) / (high - low)
    yarn      with pair(t) = D ln(c / 2 pi t) / (2 ln theta), from a = pair(fast) to b = pair(slow), rounded
              outwards to whole pairs if truncate, a >= 0, b <= D - 1: r = clamp((i - a) / (b - a), 0, 1),
              r f / s + (1 - r) f; cosines and sines times 0.1 ln s + 1 or attention_factor

in float64; transformers computes them in float32, and the script asserts that both agree.
Keys of each case: spec (Hugging Face's rope_parameters), head_dim, max_position_embeddings, length,
frequencies, magnitude.
"""

import json
import math
from pathlib import Path

import golden_packages  # noqa: F401
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = Path(__file__).resolve().parent
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=128)
# name: rope_parameters, head_dim, max_position_embeddings, length of the text
CASES = {
    "linear": (dict(rope_type="linear", rope_theta=1e4, factor=2.5), 16, 64, 64),
    "dynamic_within": (dict(rope_type="dynamic", rope_theta=1e4, factor=2.0), 16, 64, 40),
    "dynamic_beyond": (dict(rope_type="dynamic", rope_theta=1e4, factor=2.0), 16, 64, 150),
    "llama3": (LLAMA3, 32, 512, 100),
    "yarn": (YARN, 32, 512, 100),
    "yarn_fractions": (YARN | dict(truncate=False, beta_fast=16.0, beta_slow=2.0), 32, 512, 100),
    "yarn_factor": (YARN | dict(attention_factor=1.25, factor=1.5), 8, 192, 100),
}


def frequencies(spec, d, context, length):
    kind, theta, s = spec["rope_type"], spec["rope_theta"], spec["factor"]
    if kind == "dynamic":
        theta *= (s * max(length, context) / context - (s - 1)) ** (d / (d - 2))
    plain = [theta ** (-2 * i / d) for i in range(d // 2)]
    if kind == "linear":
        return [f / s for f in plain]
    if kind == "dynamic":
        return plain
    c = spec["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = spec["low_freq_factor"], spec["high_freq_factor"]
        turns = [c * f / (2 * math.pi) for f in plain]
        kept = [min(max((t - low) / (high - low), 0), 1) for t in turns]
        return [(1 - k) * f / s + k * f for f, k in zip(plain, kept)]
    a, b = (d * math.log(c / (2 * math.pi * t)) / (2 * math.log(theta))
            for t in (spec.get("beta_fast", 32), spec.get("beta_slow", 1)))
    if spec.get("truncate", True):
        a, b = math.floor(a), math.ceil(b)
    a, b = max(a, 0), min(b, d - 1)
    ramp = [min(max((i - a) / (b - a), 0), 1) for i in range(d // 2)]
    return [r * f / s + (1 - r) * f for f, r in zip(plain, ramp)]


def magnitude(spec):
    if spec["rope_type"] != "yarn":
        return 1.0
    return spec.get("attention_factor") or 0.1 * math.log(spec["factor"]) + 1


def check(name, spec, d, positions, length, got, factor):
    config = LlamaConfig(hidden_size=4 * d, num_attention_heads=4, max_position_embeddings=positions,
                         rope_parameters=dict(spec))
    expected, scale = ROPE_INIT_FUNCTIONS[spec["rope_type"]](config, "cpu", seq_len=length)
    worst = (torch.tensor(got, dtype=torch.float64) / expected.double() - 1).abs().max().item()
    assert worst < 1e-5 and abs(scale - factor) < 1e-9, (name, worst, scale)


if __name__ == "__main__":
    out = {}
    for name, (spec, d, positions, length) in CASES.items():
        got, factor = frequencies(spec, d, positions, length), magnitude(spec)
        check(name, spec, d, positions, length, got, factor)
        out[name] = dict(spec=spec, head_dim=d, max_position_embeddings=positions, length=length, frequencies=got,
                         magnitude=factor)
    (HERE / "rope.json").write_text(json.dumps(out, indent=1) + "\n")
    print("transformers agrees on", ", ".join(out))
