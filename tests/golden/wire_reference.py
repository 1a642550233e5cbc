"""How the DiLoCo family's values are changed by the wire formats, in plain numpy: encoded and decoded in one go.

A buffer is cut into blocks of 256 values from its start; the last one may be shorter. x is float32, s a block's scale.

    fp32, bf16  no blocks; bf16: nearest, ties to even
    fp8         E4M3 (no infinities, largest 448): s = bf16(max|x|);  E4M3(x * (448/s)) * (s/448), nearest, ties to
                even, saturating
    fp4         E3M0: s = bf16(max|x|); magnitudes 0 and s * 2^(e-7), e = 1..7; nearest in value, ties to the larger
    int2        s = bf16(float32(sum|x| / count)), the sum in float64; magnitude s/2 where |x| < 1.25 s, else 2 s; sign:
                minus where x < 0. There is no 0.
    int1        s as for int2; s, minus where x < 0. There is no 0.
    A block with s = 0 becomes zeros (fp8, fp4, int2, int1).

Sparse (SparseLoCo), a tensor of n values, row-major:

    selection   chunks of `chunk` values, the last one shorter; of a chunk of c values the clamp(floor(k*c/chunk + 1/2),
                1, c) largest in magnitude are sent; ties: lowest index
    two bits    over all sent values of the tensor: mean = float32(sum|x| / count), the sum in float64; low =
                bf16(float32(mean of the |x| <= mean)), high the same of those above (0 where there are none);
                a value is received as low or high with its sign (minus where x < 0)

Sources: FP4 of Streaming DiLoCo (arXiv 2501.18512, E3M0 with a scale a block); E4M3: Micikevicius et al., arXiv
2209.05433. int1's magnitude, the mean, is the best for given signs (Bernstein et al., signSGD, arXiv 1802.04434;
Karimireddy et al., arXiv 1901.09847). The blocks, their bf16 scales and int2's two magnitudes (those that serve a
normal distribution nearly best) are Thinwire's.
"""

import math

import numpy as np

from inputs import F32, bf16, tie_distance

BLOCK = 256
WIRES = ("fp32", "bf16", "fp8", "fp4", "int2", "int1")


class Margins:
    """Smallest distance of any discrete choice from where it would fall the other way."""

    def __init__(self):
        self.code, self.scale, self.topk = [], [], []

    def smallest(self):
        return {name: float(min(x)) for name, x in vars(self).items() if x}


def e4m3(y):
    """Nearest E4M3 value, ties to even, saturating; and the distance of |y| from the nearest tie, in y's unit."""
    size = np.minimum(np.abs(y), 448.0).astype(np.float64)
    exponent = np.maximum(np.floor(np.log2(np.maximum(size, 2.0**-20))), -6)   # below 2^-6: subnormal
    step = 2.0 ** (exponent - 3)
    steps = size / step
    tie = np.where(np.abs(y) < 448, np.abs(steps - np.floor(steps) - 0.5) * step, np.inf)
    return np.sign(y) * np.rint(steps) * step, tie


def code_block(x, wire, margins):
    """One block as its receivers see it, in x's dtype."""
    size = np.abs(x)
    middle = size.max() if wire not in ("int2", "int1") else size.sum(dtype=np.float64) / size.size
    s = bf16(F32(middle))
    if s == 0:
        return np.zeros_like(x)
    margins.scale.append(tie_distance(F32(middle)).min())
    f = x.dtype.type
    if wire == "fp8":
        value, tie = e4m3(x * f(F32(448) / s))
        margins.code.append(tie.min() / 448)
        return (value.astype(x.dtype) * f(s / F32(448))).astype(x.dtype)
    if wire == "fp4":
        grid = np.array([0] + [2.0 ** (e - 7) for e in range(1, 8)])
        limits = (grid[1:] + grid[:-1]) / 2 * float(s)         # a value on its limit is the larger one
        code = np.searchsorted(limits, size, side="right")
        margins.code.append(np.abs(size[:, None].astype(np.float64) - limits).min() / float(s))
        return np.where(x < 0, f(-1), f(1)) * (grid[code] * float(s)).astype(x.dtype)
    if wire == "int2":
        margins.code.append(np.abs(size / float(s) - 1.25).min())
        margins.code.append((size[size > 0] / float(s)).min())      # its sign
        return np.where(x < 0, f(-1), f(1)) * np.where(size < 1.25 * float(s), f(s / 2), f(s * 2))
    if wire == "int1":
        margins.code.append((size[size > 0] / float(s)).min())      # its sign
        return np.where(x < 0, f(-s), f(s))
    raise ValueError(wire)


def as_received(x, wire, margins):
    """A buffer after coding and decoding. float64 input (to see what rounding does elsewhere) stays float64."""
    if wire == "fp32":
        return x.copy()
    if wire == "bf16":
        # Only ties that matter at the traces' tolerance; in the unit of the values.
        large = x[np.abs(x) > 2.0**-16].astype(F32)
        margins.code.append((tie_distance(large) * np.abs(large)).min(initial=1.0))
        return bf16(x.astype(F32)).astype(x.dtype)
    return np.concatenate([code_block(x[at: at + BLOCK], wire, margins) for at in range(0, x.size, BLOCK)])


def largest(x, chunk, k, margins):
    """The indices of the entries of a flat tensor that are sent, ascending."""
    sent = []
    for at in range(0, x.size, chunk):
        size = np.abs(x[at: at + chunk])
        count = min(size.size, max(1, math.floor(k * size.size / chunk + 0.5)))
        order = np.argsort(-size, kind="stable")
        sent.append(at + np.sort(order[:count]))
        if count < size.size and size[order[count - 1]]:
            margins.topk.append(1 - size[order[count]] / size[order[count - 1]])
    return np.concatenate(sent)


def sparse_as_received(x, chunk, k, margins):
    where = largest(x, chunk, k, margins)
    size, out, f = np.abs(x[where]), np.zeros_like(x), x.dtype.type
    mean = F32(size.sum(dtype=np.float64) / size.size)
    magnitudes = []
    for group in (size[size <= mean], size[size > mean]):
        exact = F32(group.sum(dtype=np.float64) / group.size) if group.size else F32(0)
        magnitudes.append(bf16(exact))
        if exact:
            margins.scale.append(tie_distance(exact).min())
    if size.size > 1:       # the mean of one value is the value
        margins.code.append((np.abs(size - mean) / mean).min())
    out[where] = np.where(x[where] < 0, f(-1), f(1)) * np.where(size <= mean, f(magnitudes[0]), f(magnitudes[1]))
    return out


def coded_values(x, values):
    """Values with one scale for all of them, or two magnitudes, as received (sparse payloads)."""
    if values == "fp32" or not x.size:
        return x.copy()
    x32 = x.astype(F32)
    if values == "bf16":
        return bf16(x32).astype(x.dtype)
    size = np.abs(x32)
    mean = F32(size.sum(dtype=np.float64) / size.size)
    if values == "int8":
        scale = bf16(size.max() / F32(127))
        return (scale * np.clip(np.rint(x32 / scale), -127, 127).astype(F32)).astype(x.dtype)
    magnitudes = [bf16(mean), bf16(mean)]
    if values == "2bit":
        groups = (size[size <= mean], size[size > mean])
        magnitudes = [bf16(F32(g.sum(dtype=np.float64) / g.size)) if g.size else F32(0) for g in groups]
    return (np.where(x32 < 0, F32(-1), F32(1)) * np.where(size <= mean, *magnitudes)).astype(x.dtype)
