"""Golden trace of weights in 8 bits: writes int8.safetensors beside itself.

    python tests/golden/make_int8.py

Linear codes in blocks of 64 values (absmax quantization, Dettmers et al. 2022, arXiv 2208.07339, section 2.1, in blocks):
a block's scale is its largest magnitude divided by 127, and a code is the value divided by the scale, rounded to the
nearest integer, ties to even. Every operation is rounded to float32.

File contents (N = normal, edges, long, zeros):
    values.N    the tensor, float32
    encoded.N   uint8: codes, scales (float32), zeros up to a multiple of 64 bytes
    decoded.N   float32

Also prints how far off other codes would be, for docs/memory.md: of normally distributed values, the root of the mean
square error beside their deviation.
"""

from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np
from make_nf4 import scale_book

from golden_file import write_golden

HERE = Path(__file__).resolve().parent
F32 = np.float32
BLOCK = 64


def in_blocks(tensor):
    flat = tensor.reshape(-1)
    padded = np.zeros(-(-flat.size // BLOCK) * BLOCK, F32)
    padded[:flat.size] = flat
    return padded.reshape(-1, BLOCK)


def encode(tensor):
    values = in_blocks(tensor)
    scales = np.abs(values).max(axis=1) / F32(127)
    assert scales.dtype == F32
    divisor = np.where(scales > 0, scales, F32(np.inf))[:, None]
    codes = np.rint(np.clip(values / divisor, F32(-127), F32(127))).astype(np.int8)
    raw = codes.tobytes() + scales.tobytes()
    return np.frombuffer(raw + bytes(-len(raw) % 64), np.uint8)


def decode(raw, count):
    blocks = -(-count // BLOCK)
    codes = raw[:blocks * BLOCK].view(np.int8).reshape(blocks, BLOCK)
    scales = raw[blocks * BLOCK:][:4 * blocks].view(F32)
    return (codes.astype(F32) * scales[:, None]).reshape(-1)[:count]


def rms(error):
    return float(np.sqrt((error.astype(float) ** 2).mean()))


def compare_codes(values):
    """Linear codes, the dynamic ones of bitsandbytes, and numbers of 4 bits of exponent and 3 of mantissa."""
    blocks = in_blocks(values)
    largest = np.abs(blocks).max(axis=1)[:, None]
    book = scale_book()
    middles = (book[:-1] + book[1:]) / 2
    dynamic = book[np.searchsorted(middles, blocks / largest)] * largest
    exponents = np.floor(np.log2(np.maximum(np.abs(blocks), largest * 2.0 ** -14)))
    floating = np.round(blocks / 2.0 ** (exponents - 3)) * 2.0 ** (exponents - 3)
    return {"linear": rms(decode(encode(values), values.size) - values), "dynamic": rms(dynamic - blocks),
            "4 + 3 bits": rms(floating - blocks)}


if __name__ == "__main__":
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
    out = {}
    for name, values in tensors.items():
        encoded = encode(values)
        decoded = decode(encoded, values.size)
        largest = np.abs(in_blocks(values)).max(axis=1)
        error = np.abs(in_blocks(values) - in_blocks(decoded)).max(axis=1)
        assert (error <= largest / 253 + 3e-45).all(), name
        out |= {f"values.{name}": values, f"encoded.{name}": encoded, f"decoded.{name}": decoded}
    write_golden(HERE / "int8.safetensors", out, {"made_by": "make_int8.py"})
    print(compare_codes(rng.standard_normal(1 << 20).astype(F32)))
