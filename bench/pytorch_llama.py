"""The Llama of Thinwire in plain PyTorch, for comparison, and one training step of it."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Shape:
    """Widths in elements, vocab in tokens; kv_heads None: as many as heads."""

    vocab: int
    hidden: int
    layers: int
    heads: int
    intermediate: int
    kv_heads: int | None = None
    tied: bool = False
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.kv_heads = shape.kv_heads or shape.heads
        self.eps = shape.norm_eps
        width = shape.hidden
        self.attention_norm = nn.Parameter(torch.ones(width))
        size = width // self.heads
        self.qkv = nn.Linear(width, (self.heads + 2 * self.kv_heads) * size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.Parameter(torch.ones(width))
        self.gate_up = nn.Linear(width, 2 * shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, width, bias=False)

    def forward(self, x, cosine, sine):
        rows, length, width = x.shape
        y = F.rms_norm(x, (width,), self.attention_norm, self.eps)
        all_heads = self.heads + 2 * self.kv_heads
        qkv = self.qkv(y).view(rows, length, all_heads, -1).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           enable_gqa=self.kv_heads < self.heads)
        x = x + self.o(y.transpose(1, 2).reshape(rows, length, width))
        y = F.rms_norm(x, (width,), self.mlp_norm, self.eps)
        gate, up = self.gate_up(y).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cosine, sine):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, shape, sequence):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.hidden))
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
        if shape.tied:
            self.head.weight = self.embedding.weight
        size = shape.hidden // shape.heads
        frequency = shape.rope_theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angle = torch.outer(torch.arange(sequence, dtype=torch.float64), frequency)
        self.register_buffer("cosine", angle.cos().float(), persistent=False)
        self.register_buffer("sine", angle.sin().float(), persistent=False)

    def forward(self, tokens):
        """Mean cross entropy in nats of tokens [rows, sequence + 1], each predicting the next."""
        return self.loss_of(self.states(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    def states(self, tokens):
        """What the head sees of tokens [rows, sequence]: [rows, sequence, hidden]."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return F.rms_norm(x, (self.shape.hidden,), self.norm, self.shape.norm_eps)

    def loss_of(self, states, targets):
        """Mean cross entropy in nats of targets [n] after states [n, hidden]."""
        return F.cross_entropy(self.head(states).float(), targets)

    def load_hugging_face(self, tensors):
        """Takes the weights of a Hugging Face Llama, by name."""
        own = {"embedding.weight": tensors["model.embed_tokens.weight"],
               "norm": tensors["model.norm.weight"]}
        if not self.shape.tied:
            own["head.weight"] = tensors["lm_head.weight"]
        for i in range(self.shape.layers):
            def part(name):
                return tensors[f"model.layers.{i}.{name}.weight"]
            own[f"blocks.{i}.attention_norm"] = part("input_layernorm")
            own[f"blocks.{i}.mlp_norm"] = part("post_attention_layernorm")
            own[f"blocks.{i}.qkv.weight"] = torch.cat(
                [part(f"self_attn.{name}_proj") for name in "qkv"])
            own[f"blocks.{i}.o.weight"] = part("self_attn.o_proj")
            own[f"blocks.{i}.gate_up.weight"] = torch.cat(
                [part(f"mlp.{name}_proj") for name in ("gate", "up")])
            own[f"blocks.{i}.down.weight"] = part("mlp.down_proj")
        if self.shape.tied:
            own["head.weight"] = own["embedding.weight"]
        self.load_state_dict(own)


class Trainer:
    """Forward, backward, clipping to norm 1 and fused AdamW (0.9, 0.95, decay 0.1 of matrices)."""

    def __init__(self, model, precision, compiled, lr, device="cpu"):
        self.model = model
        self.device = device
        self.autocast = torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16")
        self.loss = torch.compile(model) if compiled else model
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
            lr=lr, betas=(0.9, 0.95), eps=1e-8, fused=True)

    def step(self, tokens):
        """Trains on tokens [rows, sequence + 1]; returns the loss before the update."""
        with self.autocast:
            loss = self.loss(tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()
