"""Golden trace of AdamW with an all-reduced gradient: writes adamw.safetensors beside itself.

    python tests/golden/make_adamw.py

Source: Loshchilov & Hutter, "Decoupled Weight Decay Regularization" (arXiv 1711.05101, algorithm 2), in the
form of torch.optim.AdamW, against which the trace is asserted. One step t = 0, 1, ...:

    g      = sum_w tokens_w * g_w / sum_w tokens_w        mean over workers, weighted by tokens
    norm   = L2 norm of g over all tensors                after the mean
    g     *= min(1, clip / (norm + 1e-6))                 the rule of torch.nn.utils.clip_grad_norm_
    theta *= 1 - lr*wd                                    not on 1-D tensors (norms, biases)
    m      = b1*m + (1 - b1)*g
    v      = b2*v + (1 - b2)*g*g
    theta -= lr * (m / (1 - b1^(t+1))) / (sqrt(v / (1 - b2^(t+1))) + eps)

    lr     = peak * (t+1)/warmup                          t < warmup
             final + (peak-final)*(1 + cos(pi*p))/2       p = (t-warmup)/(steps-warmup), final = peak/10

The token-weighted mean and the norm are computed in float64 and rounded once; theta, m and v are float32.
Some steps exceed the clip norm and some do not.

File contents (N = tensor name; float32 unless said; S counts from 0 in inputs):
    param.N                      initial weights
    grad.S.W.N                   gradient of worker W at step S = 0..5
    tokens.S     int32 [3]       tokens behind each worker's gradient at step S
    lr           [6]             learning rate of each step, to be used bit for bit
    norm         [6]             norm before clipping
    after.S.N                    weights after S steps, S = 1..6
    adam_m.N, adam_v.N           moments after the last step
Metadata: "options" (JSON).
"""

import json
import math
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np

from golden_file import write_golden

HERE = Path(__file__).resolve().parent
F32 = np.float32
SHAPES = {"embed": (12, 8), "w": (7, 10), "norm": (10,)}
OPT = dict(workers=3, steps=6, clip=1.0, betas=(0.9, 0.95), eps=1e-8, wd=0.1, peak_lr=0.01, warmup=2, final_ratio=0.1)
GRAD_SIZE = (0.3, 0.02, 0.1, 0.05, 0.2, 0.03)   # of each step: some are clipped, some not


def learning_rate(t):
    peak, final, warmup = OPT["peak_lr"], OPT["peak_lr"] * OPT["final_ratio"], OPT["warmup"]
    if t < warmup:
        return F32(peak * (t + 1) / warmup)
    p = (t - warmup) / (OPT["steps"] - warmup)
    return F32(final + (peak - final) * 0.5 * (1 + math.cos(math.pi * p)))


def mean_gradient(grads, tokens):
    """grads[worker][name], weighted by tokens[worker] -> {name: float32 mean}."""
    total = sum(int(n) for n in tokens)
    return {name: (sum(int(n) * g[name].astype(np.float64) for n, g in zip(tokens, grads)) / total).astype(F32)
            for name in grads[0]}


def clip(g):
    norm = math.sqrt(sum(float(np.sum(x.astype(np.float64) ** 2)) for x in g.values()))
    coef = F32(min(1.0, OPT["clip"] / (norm + 1e-6)))
    return {name: coef * x for name, x in g.items()}, F32(norm)


def adamw(theta, m, v, g, lr, t):
    """One tensor; scalars are formed in float64 and rounded once."""
    b1, b2 = OPT["betas"]
    if theta.ndim >= 2:
        theta = theta * F32(1 - float(lr) * OPT["wd"])
    m = F32(b1) * m + F32(1 - b1) * g
    v = F32(b2) * v + F32(1 - b2) * g * g
    mhat, vhat = m / F32(1 - b1 ** (t + 1)), v / F32(1 - b2 ** (t + 1))
    return theta - lr * mhat / (np.sqrt(vhat) + F32(OPT["eps"])), m, v


def check_against_torch(out):
    """The same trace by torch.optim.AdamW and clip_grad_norm_, from the stored inputs."""
    import torch
    p = {n: torch.from_numpy(out[f"param.{n}"].copy()).requires_grad_() for n in SHAPES}
    groups = [dict(params=[x for x in p.values() if x.ndim >= 2], weight_decay=OPT["wd"]),
              dict(params=[x for x in p.values() if x.ndim < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, betas=OPT["betas"], eps=OPT["eps"])
    worst = 0.0
    for s in range(OPT["steps"]):
        weight = torch.from_numpy(out[f"tokens.{s}"]).double()
        for n in p:
            each = torch.stack([torch.from_numpy(out[f"grad.{s}.{w}.{n}"]).double() for w in range(OPT["workers"])])
            p[n].grad = (torch.tensordot(weight, each, 1) / weight.sum()).float()
        norm = torch.nn.utils.clip_grad_norm_(list(p.values()), OPT["clip"])
        assert abs(norm.item() / out["norm"][s] - 1) < 1e-6
        for group in optimizer.param_groups:
            group["lr"] = float(out["lr"][s])
        optimizer.step()
        worst = max(worst, *(float(np.abs(p[n].detach().numpy() - out[f"after.{s + 1}.{n}"]).max()) for n in p))
    assert worst < 3e-7, worst
    return worst


def trace(shapes, update):
    """Inputs and weights of a run in which update(name, theta, gradient, lr, t) returns a tensor's new weights."""
    rng = np.random.default_rng(0)
    theta = {n: ((len(s) == 1) + 0.3 * rng.standard_normal(s)).astype(F32) for n, s in shapes.items()}
    out = {f"param.{n}": x.copy() for n, x in theta.items()}
    out["lr"] = np.array([learning_rate(t) for t in range(OPT["steps"])], F32)
    norms = []
    for s in range(OPT["steps"]):
        grads = [{n: (GRAD_SIZE[s] * rng.standard_normal(x)).astype(F32) for n, x in shapes.items()}
                 for _ in range(OPT["workers"])]
        out[f"tokens.{s}"] = rng.integers(100, 5000, OPT["workers"]).astype(np.int32)
        out |= {f"grad.{s}.{w}.{n}": g for w, by_name in enumerate(grads) for n, g in by_name.items()}
        g, norm = clip(mean_gradient(grads, out[f"tokens.{s}"]))
        norms.append(norm)
        for n in theta:
            theta[n] = update(n, theta[n], g[n], out["lr"][s], s)
            out[f"after.{s + 1}.{n}"] = theta[n]
    out["norm"] = np.array(norms, F32)
    assert min(norms) < OPT["clip"] < max(norms)
    return out


if __name__ == "__main__":
    m, v = ({n: np.zeros(s, F32) for n, s in SHAPES.items()} for _ in range(2))

    def update(n, theta, g, lr, t):
        theta, m[n], v[n] = adamw(theta, m[n], v[n], g, lr, t)
        return theta
    out = trace(SHAPES, update)
    out |= {f"adam_m.{n}": x for n, x in m.items()} | {f"adam_v.{n}": x for n, x in v.items()}
    assert all(x.dtype in (F32, np.int32) for x in out.values())
    worst = check_against_torch(out)
    write_golden(HERE / "adamw.safetensors", out, {"options": json.dumps(OPT), "made_by": "make_adamw.py"})
    print("norms", [f"{n:.3f}" for n in out["norm"]], f"largest difference to torch.optim.AdamW {worst:.1e}")
