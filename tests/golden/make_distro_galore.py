"""Golden trace of DisTrO with GaLore in seeded bases: writes distro_galore.safetensors beside itself.

    python tests/golden/make_distro_galore.py                 the trace, with its self-checks
    python tests/golden/make_distro_galore.py --find-seed     search SEED again (minutes)

DisTrO as in distro_reference.py (update adamw), with what follows for a matrix W [rows, columns]. Sources: Zhao et al.
2024 (arXiv 2403.03507), with the random projection of Hao et al., "Flora" (arXiv 2402.03293), whose entries are signs.

    rows <= columns   R = P'g        step = P D        P [rows, r]
    else              R = g Q        step = D Q'       Q [columns, r]
    delta, tiles, coefficients and payloads are those of R, the worker's projected gradient, which is rounded to float32
    D      = AdamW's direction for the aggregate iDCT(chat)
    theta  = theta*(1 - lr*wd) - lr*scale*step
    P, Q   entry (i, j) of P' [r, rows]: signs / sqrt(r), signs of low_rank_reference.py from
           derive(derive(derive(run's seed, position of the tensor + 1), n), 1 for P, 2 for Q); n: its renewals so far
    After a step t with (t - offset) mod every = 0 and t > 0, offset as there, n is (t + every - offset) // every, and
    delta is zero on every worker, including what goes back into it because the worker was missing from that step. Up to
    the first such step n is that of t = 0.

Moments stay as they are. 1-D tensors are not projected. Gradients and initial weights are not stored: they come from
the hash of inputs.py.

File contents (N = tensor name, float32):
    lr             [steps]     the learning rate of each step, to be used bit for bit
    after.S.N                  weights after S steps, S = 1..steps
    m.N, v.N                   moments after the last step, [as R]
Metadata: "options" (JSON; seed is a hex string), "margins" (JSON, as in make_distro.py).
"""

import json
import sys
from dataclasses import asdict

import golden_packages  # noqa: F401
import numpy as np

from distro_reference import Options, Run
from golden_file import write_golden
from inputs import F32, hashed, learning_rates, splitmix64
from low_rank_reference import derive, signs
from make_distro import HERE, PARAM_SCALE, WORKERS, payload_margins, sign_margins

RANK, EVERY, SCALE, STEPS, RUN_SEED = 6, 5, 0.25, 14, 1
OPT = Options(update="adamw", k=24)
# name, shape, grad_scale; projected: 6 x 30, 21 x 6, 6 x 16.
TENSORS = [("wide", (10, 30), 2.0**-3), ("norm", (13,), 2.0**-2), ("tall", (21, 12), 1.0), ("square", (16, 16), 2.0**-4)]
MATRICES = [name for name, shape, _ in TENSORS if len(shape) == 2]
MISSING = {3: [1], 6: [1], 10: [1]}
SEED = 25  # found by --find-seed


