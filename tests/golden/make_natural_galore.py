"""Golden traces of Natural GaLore with an all-reduced gradient: writes natural_galore_<variant>.safetensors beside
itself.

    python tests/golden/make_natural_galore.py

Source: Das, "Natural GaLore" (2024). As make_galore.py, but Adam takes

    g* = (lambda I + G^ G^')^-1 g         g: the core as a vector; columns of G^: the last s cores, g included

computed here in float64 by solving with the dense matrix, which is another route than the program's. lambda is 1e-3,
or relative: that times the mean square norm of the cores in G^. At a renewal of the bases the cores in G^ are rotated
(as the moments are, without squares), cleared (before this step's is added), or kept.

| variant | sides | s | at a renewal: cores, moments | lambda |
|---|---|---|---|---|
| one | 1 | 3 | rotated, kept | absolute |
| clear | 1 | 4 | cleared, kept | relative |
| keep | 1 | 20 | kept, rotated | absolute |
| two | 2 | 3 | rotated, rotated | relative |

File contents: as galore.safetensors.
"""

import golden_packages  # noqa: F401
import numpy as np

from make_galore import EVERY, RANK, SCALE, matrices, run, write

VARIANTS = {"one": dict(sides=1, s=3, at="rotate", rotate=False, relative=False),
            "clear": dict(sides=1, s=4, at="clear", rotate=False, relative=True),
            "keep": dict(sides=1, s=20, at="keep", rotate=True, relative=False),
            "two": dict(sides=2, s=3, at="rotate", rotate=True, relative=True)}
DAMPING = 1e-3


def natural(cores, damping, relative):
    columns = np.stack([c.ravel() for c in cores], axis=1)
    damping *= np.mean(np.sum(columns * columns, axis=0)) if relative else 1
    fisher = columns @ columns.T + damping * np.eye(len(columns))
    return np.linalg.solve(fisher, columns[:, -1]).reshape(cores[-1].shape)


def stepper(s, at, relative, **_):
    past = {}

    def step(x, g, t):
        cores = past.setdefault(id(x), [])
        x.start(g)
        cores.append(x.project(g))
        del cores[:-s]
        direction = SCALE * x.lift(x.adam(natural(cores, DAMPING, relative), t))
        before = x.refresh(g, t)
        if before is not None and at == "clear":
            cores.clear()
        if before is not None and at == "rotate":
            cores[:] = [x.change(c, *before) for c in cores]
        return direction
    return step


def check():
    """A constant gradient is divided by lambda + min(t, s) |g|^2."""
    g = np.random.default_rng(0).standard_normal((3, 5))
    for t in (1, 2, 4):
        assert np.abs(natural([g] * t, DAMPING, False) * (DAMPING + t * np.sum(g * g)) - g).max() < 1e-9


if __name__ == "__main__":
    check()
    for name, variant in VARIANTS.items():
        known = matrices(sides=variant["sides"], rotate=variant["rotate"])
        write(f"natural_galore_{name}", run(known, stepper(**variant)), "make_natural_galore.py", rank=RANK,
              scale=SCALE, every=EVERY, damping=DAMPING, **variant)
