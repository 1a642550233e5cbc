"""Train models together over ordinary internet links; docs/python.md explains the package.

The work is done by the program ``thinwire``, which comes with the wheel: this package calls it, and
where a model of one's own is trained, computes losses and gradients for it. `thinwire.torch` does
so for PyTorch modules.
"""

from ._commands import evaluate, generate, plan, prepare
from ._model import Model, Step, join, train
from ._peer import Result, StepReport
from ._program import Error, program
from ._runs import load, read_events, save
from ._serve import Server, serve
from ._sweeps import sweep

__all__ = ["Error", "Model", "Result", "Server", "Step", "StepReport", "evaluate", "generate", "join", "load", "plan",
           "prepare", "program", "read_events", "save", "serve", "sweep", "train"]
