"""Golden trace of LoRA under AdamW: writes lora.safetensors beside itself.

    python tests/golden/make_lora.py

Source: Hu et al., "LoRA" (arXiv 2106.09685, section 4.1), and PEFT for the initial values. The frozen base is the
model of llama_gqa.safetensors (make_llama.py). Each matrix named below computes

    y = x W^T + s (x A^T) B^T,   A [r, in] uniform in +-1/sqrt(in), B [out, r] zero, s = alpha / r

and the final norm is trained whole. Each step takes the same tokens; loss and gradients come from the forward pass of
make_llama.py with W + s B A in place of W and PyTorch's autograd, in float64. Then, with decoupled decay of factors
only (torch.optim.AdamW, asserted):

    theta *= 1 - lr*wd
    m      = b1*m + (1 - b1)*g        v = b2*v + (1 - b2)*g*g
    theta -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

File contents (float32; N = <module>.lora_A.weight, <module>.lora_B.weight, model.norm.weight):
    start.N              values before the first step
    grad.N               gradient in the last step
    after.S.N            values after S steps, S = 1..5
    loss        [5]      mean loss of each step, before it
    merged.M             W + s B A after the last step, of each matrix M with factors
Metadata: "options" (JSON).
"""

import json
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np
import torch
from safetensors.numpy import load_file

from golden_file import write_golden
from make_llama import CASES, forward

HERE = Path(__file__).resolve().parent
OPT = dict(rank=3, alpha=6.0, lr=0.02, wd=0.1, betas=(0.9, 0.95), eps=1e-8, steps=5,
           targets=["q_proj", "v_proj", "gate_proj", "down_proj"], whole=["model.norm"])
CFG = CASES["gqa"]


def with_factors(base, trained):
    """The weights of the model that base and trained tensors make."""
    weights = {n: trained.get(n, w) for n, w in base.items()}
    for name in trained:
        if name.endswith(".lora_A.weight"):
            module = name.removesuffix(".lora_A.weight")
            product = trained[module + ".lora_B.weight"] @ trained[name]
            weights[module + ".weight"] = base[module + ".weight"] + OPT["alpha"] / OPT["rank"] * product
    return weights


def loss_of(base, trained, tokens):
    logits = forward(with_factors(base, trained), CFG, tokens[:, :-1])
    return -logits.log_softmax(-1).gather(-1, tokens[:, 1:, None]).mean()


def adamw(theta, g, m, v, t, decays):
    b1, b2 = OPT["betas"]
    theta = theta * (1 - OPT["lr"] * OPT["wd"]) if decays else theta
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    step = OPT["lr"] * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + OPT["eps"])
    return theta - step, m, v


def start_values(base, rng):
    rank, trained = OPT["rank"], {}
    for name, w in base.items():
        module = name.removesuffix(".weight")
        if module in OPT["whole"]:
            trained[name] = w.copy()
        elif module.split(".")[-1] in OPT["targets"]:
            bound = 1 / np.sqrt(w.shape[1])
            trained[module + ".lora_A.weight"] = rng.uniform(-bound, bound, (rank, w.shape[1])).astype(np.float32)
            trained[module + ".lora_B.weight"] = np.zeros((w.shape[0], rank), np.float32)
    return trained


def as_tensors(values, requires_grad=False):
    return {n: torch.from_numpy(np.asarray(x, np.float64)).requires_grad_(requires_grad) for n, x in values.items()}


def trace(base, tokens, out):
    trained = start_values(base, np.random.default_rng(11))
    out |= {f"start.{n}": x for n, x in trained.items()}
    theta = {n: x.astype(np.float64) for n, x in trained.items()}
    m, v = ({n: np.zeros(x.shape) for n, x in theta.items()} for _ in range(2))
    losses = []
    for t in range(1, OPT["steps"] + 1):
        w = as_tensors(theta, True)
        loss = loss_of(as_tensors(base), w, tokens)
        loss.backward()
        losses.append(loss.item())
        grads = {n: x.grad.numpy() for n, x in w.items()}
        for n in theta:
            theta[n], m[n], v[n] = adamw(theta[n], grads[n], m[n], v[n], t, theta[n].ndim > 1)
            out[f"after.{t}.{n}"] = theta[n].astype(np.float32)
    out |= {f"grad.{n}": g.astype(np.float32) for n, g in grads.items()}
    out["loss"] = np.array(losses, np.float32)
    merged = with_factors(as_tensors(base), as_tensors(theta))
    out |= {f"merged.{n}": x.numpy().astype(np.float32) for n, x in merged.items()
            if n.removesuffix(".weight") + ".lora_A.weight" in theta}
    return theta


def check_against_torch(base, tokens, out, theta):
    w = as_tensors({n.removeprefix("start."): x for n, x in out.items() if n.startswith("start.")}, True)
    groups = [dict(params=[x for x in w.values() if x.ndim > 1], weight_decay=OPT["wd"]),
              dict(params=[x for x in w.values() if x.ndim == 1], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=OPT["lr"], betas=OPT["betas"], eps=OPT["eps"])
    for _ in range(OPT["steps"]):
        optimizer.zero_grad()
        loss_of(as_tensors(base), w, tokens).backward()
        optimizer.step()
    worst = max(float(np.abs(w[n].detach().numpy() - theta[n]).max()) for n in theta)
    assert worst < 1e-9, worst
    return worst


if __name__ == "__main__":
    file = load_file(HERE / "llama_gqa.safetensors")
    base = {n: x for n, x in file.items() if n.startswith(("model.", "lm_head."))}
    tokens = torch.from_numpy(file["tokens"]).long()
    out = {}
    theta = trace(base, tokens, out)
    worst = check_against_torch(base, tokens, out, theta)
    write_golden(HERE / "lora.safetensors", out, {"options": json.dumps(OPT), "made_by": "make_lora.py"})
    print("losses", [f"{x:.4f}" for x in out["loss"]], f"largest difference to torch.optim.AdamW {worst:.1e}")
