"""Golden trace of NF4 with double quantization: writes nf4.safetensors beside itself.

    python tests/golden/make_nf4.py

QLoRA (Dettmers et al. 2023, arXiv 2305.14314): section 3 and the code book of appendix E, which is also derived here:
its negative half is made of 7 and its positive half of 8 quantiles of a normal distribution, equally spaced in
probability between 1/2 and an offset, plus 0, all divided by the largest. The scales of blocks of 64 values are
themselves quantized in blocks of 256, after their mean is subtracted, to the dynamic 8-bit numbers of Dettmers et al.
(2021, arXiv 2110.02861). Every operation is rounded to float32, but for the sum of the mean (float64, in order).

File contents (N = normal, edges, long, zeros):
    values.N    the tensor, float32
    encoded.N   uint8: codes (two a byte, the first in the upper half), scales of the scales (float32), their mean
                (float32), the scales' codes, zeros up to a multiple of 64 bytes
    decoded.N   float32
    code_book   [16], scale_book [256]
Metadata: "margins" (JSON): how near the nearest code changes.
"""

import json
from pathlib import Path
from statistics import NormalDist

import golden_packages  # noqa: F401
import numpy as np

from golden_file import write_golden

HERE = Path(__file__).resolve().parent
F32 = np.float32
BLOCK, SCALE_BLOCK = 64, 256
CODE_BOOK = np.array([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0], F32)


def derived_code_book(offset=0.9677083):
    quantile = NormalDist().inv_cdf
    negative = [-quantile(p) for p in np.linspace(offset, 0.5, 8)[:-1]]
    positive = [quantile(p) for p in np.linspace(offset, 0.5, 9)[:-1]]
    values = np.array(sorted([*negative, 0.0, *positive]))
    return values / values.max()


def scale_book():
    values = [0.0, 1.0]
    for i in range(7):
        ends = np.linspace(0.1, 1, 2 ** i + 1)
        fractions = (ends[:-1] + ends[1:]) / 2
        values += [sign * 10.0 ** (i - 6) * fraction for fraction in fractions for sign in (1, -1)]
    return np.array(sorted(values), np.float64).astype(F32)


def nearest(values, book, margins):
    middles = (book[:-1] + book[1:]) / F32(2)
    assert middles.dtype == F32 and values.dtype == F32
    margins.append(float(np.abs(values[:, None].astype(float) - middles).min()))
    return (values[:, None] > middles).sum(axis=1).astype(np.uint8)


def encode(tensor, margins):
    flat = tensor.reshape(-1)
    blocks = -(-flat.size // BLOCK)
    padded = np.zeros(blocks * BLOCK, F32)
    padded[:flat.size] = flat
    padded = padded.reshape(blocks, BLOCK)
    largest = np.abs(padded).max(axis=1)
    divisor = np.where(largest > 0, largest, F32(1))
    codes = nearest((padded / divisor[:, None]).reshape(-1), CODE_BOOK, margins)
    packed = codes[0::2] << 4 | codes[1::2]
    total = 0.0
    for scale in largest:
        total += float(scale)
    mean = F32(total / blocks)
    of_scales, scale_codes = [], []
    for begin in range(0, blocks, SCALE_BLOCK):
        centred = largest[begin:begin + SCALE_BLOCK] - mean
        widest = np.abs(centred).max()
        of_scales.append(widest)
        scale_codes.append(nearest(centred / (widest if widest > 0 else F32(1)), scale_book(), margins))
    raw = packed.tobytes() + np.array(of_scales, F32).tobytes() + mean.tobytes() + np.concatenate(scale_codes).tobytes()
    raw += bytes(-len(raw) % 64)
    return np.frombuffer(raw, np.uint8)


def decode(raw, count):
    blocks = -(-count // BLOCK)
    groups = -(-blocks // SCALE_BLOCK)
    packed = raw[:blocks * BLOCK // 2]
    numbers = raw[packed.size:packed.size + 4 * (groups + 1)].view(F32)
    scale_codes = raw[packed.size + 4 * (groups + 1):][:blocks]
    codes = np.stack([packed >> 4, packed & 15], axis=1).reshape(blocks, BLOCK)
    scales = numbers[-1] + np.repeat(numbers[:-1], SCALE_BLOCK)[:blocks] * scale_book()[scale_codes]
    assert scales.dtype == F32
    return (CODE_BOOK[codes] * scales[:, None]).reshape(-1)[:count]


def check(values, decoded, name):
    """Half of the widest gap between codes, and what the scales are off by."""
    blocks = -(-values.size // BLOCK)
    padded = np.zeros((2, blocks * BLOCK))
    padded[:, :values.size] = values.reshape(-1), decoded
    largest = np.abs(padded[0].reshape(blocks, BLOCK)).max(axis=1)
    error = np.abs(padded[0] - padded[1]).reshape(blocks, BLOCK).max(axis=1)
    widest = np.abs(largest - largest.mean()).max()
    assert (error <= 0.152 * largest + 0.00704 * widest).all(), name
    assert name == "zeros" or error.max() > 0


if __name__ == "__main__":
    assert np.abs(CODE_BOOK - derived_code_book()).max() < 1e-6
    assert len(set(scale_book())) == 256
    rng = np.random.default_rng(0)
    edges = np.zeros((11, 64), F32)
    edges[1] = 1e-30
    edges[2] = np.linspace(-1, 1, 64)
    edges[3, 17] = -3e38
    edges[4, ::2] = 1e-42
    edges[5:] = 10.0 ** rng.uniform(-20, 0, (6, 64)) * rng.choice([-1, 1], (6, 64))
    tensors = {"normal": (0.02 * rng.standard_normal((13, 47))).astype(F32), "edges": edges,
               "long": (rng.standard_normal((129, 129)) * 10.0 ** rng.uniform(-3, 0, (129, 1))).astype(F32),
               "zeros": np.zeros((3, 5), F32)}
    out, margins = {"code_book": CODE_BOOK, "scale_book": scale_book()}, {}
    for name, values in tensors.items():
        near = []
        encoded = encode(values, near)
        decoded = decode(encoded, values.size)
        check(values, decoded, name)
        margins[name] = near
        out |= {f"values.{name}": values, f"encoded.{name}": encoded, f"decoded.{name}": decoded}
    write_golden(HERE / "nf4.safetensors", out, {"margins": json.dumps(margins), "made_by": "make_nf4.py"})
