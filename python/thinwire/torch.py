"""PyTorch modules in runs of Thinwire: your training loop stays, and the optimizer or the loop becomes a run.

>>> optimizer = thinwire.torch.DisTrO(model, run=thinwire.torch.join(model, "one.example.org:4333", token))
>>> for x, y in batches:
...     loss = criterion(model(x), y)
...     loss.backward()
...     optimizer.step()
...     optimizer.zero_grad()

The program ``thinwire`` owns weights, gradients and what the method keeps. Parameters of float32 on
the CPU become views of its memory, so that nothing is copied; others are copied in every step.
docs/python.md explains it.
"""

from ._torch_methods import AllReduce, DiLoCo, DisTrO, LocalSGD, SparseLoCo, Streaming
from ._torch_optimizer import Optimizer
from ._torch_run import Run, Step, join, local, mpi
from ._torch_tensors import recipe, tensors

__all__ = ["AllReduce", "DiLoCo", "DisTrO", "LocalSGD", "Optimizer", "Run", "SparseLoCo", "Step", "Streaming", "join",
           "local", "mpi", "recipe", "tensors"]
