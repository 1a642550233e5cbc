"""Golden losses and gradients of pairs of answers: writes dpo.safetensors beside itself.

    python tests/golden/make_dpo.py

Source: DPO, Rafailov et al. (arXiv 2305.18290, equation 7, and its gradient, appendix A.4); label smoothing as in
Mitchell (2023); IPO, Azar et al. (arXiv 2310.12036, equation 17), of log-likelihoods per token as TRL's DPOTrainer has
it. The model is that of llama_gqa.safetensors (make_llama.py), the reference the same with noise on its weights. A
text is a prompt and an answer, each by itself; log p is the sum over the answer's tokens of their log-probabilities.

    h    = (log p(chosen) - log r(chosen)) - (log p(rejected) - log r(rejected))
    dpo  = -(1 - e) log sigmoid(beta h) - e log sigmoid(-beta h)
    ipo  = (h - 1 / (2 beta))^2, with each log p and log r divided by the answer's tokens
    reward = beta (log p - log r), of ipo divided likewise

Losses, means over the pairs, and gradients come from the forward pass of make_llama.py and PyTorch's autograd, in
float64. A pair's texts never share a row here.

File contents (float32 unless said; P pairs, their texts chosen, rejected, chosen, ...):
    texts       int32 [2P, 12]  tokens, then zeros
    lengths     int32 [2P]      tokens of each text
    prompts     int32 [P]       tokens of each prompt, with which both texts begin
    reference   [2P]            log r of each text's answer
    V.loss      [1]             of each variant V
    V.rewards   [2P]
    V.grad.N                    gradient of the loss, of each weight N
    descent     [6]             losses of variant "sigmoid" before each of 6 steps of gradient descent, rate 0.005
Metadata: "variants" (JSON: beta, loss, label_smoothing of each).
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
CFG = CASES["gqa"]
VARIANTS = {
    "sigmoid": dict(beta=0.3, loss="sigmoid", label_smoothing=0.0),
    "smoothed": dict(beta=0.5, loss="sigmoid", label_smoothing=0.2),
    "ipo": dict(beta=0.2, loss="ipo", label_smoothing=0.0),
}
PROMPTS, ANSWERS, WIDTH, RATE = (3, 5, 2), ((4, 3), (2, 5), (6, 1)), 12, 0.005


def draw_texts(rng):
    texts = []
    for prompt, lengths in zip(PROMPTS, ANSWERS):
        begin = rng.integers(3, CFG["vocab_size"], prompt)
        texts += [np.concatenate([begin, rng.integers(3, CFG["vocab_size"], n)]) for n in lengths]
    return texts


def log_likelihoods(weights, texts):
    result = []
    for i, text in enumerate(texts):
        tokens = torch.from_numpy(text).long()[None]
        logs = forward(weights, CFG, tokens[:, :-1]).log_softmax(-1).gather(-1, tokens[:, 1:, None])
        result.append(logs[0, PROMPTS[i // 2] - 1:, 0].sum())
    return torch.stack(result)


def loss_and_rewards(weights, texts, reference, variant):
    gains = log_likelihoods(weights, texts) - reference
    if variant["loss"] == "ipo":
        gains = gains / torch.tensor([n for lengths in ANSWERS for n in lengths], dtype=torch.float64)
    h = gains[0::2] - gains[1::2]
    beta, wrong = variant["beta"], variant["label_smoothing"]
    if variant["loss"] == "ipo":
        losses = (h - 1 / (2 * beta)) ** 2
    else:
        losses = -(1 - wrong) * (beta * h).sigmoid().log() - wrong * (-beta * h).sigmoid().log()
    return losses.mean(), beta * gains


def as_tensors(values, requires_grad=False):
    return {n: torch.from_numpy(np.asarray(x, np.float64)).requires_grad_(requires_grad) for n, x in values.items()}


def check_gradient(base, texts, reference, variant, grads):
    """The paper's gradient: -beta sigmoid(-beta h) (grad log p(chosen) - grad log p(rejected))."""
    w = as_tensors(base, True)
    logs = log_likelihoods(w, texts)
    gains = (logs - reference).detach()
    factor = variant["beta"] * torch.sigmoid(-variant["beta"] * (gains[0::2] - gains[1::2]))
    (-(factor * (logs[0::2] - logs[1::2])).mean()).backward()
    worst = max(float(np.abs(w[n].grad.numpy() - grads[n]).max()) for n in grads)
    assert worst < 1e-12, worst


def descend(base, texts, reference, variant):
    theta, losses = {n: x.astype(np.float64) for n, x in base.items()}, []
    for _ in range(6):
        w = as_tensors(theta, True)
        loss, _ = loss_and_rewards(w, texts, reference, variant)
        loss.backward()
        losses.append(loss.item())
        theta = {n: x - RATE * w[n].grad.numpy() for n, x in theta.items()}
    assert losses == sorted(losses, reverse=True), losses
    return np.array(losses, np.float32)


if __name__ == "__main__":
    file = load_file(HERE / "llama_gqa.safetensors")
    base = {n: x for n, x in file.items() if n.startswith(("model.", "lm_head."))}
    rng = np.random.default_rng(7)
    texts = draw_texts(rng)
    start = {n: x + rng.normal(0, 0.02, x.shape).astype(np.float32) for n, x in base.items()}
    with torch.no_grad():
        reference = log_likelihoods(as_tensors(start), texts).float().double()
    out = {"texts": np.stack([np.pad(t, (0, WIDTH - len(t))) for t in texts]).astype(np.int32),
           "lengths": np.array([len(t) for t in texts], np.int32), "prompts": np.array(PROMPTS, np.int32),
           "reference": reference.float().numpy()}
    for name, variant in VARIANTS.items():
        w = as_tensors(base, True)
        loss, rewards = loss_and_rewards(w, texts, reference, variant)
        loss.backward()
        grads = {n: x.grad.numpy() for n, x in w.items()}
        if name == "sigmoid":
            check_gradient(base, texts, reference, variant, grads)
        out |= {f"{name}.loss": np.array([loss.item()], np.float32),
                f"{name}.rewards": rewards.detach().float().numpy()}
        out |= {f"{name}.grad.{n}": g.astype(np.float32) for n, g in grads.items()}
        print(name, loss.item(), rewards.detach().numpy().round(4))
    out["descent"] = descend(base, texts, reference, VARIANTS["sigmoid"])
    print("descent", out["descent"])
    write_golden(HERE / "dpo.safetensors", out, {"variants": json.dumps(VARIANTS), "made_by": "make_dpo.py"})
