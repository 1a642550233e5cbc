"""Golden traces of GaLore with an all-reduced gradient: writes galore.safetensors and galore_rotate.safetensors
beside itself.

    python tests/golden/make_galore.py

Source: Zhao et al., "GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection" (arXiv 2403.03507), with
the basis by subspace iteration; definitions in low_rank_reference.py. Gradients, weights, clipping and learning rates
as in make_adamw.py. Matrices: rank 3, scale 0.25, bases renewed every 4 steps. Embedding, head and 1-D tensors take
AdamW's step of make_adamw.py. `galore_rotate` rotates the moments, `galore` keeps them.

File contents: as adamw.safetensors, without moments.
Metadata: "options" (JSON), roles included.
"""

import json

import golden_packages  # noqa: F401
import numpy as np

from golden_file import write_golden
from low_rank_reference import Matrix
from make_adamw import F32, HERE, OPT, adamw, trace

# name: (shape, role)
TENSORS = {"embed": ((12, 8), "embedding"), "wide": ((7, 11), "matrix"), "tall": ((13, 5), "matrix"),
           "square": ((8, 8), "matrix"), "norm": ((11,), "norm"), "head": ((12, 8), "head")}
RANK, SCALE, EVERY = 3, 0.25, 4


def matrices(**options):
    names = [n for n, (_, role) in TENSORS.items() if role == "matrix"]
    return {n: Matrix(TENSORS[n][0], RANK, EVERY, list(TENSORS).index(n), i, len(names), **options)
            for i, n in enumerate(names)}


def run(known, step):
    """step(matrix, g, t) -> direction of a matrix's step."""
    m, v = ({n: np.zeros(shape, F32) for n, (shape, _) in TENSORS.items()} for _ in range(2))

    def update(n, theta, g, lr, t):
        if n in known:
            direction = step(known[n], g.astype(np.float64), t)
            return (theta * (1 - float(lr) * OPT["wd"]) - float(lr) * direction).astype(F32)
        theta, m[n], v[n] = adamw(theta, m[n], v[n], g, lr, t)
        return theta
    return trace({n: shape for n, (shape, _) in TENSORS.items()}, update)


def write(name, out, script, **options):
    options = OPT | options | {"tensors": [{"name": n, "shape": s, "role": role} for n, (s, role) in TENSORS.items()]}
    write_golden(HERE / f"{name}.safetensors", out, {"options": json.dumps(options), "made_by": script})


def galore(x, g, t):
    x.start(g)
    step = SCALE * x.lift(x.adam(x.project(g), t))
    x.refresh(g, t)
    return step


if __name__ == "__main__":
    for name, rotate in (("galore", False), ("galore_rotate", True)):
        write(name, run(matrices(rotate=rotate), galore), "make_galore.py", rank=RANK, scale=SCALE, every=EVERY,
              rotate=rotate)
