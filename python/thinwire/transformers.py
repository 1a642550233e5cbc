"""Hugging Face's ``Trainer``, and what builds on it, with an optimizer of `thinwire.torch`.

>>> optimizer = thinwire.torch.DiLoCo(model, inner=torch.optim.AdamW(model.parameters()), run=run)
>>> trainer = Trainer(model, args, train_dataset=data, optimizers=(optimizer, None),
...                   callbacks=[thinwire.transformers.Callback(optimizer)])
"""

from __future__ import annotations

import importlib
from typing import Any, Union

import torch

from ._torch_optimizer import Optimizer

__all__ = ["Callback", "Schedule"]

_TrainerCallback: Any = importlib.import_module("transformers").TrainerCallback  # mypy would read all of it


class Callback(_TrainerCallback):  # type: ignore[misc]
    """Ends the training when the run has ended, and leaves the run when the training has.

    Parameters
    ----------
    optimizer : Optimizer
        The one that the trainer has.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop after the run's last step."""
        if self._optimizer.finished:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the run; the model has memory of its own again."""
        self._optimizer.close()


class Schedule(torch.optim.lr_scheduler.LRScheduler):
    """A scheduler that leaves learning rates alone, for runs whose recipe has the schedule.

    ``Trainer`` makes one that sets other rates unless it is given this: ``optimizers=(optimizer,
    Schedule(optimizer))``.
    """

    def get_lr(self) -> list[Union[float, torch.Tensor]]:
        """The rates that the groups have, which are the run's."""
        return [group["lr"] for group in self.optimizer.param_groups]
