"""Golden trace of Muon with an all-reduced gradient: writes muon.safetensors beside itself.

    python tests/golden/make_muon.py

Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024), with the step size of Liu et
al., "Muon is Scalable for LLM Training" (arXiv 2502.16982); definitions in muon_reference.py. Gradients, weights,
clipping and learning rates as in make_adamw.py.
Embedding, head and 1-D tensors take AdamW's step of make_adamw.py with the same lr.

The iteration is computed in float64 from float32 N and rounded to float32 once; metadata "float32_difference" is the
largest |difference| of a weight when it runs in float32.

File contents: as adamw.safetensors, adam_m.N and adam_v.N only of AdamW's tensors, and
    muon_b.N                     B after the last step, of the matrices
Metadata: "options" (JSON), roles included.
"""

import json
import math

import golden_packages  # noqa: F401
import numpy as np

from golden_file import write_golden
from make_adamw import F32, HERE, OPT, adamw, mean_gradient, trace
from muon_reference import COEFFICIENTS, ITERATIONS, MOMENTUM, muon, orthogonalised

# name: (shape, role)
TENSORS = {"embed": ((12, 8), "embedding"), "wide": ((7, 11), "matrix"), "tall": ((13, 5), "matrix"),
           "square": ((8, 8), "matrix"), "norm": ((11,), "norm"), "head": ((12, 8), "head")}


def run(dtype=np.float64):
    m, v, b = ({n: np.zeros(shape, F32) for n, (shape, _) in TENSORS.items()} for _ in range(3))

    def update(n, theta, g, lr, t):
        if TENSORS[n][1] == "matrix":
            theta, b[n] = muon(theta, b[n], g, lr, OPT["wd"], dtype)
        else:
            theta, m[n], v[n] = adamw(theta, m[n], v[n], g, lr, t)
        return theta
    out = trace({n: shape for n, (shape, _) in TENSORS.items()}, update)
    for n, (_, role) in TENSORS.items():
        out |= {f"muon_b.{n}": b[n]} if role == "matrix" else {f"adam_m.{n}": m[n], f"adam_v.{n}": v[n]}
    return out


def check_singular_values():
    """The iteration is a polynomial of the singular values and leaves the singular vectors alone."""
    for shape in ((7, 11), (13, 5), (1, 9)):
        n = np.random.default_rng(1).standard_normal(shape).astype(F32)
        u, s, vt = np.linalg.svd(n.astype(np.float64), full_matrices=False)
        s /= math.sqrt((s**2).sum())
        for _ in range(ITERATIONS):
            s = sum(c * s ** (2 * i + 1) for i, c in enumerate(COEFFICIENTS))
        assert np.abs((u * s) @ vt - orthogonalised(n)).max() < 1e-6 and 0.5 < s.min() <= s.max() < 1.3
    assert not orthogonalised(np.zeros((3, 4), F32)).any()


def check_against_torch(out):
    """torch.optim.Muon iterates in bfloat16, so that it agrees to about 1 % of a step."""
    import torch
    p = {n: torch.from_numpy(out[f"param.{n}"].copy()).requires_grad_() for n, (_, role) in TENSORS.items()
         if role == "matrix"}
    optimizer = torch.optim.Muon(p.values(), weight_decay=OPT["wd"], momentum=MOMENTUM, adjust_lr_fn="match_rms_adamw")
    for s in range(OPT["steps"]):
        g = mean_gradient([{n: out[f"grad.{s}.{w}.{n}"] for n in p} for w in range(OPT["workers"])], out[f"tokens.{s}"])
        for n in p:
            p[n].grad = torch.from_numpy(g[n]) * min(1.0, OPT["clip"] / float(out["norm"][s]))
        optimizer.param_groups[0]["lr"] = float(out["lr"][s])
        optimizer.step()
    way = sum(float(x) for x in out["lr"]) * 0.2 * math.sqrt(13)
    worst = max(float(np.abs(p[n].detach().numpy() - out[f"after.{OPT['steps']}.{n}"]).max()) for n in p) / way
    assert worst < 0.01, worst
    return worst


if __name__ == "__main__":
    check_singular_values()
    out = run()
    single = run(np.float32)
    difference = max(float(np.abs(out[key] - single[key]).max()) for key in out if key.startswith("after."))
    assert difference < 3e-7, difference
    worst = check_against_torch(out)
    options = OPT | {"tensors": [{"name": n, "shape": s, "role": role} for n, (s, role) in TENSORS.items()],
                     "momentum": MOMENTUM}
    write_golden(HERE / "muon.safetensors", out, {"options": json.dumps(options), "made_by": "make_muon.py",
                                                  "float32_difference": str(difference)})
    print(f"float32 {difference:.1e}, torch.optim.Muon {worst:.1e} of the way")
