"""Golden traces of APOLLO, Fira and SCALE with an all-reduced gradient: writes apollo.safetensors,
apollo_mini.safetensors, fira.safetensors and scale.safetensors beside itself.

    python tests/golden/make_apollo.py

Gradients, weights, clipping, learning rates and the tensors that are no matrices as in make_galore.py; notation of
low_rank_reference.py, for rows <= columns (otherwise with rows and columns exchanged). All in float64.

APOLLO (Zhu et al., arXiv 2412.05270, algorithm 1): P' [r, rows] with entries from N(0, 1/r), drawn in row-major order at
first and where GaLore would renew its basis, from Rng(derive(run's seed, position of the tensor + 1), n) of
thinwire/base/rng.h, n = (t + every - offset) // every:

    R = P'G    D = Adam(R)    s_j = |D_j| / (|R_j| + 1e-8) of column j;  mini: of the whole matrix
    step = scale * limited(G * s)

Fira (Chen et al., arXiv 2410.01623, algorithm 1): P as GaLore's, s as APOLLO's,

    step = scale * (P D + limited((G - P R) * s))

limited(X): X, or where its norm is above 1.01 times the norm of the last limited X, X scaled to that norm.

SCALE (Glentis et al., arXiv 2506.16659, algorithm 1, normalised by root mean square as in the authors' code), of
all matrices, head and embedding included; weights are [outputs, inputs], of the embedding [inputs, outputs]:

    m = 0.9*m + 0.1*g, g = m      of the head
    step = g_i / max(rms(g_i), 1e-8)      for each output i

APOLLO: rank 3, scale 1; mini: rank 1, scale 2; Fira: rank 3, scale 0.25; renewed every 4 steps.
"""

import math

import golden_packages  # noqa: F401
import numpy as np

from inputs import splitmix64
from low_rank_reference import MASK, Matrix, derive
from make_adamw import F32, OPT, adamw, trace
from make_galore import EVERY, TENSORS, run, write

GROWTH = 1.01


class Rng:
    def __init__(self, seed, stream):
        self.key, self.counter = derive(seed, stream), 0

    def uniform(self):
        x = int(splitmix64(self.key + 0x9E3779B97F4A7C15 * self.counter & MASK))
        self.counter += 1
        return (x >> 11) * 2.0**-53

    def normal(self):
        radius = math.sqrt(-2 * math.log(1 - self.uniform()))
        return radius * math.cos(2 * math.pi * self.uniform())


def known(rank):
    names = [n for n, (_, role) in TENSORS.items() if role == "matrix"]
    return {n: Matrix(TENSORS[n][0], rank, EVERY, list(TENSORS).index(n), i, len(names)) for i, n in enumerate(names)}


def limited(x, step):
    norm, last = np.sqrt(np.sum(step * step)), getattr(x, "norm", 0)
    if last > 0 and norm > GROWTH * last:
        step, norm = step * (GROWTH * last / norm), GROWTH * last
    x.norm = norm
    return step


def scales(x, d, r, tensor=False):
    axis = None if tensor else 0 if x.left else 1
    norms = [np.sqrt(np.sum(y * y, axis=axis, keepdims=not tensor)) for y in (d, r)]
    return norms[0] / (norms[1] + 1e-8)


def apollo(scale, tensor):
    def step(x, g, t):
        first = x.p is None and x.q is None
        if first or (t - x.offset) % EVERY == 0:
            rng = Rng(x.seed, (t + EVERY - x.offset) // EVERY)
            side = x.shape[0] if x.left else x.shape[1]
            drawn = np.array([rng.normal() for _ in range(x.rank * side)]).reshape(x.rank, side).T / math.sqrt(x.rank)
            x.p, x.q = (drawn, None) if x.left else (None, drawn)
        r = x.project(g)
        return scale * limited(x, g * scales(x, x.adam(r, t), r, tensor))
    return step


def fira(x, g, t):
    x.start(g)
    r = x.project(g)
    d = x.adam(r, t)
    step = 0.25 * (x.lift(d) + limited(x, (g - x.lift(r)) * scales(x, d, r)))
    x.refresh(g, t)
    return step


def scale():
    m, v = ({n: np.zeros(shape, F32) for n, (shape, _) in TENSORS.items()} for _ in range(2))

    def update(n, theta, g, lr, t):
        role = TENSORS[n][1]
        if role == "norm":
            theta, m[n], v[n] = adamw(theta, m[n], v[n], g, lr, t)
            return theta
        if role == "head":
            m[n] = g = (0.9 * m[n] + 0.1 * g.astype(np.float64))
        g = g.astype(np.float64)
        rms = np.sqrt(np.mean(g * g, axis=0 if role == "embedding" else 1, keepdims=True))
        return (theta * (1 - float(lr) * OPT["wd"]) - float(lr) * g / np.maximum(rms, 1e-8)).astype(F32)
    return trace({n: shape for n, (shape, _) in TENSORS.items()}, update)


if __name__ == "__main__":
    script = "make_apollo.py"
    write("apollo", run(known(3), apollo(1, False)), script, rank=3, every=EVERY)
    write("apollo_mini", run(known(1), apollo(2, True)), script, rank=1, every=EVERY)
    write("fira", run(known(3), fira), script, rank=3, every=EVERY)
    write("scale", scale(), script)
