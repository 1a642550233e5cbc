"""Golden traces of AdamW with weights and state kept in few bits: writes formats.safetensors beside itself.

    python tests/golden/make_formats.py

One tensor after the other, 4 steps of AdamW as in make_adamw.py, whose every operation is rounded to float32 in the
order below, on given gradients. Between steps

    weights   are float32, or bf16, rounded stochastically
    m, v      are float32, or bf16, rounded stochastically, or 8-bit codes, rounded stochastically

Stochastic rounding (Gupta et al. 2015, arXiv 1502.02551) to a grid adds random bits below the grid's last bit and cuts
them off. The bits are a function of (seed, kind, tensor, step, index), kind 0 for weights, 1 for m, 2 for v:

    mix(x)       the finaliser of SplitMix64
    derive(s, t) = mix(mix(s) ^ t * 0xd6e8feb86659fd93)
    key          = derive(derive(derive(seed, kind), tensor), step)
    block        = mix(key + (index // 64) * 0x9e3779b97f4a7c15)       low and high: its 32-bit halves
    bits(index)  : x = low + index % 64;  x = (x ^ x >> 16) * 0x7feb352d
                   x = (x ^ x >> 15 ^ high) * 0x846ca68b;  x ^= x >> 16

8-bit codes: blocks of 64 values share an exponent e: that of their largest magnitude, rounded up to the grid. m has a
sign, 4 bits of exponent f and 3 of mantissa, v 4 bits of exponent and 4 of mantissa (M bits):

    value = (1 + mantissa / 2^M) * 2^(e - 15 + f)       f > 0
    value = mantissa / 2^M * 2^(e - 14)                 f = 0

and no v but 0 becomes 0. A block is 0 if its largest magnitude is below 2^-100.

File contents (T = w, norm; S = 0..3; VARIANT = WEIGHTS_STATE, e.g. bf16_8bit; float32):
    param.T, grad.S.T            inputs; with bf16 weights the parameters begin rounded to nearest, ties to even
    lr           [4]
    VARIANT.p.T, VARIANT.m.T, VARIANT.v.T    weights and moments after the last step
Metadata: "options" (JSON).
"""

import json
import math
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np

from golden_file import write_golden

HERE = Path(__file__).resolve().parent
F32, U32 = np.float32, np.uint32
MASK = (1 << 64) - 1
SHAPES = {"w": (40, 37), "norm": (77,)}
OPT = dict(seed=7, steps=4, betas=(0.9, 0.95), eps=1e-8, wd=0.1)
LR = [0.01, 0.02, 0.005, 0.01]


def mix(x):
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & MASK
    return x ^ x >> 31


def derive(seed, stream):
    return mix(mix(seed) ^ stream * 0xd6e8feb86659fd93 & MASK)


