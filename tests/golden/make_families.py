"""Golden logits, gradients and losses of tiny models of each family that differs from Llama in options:
writes family_<case>.safetensors beside itself.

    python tests/golden/make_families.py

Source: transformers' LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM and
Olmo2ForCausalLM. Beside make_llama.py, whose notation this is:

    biases      y W^T + b: attention_bias (q, k, v and o; Qwen2: q, k, v always), mlp_bias
    head_dim    width of a head, if not hidden_size / num_attention_heads
    window      position t sees t - window + 1 .. t; Mistral: in every layer, Qwen2: from max_window_layers on
    q, k norms  before rotation: Qwen3 each head by itself, OLMo 2 all heads of a token together
    OLMo 2      x += norm(attention(x)), x += norm(mlp(x)), without norms before
    rope        frequencies and magnitude as in make_rope.py

Weights are float32; everything else is computed in float64 by the forward pass below and PyTorch's autograd.
transformers does the same in float32 with eager attention, and the script asserts that both agree: logits, loss,
gradients, and the losses of STEPS steps of gradient descent (w -= RATE * gradient of the mean loss), all on the
same tokens.
Keys: weights by name, grad.<name>, tokens [rows, T + 1], logits [rows, T, vocabulary], losses [STEPS]: the mean
loss before each step. Metadata: config (config.json), rate.
"""

import json
import math
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from golden_file import write_golden
from make_llama import rmsnorm
from make_rope import frequencies, magnitude

HERE = Path(__file__).resolve().parent
ROWS, LENGTH, STEPS, RATE = 2, 14, 5, 0.3
BASE = dict(vocab_size=29, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, hidden_act="silu",
            tie_word_embeddings=False)
PLAIN = dict(rope_type="default", rope_theta=10000.0)
CASES = {
    "llama": dict(model_type="llama", head_dim=10, attention_bias=True, mlp_bias=True,
                  rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0,
                                       high_freq_factor=4.0, original_max_position_embeddings=32)),
    "mistral": dict(model_type="mistral", sliding_window=5, head_dim=8, rope_parameters=PLAIN),
    "qwen2": dict(model_type="qwen2", use_sliding_window=True, sliding_window=6, max_window_layers=1,
                  tie_word_embeddings=True,
                  rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=2.0, beta_fast=4.0, beta_slow=0.5,
                                       original_max_position_embeddings=32)),
    "qwen3": dict(model_type="qwen3", head_dim=8, attention_bias=False, rope_parameters=PLAIN),
    # transformers gives a padding token no gradient.
    "olmo2": dict(model_type="olmo2", attention_bias=True, rope_parameters=PLAIN, pad_token_id=None, eos_token_id=2),
}


def make_weights(cfg, rng):
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**cfg))
    shapes = {n: tuple(p.shape) for n, p in model.named_parameters()}
    mean = {n: float(n.endswith("norm.weight")) for n in shapes}
    return {n: (mean[n] + 0.2 * rng.standard_normal(s)).astype(np.float32) for n, s in shapes.items()}


# Shape suffixes: B rows, T positions, C hidden, H heads, D head_dim, V vocabulary.