class Basis:
    """B [smaller, r], of the side that is projected."""

    def __init__(self, name):
        self.name, self.index = name, [n for n, _, _ in TENSORS].index(name)
        self.rows, self.columns = TENSORS[self.index][1]
        self.left = self.rows <= self.columns
        self.offset = MATRICES.index(name) * EVERY // len(MATRICES)
        self.draw(0)

    def draw(self, t):
        seed = derive(derive(RUN_SEED, self.index + 1), (t + EVERY - self.offset) // EVERY)
        shape = (RANK, self.rows if self.left else self.columns)
        self.b = signs(shape, derive(seed, 1 if self.left else 2)).T / np.sqrt(RANK)

    def due(self, t):
        return t > 0 and (t - self.offset) % EVERY == 0

    def project(self, g):
        return self.b.T @ g if self.left else g @ self.b

    def lift(self, d):
        return self.b @ d if self.left else d @ self.b.T


class GaloreRun(Run):
    """self.theta of a matrix only has the shape of R; its weights are in self.weights."""

    def __init__(self, seed, dct_dtype):
        self.bases = {name: Basis(name) for name in MATRICES}
        params = {n: hashed(seed, 63, 0, t, shape) * F32(PARAM_SCALE) for t, (n, shape, _) in enumerate(TENSORS)}
        self.weights = {n: params[n] for n in MATRICES}
        cores = {n: self.project(n, p) if n in MATRICES else p for n, p in params.items()}
        super().__init__(cores, WORKERS, OPT, dct_dtype)

    def project(self, name, g):
        return self.bases[name].project(g.astype(np.float64)).astype(F32) if name in MATRICES else g

    def apply(self, name, update, lr, number):
        if name not in MATRICES:
            return super().apply(name, update, lr, number)
        t, (b1, b2) = number + 1, OPT.betas
        self.m[name] = F32(b1) * self.m[name] + F32(1 - b1) * update
        self.v[name] = F32(b2) * self.v[name] + F32(1 - b2) * update * update
        d = self.m[name] / F32(1 - b1**t) / (np.sqrt(self.v[name] / F32(1 - b2**t)) + F32(OPT.eps))
        step = self.bases[name].lift(d.astype(np.float64))
        w = self.weights[name] * (1 - float(lr) * OPT.wd) - float(lr) * SCALE * step
        self.weights[name] = w.astype(F32)

    def step(self, gradient, lr, missing=lambda number: (), last=False):
        t = self.steps
        result = super().step(gradient, lr, missing, last)
        for name, basis in self.bases.items():
            if not basis.due(t):
                continue
            basis.draw(t)
            for delta in self.delta:
                delta[name] = np.zeros_like(delta[name])
        return result

    def all_weights(self):
        return {n: (self.weights[n] if n in MATRICES else self.theta[n]).copy() for n, _, _ in TENSORS}


def trace(seed, dct_dtype=np.float64):
    run, history = GaloreRun(seed, dct_dtype), []
    margins = {"topk": [], "sign": [], "exact_zeros": []}
    for s, lr in enumerate(learning_rates(STEPS)):
        def gradient(worker, _, s=s):
            return {n: run.project(n, hashed(seed, s, worker, t, shape) * F32(scale))
                    for t, (n, shape, scale) in enumerate(TENSORS)}
        payloads, applied, _, _ = run.step(gradient, lr, lambda r: MISSING.get(r, ()), s + 1 == STEPS)
        for payload in payloads:
            for p in payload.values():
                payload_margins(p, OPT, margins)
        for updates in applied:
            for x in updates.values():
                sign_margins(x, margins)
        history.append(run.all_weights())
    zeros = sum(margins.pop("exact_zeros"))
    return run, history, {key: float(min(x)) for key, x in margins.items()} | {"exact_zeros": zeros}


def check():
    """P P' is the identity in the mean over renewals, and what is lifted leaves the first subspace."""
    basis, total, seen = Basis("wide"), np.zeros((10, 10)), []
    for n in range(4000):
        basis.draw(n * EVERY)
        total += basis.b @ basis.b.T
        seen.append(basis.b)
    assert np.abs(total / 4000 - np.eye(10)).max() < 0.05
    assert np.linalg.matrix_rank(seen[0]) == RANK and np.linalg.matrix_rank(np.hstack(seen[:3])) == 10


if __name__ == "__main__":
    check()
    if "--find-seed" in sys.argv:
        def quality(n):
            margins = trace(int(splitmix64(n)))[2]
            return min(margins["topk"], margins["sign"])
        best = max(range(1, 61), key=quality)
        sys.exit(f"SEED = {best}  # {quality(best):.1e}")
    seed = int(splitmix64(SEED))
    run, history, margins = trace(seed)
    other = trace(seed, np.float32)[1]
    margins["float32_difference"] = max(float(np.abs(x[n] - y[n]).max()) for x, y in zip(history, other) for n in x)
    print(margins)
    assert margins["float32_difference"] < 2e-6, "a float32 program would leave this trace: choose another seed"
    out = {"lr": learning_rates(STEPS)}
    for n, _, _ in TENSORS:
        for s in range(STEPS):
            out[f"after.{s + 1}.{n}"] = history[s][n]
        out[f"m.{n}"], out[f"v.{n}"] = run.m[n], run.v[n]
    assert all(x.dtype == F32 and np.isfinite(x).all() for x in out.values())
    options = asdict(OPT) | {
        "steps": STEPS, "workers": WORKERS, "seed": f"{seed:#018x}", "param_scale": PARAM_SCALE, "rank": RANK,
        "every": EVERY, "scale": SCALE, "run_seed": RUN_SEED,
        "tensors": [{"name": n, "shape": s, "grad_scale": g} for n, s, g in TENSORS],
        "missing": [{"round": r, "workers": w} for r, w in MISSING.items()],
    }
    write_golden(HERE / "distro_galore.safetensors", out,
                 {"options": json.dumps(options), "margins": json.dumps(margins), "made_by": "make_distro_galore.py"})
