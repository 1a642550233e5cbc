"""Golden traces of APOLLO, Fira and SCALE with an all-reduced gradient: writes apollo.safetensors,
apollo_mini.safetensors, fira.safetensors, fira_scaled.safetensors and scale.safetensors beside itself.

    python tests/golden/make_apollo.py

Gradients, weights, clipping, learning rates and the tensors that are no matrices as in make_galore.py; notation of
low_rank_reference.py, for rows <= columns (otherwise with rows and columns exchanged). All in float64.

APOLLO (Zhu et al., arXiv 2412.05270, algorithm 1): P' [r, rows] with entries from N(0, 1/r), drawn in row-major order
at first and where GaLore would renew its basis, from Rng(derive(run's seed, position of the tensor + 1), n) of
thinwire/base/rng.h, n = (t + every - offset) // every:

    R = P'G    D = Adam(R)    s_j = |D_j| / (|R_j| + 1e-8) of column j;  mini: of the whole matrix
    step = scale * limited(G * s)

Fira (Chen et al., arXiv 2410.01623, algorithm 1): P as GaLore's, s as APOLLO's,

    step = a P D + limited((G - a P R) * s)

The paper has no a, that is a = 1; with another the formula is that of the authors' package.

limited(X): X, or where |X| / c is above 1.01 times |X| / c of the last limited X, X scaled to that. c,
sqrt(1 - b2^(t+1)) / (1 - b1^(t+1)), is the bias correction in D, which the authors apply after limiting.

check_against_packages() takes the same steps with the authors' packages, where they are installed:

    pip install --no-deps fira==1.0.2 apollo-torch==1.0.3

They get the bases from here, since their own come from an SVD and from PyTorch's random numbers; epsilon is
nothing, because they add it to sqrt(v) before the correction.

SCALE (Glentis et al., arXiv 2506.16659, algorithm 1, normalised by root mean square as in the authors' code), of
all matrices, head and embedding included; weights are [outputs, inputs], of the embedding [inputs, outputs]:

    m = 0.9*m + 0.1*g, g = m      of the head
    step = g_i / max(rms(g_i), 1e-8)      for each output i

APOLLO: rank 3, scale 1; mini: rank 1, scale 2; Fira: rank 3, a 1, and in fira_scaled a 0.25; renewed every 4 steps.
"""

import functools
import importlib.util
import math
import sys
import types

import golden_packages  # noqa: F401
import numpy as np

from inputs import splitmix64
from low_rank_reference import B1, B2, MASK, Matrix, derive
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


def limited(x, step, t):
    correction = math.sqrt(1 - B2 ** (t + 1)) / (1 - B1 ** (t + 1))
    norm, last = np.sqrt(np.sum(step * step)) / correction, getattr(x, "norm", 0)
    if last > 0 and norm > GROWTH * last:
        step, norm = step * (GROWTH * last / norm), GROWTH * last
    x.norm = norm
    return step


def scales(x, d, r, tensor=False):
    axis = None if tensor else 0 if x.left else 1
    norms = [np.sqrt(np.sum(y * y, axis=axis, keepdims=not tensor)) for y in (d, r)]
    return norms[0] / (norms[1] + 1e-8)


def draw(x, t):
    """APOLLO's projection of step t."""
    first = x.p is None and x.q is None
    if first or (t - x.offset) % EVERY == 0:
        rng = Rng(x.seed, (t + EVERY - x.offset) // EVERY)
        side = x.shape[0] if x.left else x.shape[1]
        drawn = np.array([rng.normal() for _ in range(x.rank * side)]).reshape(x.rank, side).T / math.sqrt(x.rank)
        x.p, x.q = (drawn, None) if x.left else (None, drawn)


def apollo(scale, tensor):
    def step(x, g, t):
        draw(x, t)
        r = x.project(g)
        return scale * limited(x, g * scales(x, x.adam(r, t), r, tensor), t)
    return step


def fira(alpha):
    def step(x, g, t):
        x.start(g)
        r = x.project(g)
        d = x.adam(r, t)
        step = alpha * x.lift(d) + limited(x, (g - alpha * x.lift(r)) * scales(x, d, r), t)
        x.refresh(g, t)
        return step
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


class Given:
    """A projector of the packages with the present basis of a Matrix."""

    def __init__(self, x, alpha):
        self.x, self.alpha = x, alpha

    def project(self, g, _):
        import torch
        return torch.from_numpy(self.x.project(g.numpy()))

    def project_back(self, r):
        import torch
        return self.alpha * torch.from_numpy(self.x.lift(r.numpy()))


def package_module(package, module):
    """A module of a package whose __init__ would import more than is needed here; None if it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return None
    bare = types.ModuleType(package)
    bare.__path__ = spec.submodule_search_locations
    sys.modules[package] = bare
    return importlib.import_module(f"{package}.{module}")


def largest_difference(optimizer, step, basis, lifted, shape, **group):
    """The largest difference of a weight between 12 steps by a package's optimizer and by `step`."""
    import torch
    rng = np.random.default_rng(1)
    x, theta = Matrix(shape, 3, EVERY, 0, 0, 1), rng.standard_normal(shape)
    p = torch.from_numpy(theta.copy()).requires_grad_()
    taken = optimizer([dict(params=[p], rank=3, update_proj_gap=EVERY, **group)], lr=0.01, betas=(B1, B2), eps=1e-30)
    worst = 0
    for t in range(12):
        g = rng.standard_normal(shape) * 2 ** rng.uniform(-1, 1)
        basis(x, g, t)
        p.grad = torch.from_numpy(g)
        taken.state[p]["projector"] = Given(x, lifted)
        taken.step()
        theta = theta - 0.01 * step(x, g, t)
        worst = max(worst, np.abs(p.detach().numpy() - theta).max())
    return worst


def check_against_packages():
    """Square matrices are left out: the packages project their other side."""
    fira_adamw, apollo_adamw = package_module("fira", "fira_adamw"), package_module("apollo_torch", "apollo")
    differences = []
    for shape in (7, 11), (13, 5):
        if fira_adamw:
            make = functools.partial(fira_adamw.AdamW, no_deprecation_warning=True)
            differences += [largest_difference(make, fira(a), lambda x, g, t: x.start(g), a, shape, alpha=a,
                                               proj_type="std") for a in (1, 0.25)]
        if apollo_adamw:  # whose scale is the square of ours
            differences += [largest_difference(apollo_adamw.AdamW, apollo(scale, kind == "tensor"),
                                               lambda x, g, t: draw(x, t), 1, shape, scale=scale**2, scale_type=kind,
                                               proj="random", proj_type="std")
                            for kind, scale in (("channel", 1), ("tensor", 2))]
    assert all(difference < 1e-6 for difference in differences), differences
    for name, module in ("fira", fira_adamw), ("apollo-torch", apollo_adamw):
        if module is None:
            print(f"{name} is not installed: not compared with it")
    print("differences from the packages:", *(f"{difference:.1e}" for difference in differences))


if __name__ == "__main__":
    check_against_packages()
    script = "make_apollo.py"
    write("apollo", run(known(3), apollo(1, False)), script, rank=3, every=EVERY)
    write("apollo_mini", run(known(1), apollo(2, True)), script, rank=1, every=EVERY)
    write("fira", run(known(3), fira(1)), script, rank=3, every=EVERY)
    write("fira_scaled", run(known(3), fira(0.25)), script, rank=3, every=EVERY, scale=0.25)
    write("scale", scale(), script)
