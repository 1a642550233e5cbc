"""Golden loss and gradients of tiny Llama models: writes llama_<case>.safetensors beside itself.

    python tests/golden/make_llama.py

Source: Touvron et al., "Llama 2" (arXiv 2307.09288) as Hugging Face's LlamaForCausalLM builds it:

    x   = embed[token]
    x  += Wo attention(rope(Wq y), rope(Wk y), Wv y),   y = rmsnorm(x)       causal, scale 1/sqrt(head_dim)
    x  += Wdown (silu(Wgate y) * (Wup y)),              y = rmsnorm(x)
    logits = Whead rmsnorm(x)                           Whead = embed when tied
    rmsnorm(x) = weight * x / sqrt(mean(x^2) + eps)
    rope: angle = position * theta^(-2i/head_dim), i = 0 .. head_dim/2 - 1, rotating the pair
          (x[i], x[i + head_dim/2]): Hugging Face's half-split layout, not interleaved neighbours.
    grouped-query attention: query head j uses key/value head j // (heads / kv_heads)

The weights are float32; loss and gradients are computed in float64 by the forward pass below and
PyTorch's autograd, and rounded to float32. transformers computes the same with eager attention in
float32 (norm, softmax and rope are float32 there in any case, so it cannot be the reference itself):
the script asserts that both agree.

File contents (float32 unless said; <hf name> as in Hugging Face checkpoints, no lm_head when tied):
    <hf name>                 weights: N(0, 0.2^2), norm weights 1 + N(0, 0.2^2)
    grad.<hf name>            d loss / d weight; tied: embed_tokens holds both contributions
    tokens    int32 [3, 17]   rows; predictions are tokens[:, t+1] from tokens[:, :t+1], 16 a row
    loss      [1]             mean cross-entropy over the 48 predictions
    logits    [16, vocab]     of row 0, for the inputs tokens[0, :16]
Metadata: "config" (JSON, Hugging Face's config.json fields), "loss" (all digits).
"""

import json
import math
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np
import torch

from golden_file import write_golden

HERE = Path(__file__).resolve().parent
BASE = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=61, hidden_size=32, intermediate_size=88,
            num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
            rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False, hidden_act="silu",
            attention_bias=False, mlp_bias=False, bos_token_id=1, eos_token_id=2)
CASES = {
    "untied": BASE,
    "tied": BASE | dict(tie_word_embeddings=True),
    "gqa": BASE | dict(num_key_value_heads=2, rope_theta=500000.0, rms_norm_eps=1e-6),
}


