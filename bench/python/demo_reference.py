"""DeMo in plain PyTorch, for comparison: Peng, Quesnelle, Kingma, "DeMo: Decoupled Momentum Optimization", arXiv 2411.19870,
with the choices of the published optimizer that the paper leaves open.

Those are: k coefficients of every tile however small it is, exact values of 4 bytes and indices of 8, the mean over the workers
that sent a slot, weight decay 0, no clipping, and zeros are sent like all other values: in a tile whose momentum is zero on one
worker, they count in the mean. Thinwire sends no zeros; there alone its updates are others with `SETTINGS`.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import pytorch_distro  # noqa: E402

CHUNK, K, DECAY = 64, 32, 0.999
BYTES = 8 + 4  # of an index and a value

# The fields of a recipe under which Thinwire's DisTrO is defined to be DeMo.
SETTINGS = {"sync.method": "distro", "distro.chunk": CHUNK, "distro.k": K, "distro.decay": DECAY, "distro.fixed_k": True,
            "distro.values": "fp32", "distro.feedback": False, "distro.aggregate": "mean_of_senders", "distro.update": "sign",
            "optim.weight_decay": 0, "optim.clip": 0}


class Worker:
    """One worker's momenta of all tensors."""

    def __init__(self, shapes):
        self._tensors = [pytorch_distro.Tensor(shape, CHUNK, K, fixed_k=True) for shape in shapes]

    def encode(self, gradients, lr):
        """What the worker sends of each tensor: slots and values, [tiles, k] each."""
        payload = []
        for tensor, gradient in zip(self._tensors, gradients):
            tensor.gradient = gradient.view(tensor.rows, tensor.columns)
            payload.append(tensor.take_largest(DECAY, lr))
        return payload

    def apply(self, payloads, lr):
        """Take the step by what all workers have sent; the update of each tensor, before its sign was taken."""
        decoded = []
        for tensor, sent in zip(self._tensors, zip(*payloads)):
            slots, values = (pytorch_distro.torch.cat(parts, dim=1) for parts in zip(*sent))
            decoded.append(tensor.decoded(slots, values))
            tensor.parameter.sub_(decoded[-1].sign(), alpha=lr)
        return decoded

    @property
    def bytes(self):
        """How many bytes one payload has."""
        return BYTES * sum(tensor.kept * (tensor.rows * tensor.columns // tensor.slots) for tensor in self._tensors)
