"""What the golden traces are fed with, and float32's and bf16's rounding.

Gradients and initial weights are not stored in the traces: they come from an integer hash that any language
reproduces exactly. All arithmetic modulo 2^64, >> logical:

    splitmix64(x):  x += 0x9E3779B97F4A7C15
                    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
                    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
                    return x ^ (x >> 31)

    h(s, w, t, i) = splitmix64(seed ^ (((s*64 + w)*64 + t) * 2^32 + i)) >> 40          24 bits
    u(s, w, t, i) = (h - 2^23) / 2^23                 in [-1, 1), exact in float32

    gradient of worker w at step s, tensor t (position in the list "tensors"), element i (row-major):
        float32(u(s, w, t, i)) * grad_scale[t] + pull * x      powers of two: exact, but for the sum
        x: the weight the gradient is taken at, so that it tells where that was
    initial parameter:  float32(u(63, 0, t, i)) * param_scale
"""

import numpy as np

F32 = np.float32


def splitmix64(x):
    x = np.asarray(x, np.uint64)
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


assert int(splitmix64(0)) == 0xE220A8397B1DCDAF        # published test vector


def hashed(seed, s, w, t, shape):
    counter = np.uint64(((s * 64 + w) * 64 + t) << 32) + np.arange(np.prod(shape), dtype=np.uint64)
    h = (splitmix64(np.uint64(seed) ^ counter) >> np.uint64(40)).astype(np.int64)
    return ((h - 2**23) / 2**23).astype(F32).reshape(shape)


def learning_rates(steps):
    """Warmup over 3 steps to 0.01, then half a cosine down to 10 %."""
    t = np.arange(steps)
    p = np.clip((t - 3) / (steps - 3), 0, 1)
    return np.where(t < 3, 0.01 * (t + 1) / 3, 0.001 + 0.009 * 0.5 * (1 + np.cos(np.pi * p))).astype(F32)


def bf16(x):
    """Round float32 to the nearest bf16 (ties to even), as float32. Finite input."""
    bits = np.asarray(x, F32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return bits.astype(np.uint32).view(F32)


def tie_distance(x):
    """Relative distance of float32 values, none of them 0, from the nearest bf16 rounding tie."""
    x = np.abs(np.asarray(x, F32))
    low = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(F32).astype(np.float64)
    high = ((x.view(np.uint32) & np.uint32(0xFFFF0000)) + np.uint32(0x10000)).view(F32).astype(np.float64)
    return np.abs(x - (low + high) / 2) / x