def make_weights(cfg, rng):
    h, f = cfg["hidden_size"], cfg["intermediate_size"]
    kv = h // cfg["num_attention_heads"] * cfg["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (cfg["vocab_size"], h)}
    for i in range(cfg["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        shapes |= {
            layer + "input_layernorm.weight": (h,),
            layer + "self_attn.q_proj.weight": (h, h), layer + "self_attn.k_proj.weight": (kv, h),
            layer + "self_attn.v_proj.weight": (kv, h), layer + "self_attn.o_proj.weight": (h, h),
            layer + "post_attention_layernorm.weight": (h,),
            layer + "mlp.gate_proj.weight": (f, h), layer + "mlp.up_proj.weight": (f, h),
            layer + "mlp.down_proj.weight": (h, f),
        }
    shapes["model.norm.weight"] = (h,)
    if not cfg["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (cfg["vocab_size"], h)
    return {n: ((len(s) == 1) + 0.2 * rng.standard_normal(s)).astype(np.float32) for n, s in shapes.items()}


# Shape suffixes: B rows, T positions, C hidden, H heads, D head_dim, V vocabulary.

def rmsnorm(x, weight, eps):
    return weight * x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def rope(x_BHTD, theta):
    d, t = x_BHTD.shape[-1], x_BHTD.shape[-2]
    freq = theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.arange(t, dtype=torch.float64)[:, None] * freq
    a, b = x_BHTD[..., : d // 2], x_BHTD[..., d // 2:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def forward(w, cfg, tokens_BT):
    """float64 weights -> logits_BTV."""
    heads, kv_heads, eps = cfg["num_attention_heads"], cfg["num_key_value_heads"], cfg["rms_norm_eps"]
    d = cfg["hidden_size"] // heads
    B, T = tokens_BT.shape
    future = torch.ones(T, T, dtype=torch.bool).triu(1)

    def split_heads(x, n):
        return x.view(B, T, n, d).transpose(1, 2)

    x = w["model.embed_tokens.weight"][tokens_BT]
    for i in range(cfg["num_hidden_layers"]):
        p = {n.removeprefix(f"model.layers.{i}.").removesuffix(".weight"): t for n, t in w.items()}
        y = rmsnorm(x, p["input_layernorm"], eps)
        q = rope(split_heads(y @ p["self_attn.q_proj"].T, heads), cfg["rope_theta"])
        k = rope(split_heads(y @ p["self_attn.k_proj"].T, kv_heads), cfg["rope_theta"])
        v = split_heads(y @ p["self_attn.v_proj"].T, kv_heads)
        k, v = (a.repeat_interleave(heads // kv_heads, 1) for a in (k, v))
        score = (q @ k.transpose(-1, -2) / math.sqrt(d)).masked_fill(future, -torch.inf)
        y = (score.softmax(-1) @ v).transpose(1, 2).reshape(B, T, -1)
        x = x + y @ p["self_attn.o_proj"].T
        y = rmsnorm(x, p["post_attention_layernorm"], eps)
        gate = y @ p["mlp.gate_proj"].T
        x = x + (gate * torch.sigmoid(gate) * (y @ p["mlp.up_proj"].T)) @ p["mlp.down_proj"].T
    head = w["model.embed_tokens.weight" if cfg["tie_word_embeddings"] else "lm_head.weight"]
    return rmsnorm(x, w["model.norm.weight"], eps) @ head.T


def loss_and_gradients(weights, cfg, tokens):
    """Returns (loss, {name: gradient}, logits_BTV), all float64."""
    w = {n: torch.from_numpy(x).double().requires_grad_() for n, x in weights.items()}
    tokens = torch.from_numpy(tokens).long()
    logits = forward(w, cfg, tokens[:, :-1])
    loss = -logits.log_softmax(-1).gather(-1, tokens[:, 1:, None]).mean()
    loss.backward()
    return loss.item(), {n: x.grad.numpy() for n, x in w.items()}, logits.detach().numpy()


def check_against_transformers(weights, cfg, tokens, loss, grads, logits):
    """Largest difference relative to each tensor's largest entry."""
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(**cfg, attn_implementation="eager")).float()
    assert model.config.rope_parameters["rope_theta"] == cfg["rope_theta"]
    missing, unexpected = model.load_state_dict({n: torch.from_numpy(x) for n, x in weights.items()}, strict=False)
    assert not unexpected and set(missing) == ({"lm_head.weight"} if cfg["tie_word_embeddings"] else set())
    model.tie_weights()
    rows = torch.from_numpy(tokens).long()
    out = model(input_ids=rows, labels=rows)
    out.loss.backward()
    got = {n: p.grad.numpy() for n, p in model.named_parameters()}
    assert got.keys() == grads.keys()

    def error(a, b):
        return float(np.abs(a - b).max() / np.abs(b).max())

    worst = max(error(got[n], grads[n]) for n in grads)
    worst = max(worst, error(out.logits.detach().numpy()[:, :-1], logits), abs(out.loss.item() / loss - 1))
    assert worst < 1e-5, worst
    return worst


if __name__ == "__main__":
    torch.manual_seed(0)
    for seed, (case, cfg) in enumerate(CASES.items()):
        rng = np.random.default_rng(seed)
        weights = make_weights(cfg, rng)
        tokens = rng.integers(0, cfg["vocab_size"], (3, 17)).astype(np.int32)
        loss, grads, logits = loss_and_gradients(weights, cfg, tokens)
        worst = check_against_transformers(weights, cfg, tokens, loss, grads, logits)
        out = weights | {"grad." + n: g.astype(np.float32) for n, g in grads.items()}
        out |= {"tokens": tokens, "loss": np.array([loss], np.float32), "logits": logits[0].astype(np.float32)}
        write_golden(HERE / f"llama_{case}.safetensors", out,
                     {"config": json.dumps(cfg), "loss": repr(loss), "made_by": "make_llama.py"})
        smallest = min(np.abs(g).max() for g in grads.values())
        print(f"{case:7} loss {loss:.6f}  largest relative difference to transformers in float32 {worst:.1e}  "
              f"smallest max|grad| {smallest:.1e}")