def rotated(x_BHTD, rope):
    d, t = x_BHTD.shape[-1], x_BHTD.shape[-2]
    plain = [rope["rope_theta"] ** (-2 * i / d) for i in range(d // 2)]
    freq = plain if rope["rope_type"] == "default" else frequencies(rope, d, 64, t)
    angle = torch.arange(t, dtype=torch.float64)[:, None] * torch.tensor(freq, dtype=torch.float64)
    m = magnitude(rope)
    a, b = x_BHTD[..., : d // 2], x_BHTD[..., d // 2:]
    return m * torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def window_of(cfg, layer):
    if cfg["model_type"] == "mistral":
        return cfg["sliding_window"]
    if cfg.get("use_sliding_window") and layer >= cfg["max_window_layers"]:
        return cfg["sliding_window"]
    return LENGTH


def attention(y, p, cfg, layer):
    heads, kv_heads, eps = cfg["num_attention_heads"], cfg["num_key_value_heads"], cfg["rms_norm_eps"]
    d = cfg.get("head_dim", cfg["hidden_size"] // heads)
    B, T, _ = y.shape

    def project(name, n):
        out = y @ p[f"self_attn.{name}_proj.weight"].T + p.get(f"self_attn.{name}_proj.bias", 0)
        norm = p.get(f"self_attn.{name}_norm.weight")
        if norm is not None and cfg["model_type"] == "olmo2":
            out = rmsnorm(out, norm, eps)
        out = out.view(B, T, n, d)
        if norm is not None and cfg["model_type"] == "qwen3":
            out = rmsnorm(out, norm, eps)
        return out.transpose(1, 2)

    q, k = (rotated(project(name, n), cfg["rope_parameters"]) for name, n in (("q", heads), ("k", kv_heads)))
    k, v = (a.repeat_interleave(heads // kv_heads, 1) for a in (k, project("v", kv_heads)))
    ago = torch.arange(T)[:, None] - torch.arange(T)
    unseen = (ago < 0) | (ago >= window_of(cfg, layer))
    score = (q @ k.transpose(-1, -2) / math.sqrt(d)).masked_fill(unseen, -torch.inf)
    out = (score.softmax(-1) @ v).transpose(1, 2).reshape(B, T, -1)
    return out @ p["self_attn.o_proj.weight"].T + p.get("self_attn.o_proj.bias", 0)


def mlp(y, p):
    gate, up = (y @ p[f"mlp.{n}_proj.weight"].T + p.get(f"mlp.{n}_proj.bias", 0) for n in ("gate", "up"))
    inner = gate * torch.sigmoid(gate) * up
    return inner @ p["mlp.down_proj.weight"].T + p.get("mlp.down_proj.bias", 0)


def forward(w, cfg, tokens_BT):
    """float64 weights -> logits_BTV."""
    eps, after = cfg["rms_norm_eps"], cfg["model_type"] == "olmo2"
    x = w["model.embed_tokens.weight"][tokens_BT]
    for layer in range(cfg["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        p = {n.removeprefix(prefix): t for n, t in w.items() if n.startswith(prefix)}

        def norm(y, name):
            return rmsnorm(y, p[name + "_layernorm.weight"], eps)

        if after:
            x = x + norm(attention(x, p, cfg, layer), "post_attention")
            x = x + norm(mlp(x, p), "post_feedforward")
        else:
            x = x + attention(norm(x, "input"), p, cfg, layer)
            x = x + mlp(norm(x, "post_attention"), p)
    head = w["model.embed_tokens.weight" if cfg["tie_word_embeddings"] else "lm_head.weight"]
    return rmsnorm(x, w["model.norm.weight"], eps) @ head.T


def reference(weights, cfg, tokens):
    """Returns (losses, {name: gradient}, logits), in float64; gradients and logits at the given weights."""
    w = {n: torch.from_numpy(x).double().requires_grad_() for n, x in weights.items()}
    tokens = torch.from_numpy(tokens).long()
    losses, first = [], None
    for _ in range(STEPS):
        logits = forward(w, cfg, tokens[:, :-1])
        loss = -logits.log_softmax(-1).gather(-1, tokens[:, 1:, None]).mean()
        grads = dict(zip(w, torch.autograd.grad(loss, list(w.values()))))
        losses.append(loss.item())
        first = first or ({n: g.numpy() for n, g in grads.items()}, logits.detach().numpy())
        w = {n: (x - RATE * grads[n]).detach().requires_grad_() for n, x in w.items()}
    return losses, *first


def by_transformers(weights, cfg, tokens):
    """The same by transformers, in float32."""
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**cfg), attn_implementation="eager").float()
    model.load_state_dict({n: torch.from_numpy(x) for n, x in weights.items()}, strict=False)
    model.tie_weights()
    rows, losses, first = torch.from_numpy(tokens).long(), [], None
    for _ in range(STEPS):
        model.zero_grad()
        out = model(input_ids=rows, labels=rows)
        out.loss.backward()
        losses.append(out.loss.item())
        grads = {n: p.grad.numpy().copy() for n, p in model.named_parameters()}
        first = first or (grads, out.logits.detach().numpy()[:, :-1])
        with torch.no_grad():
            for p in model.parameters():
                p -= RATE * p.grad
    return losses, *first


def check(ours, theirs):
    """Largest difference relative to each tensor's largest entry."""
    (losses, grads, logits), (t_losses, t_grads, t_logits) = ours, theirs
    assert grads.keys() == t_grads.keys()

    def error(a, b):
        return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-3))

    worst = max(error(t_grads[n], grads[n]) for n in grads)
    worst = max(worst, error(t_logits, logits), error(np.array(t_losses), np.array(losses)))
    assert worst < 1e-4, worst
    return worst


if __name__ == "__main__":
    for seed, (case, fields) in enumerate(CASES.items()):
        cfg = BASE | fields
        rng = np.random.default_rng(100 + seed)
        weights = make_weights(cfg, rng)
        tokens = rng.integers(0, cfg["vocab_size"], (ROWS, LENGTH + 1)).astype(np.int32)
        losses, grads, logits = reference(weights, cfg, tokens)
        worst = check((losses, grads, logits), by_transformers(weights, cfg, tokens))
        out = weights | {"grad." + n: g.astype(np.float32) for n, g in grads.items()}
        out |= {"tokens": tokens, "logits": logits.astype(np.float32), "losses": np.array(losses, np.float32)}
        write_golden(HERE / f"family_{case}.safetensors", out,
                     {"config": json.dumps(cfg), "rate": repr(RATE), "made_by": "make_families.py"})
        print(f"{case:7} losses {losses[0]:.4f} .. {losses[-1]:.4f}  largest relative difference to transformers "
              f"in float32 {worst:.1e}  smallest max|grad| {min(np.abs(g).max() for g in grads.values()):.1e}")