def random_bits(key, count):
    bits = []
    for index in range(count):
        block = mix((key + index // 64 * 0x9e3779b97f4a7c15) & MASK)
        x = ((block & 0xffffffff) + index % 64) & 0xffffffff
        x = (x ^ x >> 16) * 0x7feb352d & 0xffffffff
        x = (x ^ x >> 15 ^ block >> 32) * 0x846ca68b & 0xffffffff
        bits.append(x ^ x >> 16)
    return bits


def to_bf16(values, bits=None):
    """float32 values that are bf16; rounded to nearest even without random bits."""
    raw = values.view(U32).astype(np.uint64)
    add = 0x7fff + (raw >> 16 & 1) if bits is None else np.array(bits, np.uint64) >> 16
    return (raw + add >> 16 << 16).astype(U32).view(F32)


def to_8bit(values, bits, mantissa, signed):
    """The values of the codes, computed with exact integers and powers of two."""
    out = np.zeros_like(values)
    for begin in range(0, len(values), 64):
        block = values[begin:begin + 64]
        largest = float(np.abs(block).max())
        if largest == 0:
            continue
        exponent = math.frexp(largest)[1] - 1
        grid = 2.0 ** (exponent - mantissa)
        exponent = math.frexp(math.ceil(largest / grid) * grid)[1] - 1
        if exponent < -100:
            continue
        for i, value in enumerate(block):
            magnitude = abs(float(value))
            if magnitude == 0:
                continue
            own = max(math.frexp(magnitude)[1] - 1, exponent - 14)
            unit = 2.0 ** (own - mantissa)
            # Random bits as many as the value, of 24 bits, has below the unit.
            dropped = 23 - mantissa + own - (math.frexp(magnitude)[1] - 1)
            add = (bits[begin + i] >> 32 - dropped) / 2.0 ** dropped if dropped <= 31 else -1
            steps = max(math.floor(magnitude / unit + add), 0)
            if not signed:
                steps = max(steps, 1)
            out[begin + i] = F32(math.copysign(steps * unit, value))
    return out


def keep(values, how, kind, tensor, step):
    if how == "fp32":
        return values
    bits = random_bits(derive(derive(derive(OPT["seed"], kind), tensor), step), values.size)
    flat = values.reshape(-1)
    if how == "bf16":
        return to_bf16(flat, bits).reshape(values.shape)
    signed = kind == 1
    return to_8bit(flat, bits, 3 if signed else 4, signed).reshape(values.shape)


def adamw(p, m, v, g, lr, t, decays):
    b1, b2 = OPT["betas"]
    m = F32(b1) * m + F32(1 - b1) * g
    v = F32(b2) * v + F32(1 - b2) * (g * g)
    denominator = np.sqrt(v) / F32(math.sqrt(1 - b2 ** (t + 1))) + F32(OPT["eps"])
    shrink = F32(1 - float(lr) * OPT["wd"]) if decays else F32(1)
    return p * shrink - F32(float(lr) / (1 - b1 ** (t + 1))) * (m / denominator), m, v


def trace(out, weights, state):
    for tensor, (name, shape) in enumerate(SHAPES.items()):
        p = out[f"param.{name}"]
        if weights == "bf16":
            p = to_bf16(p.reshape(-1)).reshape(shape)
        m = v = np.zeros(shape, F32)
        for t in range(OPT["steps"]):
            p, m, v = adamw(p, m, v, out[f"grad.{t}.{name}"], out["lr"][t], t, len(shape) > 1)
            assert all(x.dtype == F32 for x in (p, m, v))
            m, v = keep(m, state, 1, tensor, t), keep(v, state, 2, tensor, t)
            p = keep(p, weights, 0, tensor, t)
        out |= {f"{weights}_{state}.{key}.{name}": x for key, x in (("p", p), ("m", m), ("v", v))}


def check(out):
    """Every format is near the one it stands for."""
    for name in SHAPES:
        exact = out[f"fp32_fp32.m.{name}"]
        for variant, bound in (("fp32_bf16", 2 ** -6), ("fp32_8bit", 2 ** -2)):
            near = out[f"{variant}.m.{name}"]
            large = np.abs(exact) > 0.1 * np.abs(exact).max()
            assert np.abs(near / exact - 1)[large].max() < bound, variant
            assert 0 < np.abs(near - exact).max()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    out = {f"param.{n}": ((len(s) == 1) + 0.3 * rng.standard_normal(s)).astype(F32) for n, s in SHAPES.items()}
    for t in range(OPT["steps"]):
        for n, s in SHAPES.items():
            # Magnitudes over many binades, and zeros.
            size = 10.0 ** rng.uniform(-6, 0, s) * (rng.uniform(size=s) > 0.05)
            out[f"grad.{t}.{n}"] = (size * rng.standard_normal(s)).astype(F32)
    out["lr"] = np.array(LR, F32)
    for weights, state in (("fp32", "fp32"), ("fp32", "bf16"), ("fp32", "8bit"), ("bf16", "fp32"), ("bf16", "8bit")):
        trace(out, weights, state)
    check(out)
    write_golden(HERE / "formats.safetensors", out, {"options": json.dumps(OPT), "made_by": "make_formats.py"})
