"""GaLore and LoRA in plain PyTorch, for comparison, for the Llama of pytorch_llama."""

import math

import torch
import torch.nn.functional as F
from torch import nn

# How many matrices lie on top of one another in each weight of a block.
PIECES = {"qkv": 3, "o": 1, "gate_up": 2, "down": 1}


def update_projected(weight, gradient, state, *, rank, lr, betas, eps, refresh, scale):
    """A step of one matrix; state is empty before the first."""
    if gradient.shape[0] > gradient.shape[1]:
        weight, gradient = weight.T, gradient.T
    step = state["step"] = state.get("step", 0) + 1
    if (step - 1) % refresh == 0:
        left = torch.linalg.svd(gradient.float(), full_matrices=False)[0]
        state["basis"] = left[:, :rank].to(weight.dtype).clone()
    projected = state["basis"].T @ gradient
    if step == 1:
        state["m"], state["v"] = torch.zeros_like(projected), torch.zeros_like(projected)
    state["m"].lerp_(projected, 1 - betas[0])
    state["v"].mul_(betas[1]).addcmul_(projected, projected, value=1 - betas[1])
    root = (state["v"] / (1 - betas[1] ** step)).sqrt_().add_(eps)
    weight.addmm_(state["basis"], state["m"] / root, alpha=-lr * scale / (1 - betas[0] ** step))


class GaLore(torch.optim.Optimizer):
    """Algorithm 2 of arXiv 2403.03507 without weight decay: Adam on a projection of the gradient, onto the leading
    singular vectors of the smaller dimension, which an SVD finds anew every `refresh` steps. The entry "pieces" of
    a group says how many matrices lie on top of one another in each of its weights."""

    def __init__(self, groups, rank, lr, betas=(0.9, 0.999), eps=1e-8, refresh=200, scale=0.25):
        self.options = {"rank": rank, "lr": lr, "betas": betas, "eps": eps, "refresh": refresh, "scale": scale}
        super().__init__(groups, {"pieces": 1})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                pieces = group["pieces"]
                states = self.state[weight].setdefault("pieces", [{} for _ in range(pieces)])
                for part, gradient, state in zip(weight.detach().chunk(pieces), weight.grad.chunk(pieces), states):
                    update_projected(part, gradient, state, **self.options)


class Adapted(nn.Module):
    """A frozen linear layer with LoRA's factors for each of the matrices in its weight: x W^T + s (x A^T) B^T."""

    def __init__(self, base, pieces, rank, alpha):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        outer = base.out_features // pieces
        self.a = nn.ParameterList(torch.empty(rank, base.in_features) for _ in range(pieces))
        self.b = nn.ParameterList(torch.zeros(outer, rank) for _ in range(pieces))
        for a in self.a:
            nn.init.kaiming_uniform_(a, math.sqrt(5))

    def forward(self, x):
        added = [F.linear(self.scale * F.linear(x, a.to(x.dtype)), b.to(x.dtype)) for a, b in zip(self.a, self.b)]
        return self.base(x) + torch.cat(added, dim=-1)


def adapt(model, rank, alpha):
    """Freezes the model and gives all matrices of its blocks factors."""
    model.requires_grad_(False)
    for block in model.blocks:
        for name, pieces in PIECES.items():
            setattr(block, name, Adapted(getattr(block, name), pieces, rank, alpha))
