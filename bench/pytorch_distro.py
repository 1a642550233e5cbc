"""One step of DisTrO in plain PyTorch, for comparison: the equations of thinwire/methods/distro/distro.md."""

import math

import torch


def llama_shapes(vocab, hidden, layers, intermediate):
    """Shapes of a Llama's parameters with as many key/value heads as heads, head and embedding."""
    layer = [(hidden,)] * 2 + [(hidden, hidden)] * 4 + [(intermediate, hidden)] * 2
    return [(vocab, hidden)] * 2 + [(hidden,)] + (layer + [(hidden, intermediate)]) * layers


def side(length, chunk):
    return max(d for d in range(1, min(length, chunk) + 1) if length % d == 0)


def basis(n):
    """Orthonormal DCT-II, [frequency, place]."""
    f = torch.arange(n, dtype=torch.float64)
    rows = torch.cos(math.pi / n * torch.outer(f, f + 0.5)) * math.sqrt(2 / n)
    rows[0] /= math.sqrt(2)
    return rows.float()


class Tensor:
    """One parameter with its momentum, cut into tiles. `fixed_k`: k coefficients of small tiles, too."""

    def __init__(self, shape, chunk, k, fixed_k=False):
        self.rows, self.columns = shape if len(shape) == 2 else (1, shape[0])
        self.h, self.w = side(self.rows, chunk), side(self.columns, chunk)
        self.slots = self.h * self.w
        self.kept = min(self.slots, k if fixed_k else max(1, math.floor(k * self.slots / chunk**2 + 0.5)))
        self.down, self.along = basis(self.h), basis(self.w)
        self.parameter = torch.randn(self.rows, self.columns)
        self.gradient = torch.randn(self.rows, self.columns)
        self.momentum = torch.zeros(self.rows, self.columns)

    def transform(self, matrix):
        tiles = matrix.view(self.rows // self.h, self.h, self.columns // self.w, self.w)
        return torch.einsum("yaxb,ua,vb->yxuv", tiles, self.down, self.along)

    def inverse(self, flat):
        tiles = flat.view(self.rows // self.h, self.columns // self.w, self.h, self.w)
        matrix = torch.einsum("yxuv,ua,vb->yaxb", tiles, self.down, self.along)
        return matrix.reshape(self.rows, self.columns)

    def take_largest(self, decay, lr):
        """Slots and values of the largest coefficients, which the momentum loses."""
        self.momentum.mul_(decay).add_(self.gradient, alpha=lr)
        flat = self.transform(self.momentum).reshape(-1, self.slots)
        slots = flat.abs().topk(self.kept, dim=1, sorted=False).indices
        values = flat.gather(1, slots)
        self.momentum.sub_(self.inverse(torch.zeros_like(flat).scatter_(1, slots, values)))
        return slots, values

    def decoded(self, slots, values):
        """The mean over those that sent a slot, transformed back."""
        mean = torch.zeros(slots.shape[0], self.slots)
        mean.scatter_reduce_(1, slots, values, "mean", include_self=False)
        return self.inverse(mean)

    def encode(self, decay, lr):
        """Slots and 1-bit values, as signs and a scale, of the largest coefficients."""
        slots, values = self.take_largest(decay, lr)
        return slots.to(torch.int16), values > 0, values.abs().mean().bfloat16()

    def apply(self, payloads, lr, weight_decay):
        """A step by the sign of the mean over those that sent a slot."""
        slots = torch.cat([sent.long() for sent, _, _ in payloads], dim=1)
        values = torch.cat([torch.where(positive, scale.float(), -scale.float())
                            for _, positive, scale in payloads], dim=1)
        update = self.decoded(slots, values).sign_()
        self.parameter.mul_(1 - lr * weight_decay).sub_(update, alpha=lr)


class Step:
    """All tensors of a model; gradients at random, and the same in every step."""

    def __init__(self, shapes, chunk=64, k=32, decay=0.999, lr=1e-3, weight_decay=0.1):
        torch.manual_seed(1)
        self.decay, self.lr, self.weight_decay = decay, lr, weight_decay
        self.tensors = [Tensor(shape, chunk, k) for shape in shapes]

    def encode(self):
        return [tensor.encode(self.decay, self.lr) for tensor in self.tensors]

    def apply(self, payloads):
        for index, tensor in enumerate(self.tensors):
            tensor.apply([payload[index] for payload in payloads], self.lr, self.weight_decay)
