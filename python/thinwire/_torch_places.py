"""Where a module's parameters are, and how they get into the memory that a run shares and out of it.

A parameter may be a part of a tensor on each of several processes (a DTensor of ``fully_shard``): then all of them take part
in every call, and the first has the run's memory.
"""

from __future__ import annotations

from typing import Any, Optional, cast

import torch

from ._peer import Worker
from ._program import Error
from ._torch_tensors import is_sharded, trained, views, whole


class Replica:
    """The memory of one worker, and how the module's parameters lie in it."""

    def __init__(self, model: torch.nn.Module, worker: Worker, own_steps: bool) -> None:
        own: list[Optional[torch.Tensor]] = [None] * len(trained(model))
        gradients = own if own_steps else views(model, worker.gradients)
        self._places = [_ShardedPlace(parameter, weight, gradient, own_steps) if is_sharded(parameter)
                        else _Place(parameter, weight, gradient) for (_, parameter), weight, gradient
                        in zip(trained(model), views(model, worker.weights), gradients)]

    def bind(self, changed: bool = True) -> None:
        """The parameters have the newest weights and no gradients; `changed`: others than they handed over."""
        for place in self._places:
            place.bind(changed)

    def unbind(self) -> None:
        """The parameters' gradients are no longer for this memory."""
        for place in self._places:
            place.unbind()

    def hand_over(self) -> None:
        """The memory has the gradients."""
        for place in self._places:
            place.hand_over()

    def hand_over_weights(self) -> None:
        """The memory has the weights."""
        for place in self._places:
            place.hand_over_weights()

    def release(self) -> None:
        """The parameters have memory of their own."""
        for place in self._places:
            place.release()


class _Place:
    """A parameter and its place in the memory that the program shares.

    Without a place for its gradient, that is the parameter's own business. Otherwise a gradient that `backward()` has just
    made is moved there while it is still in the processor's caches, and its own memory serves the next one.
    """

    def __init__(self, parameter: torch.nn.Parameter, weight: Optional[torch.Tensor],
                 gradient: Optional[torch.Tensor]) -> None:
        assert weight is not None
        self._parameter = parameter
        self._weight = weight
        self._shares = parameter.dtype == torch.float32 and parameter.device.type == "cpu"
        self._gradient = gradient
        self._hook: Any = None

    def bind(self, changed: bool) -> None:
        """The parameter has the newest weights, and no gradient, if the run takes it."""
        if not self._shares:
            if changed:
                self._parameter.data.copy_(self._weight)
        elif self._parameter.data.data_ptr() != self._weight.data_ptr():
            self._parameter.data = self._weight
        if self._gradient is not None:
            self._parameter.grad = None
            if self._shares and self._hook is None:
                self._hook = cast("Any", self._parameter).register_post_accumulate_grad_hook(self._move)

    def unbind(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    @torch.no_grad()
    def _move(self, parameter: torch.Tensor) -> None:
        assert self._gradient is not None
        grad = parameter.grad
        if grad is not None and grad.layout == torch.strided and grad.data_ptr() != self._gradient.data_ptr():
            self._gradient.copy_(grad)
            parameter.grad = self._gradient

    @torch.no_grad()
    def hand_over(self) -> None:
        assert self._gradient is not None
        grad = self._parameter.grad
        if grad is None:  # thrown away by zero_grad(), or of no use for the loss
            self._gradient.zero_()
            return
        if grad.layout != torch.strided:
            grad = grad.to_dense()
        if grad.data_ptr() != self._gradient.data_ptr():
            self._gradient.copy_(grad)

    @torch.no_grad()
    def hand_over_weights(self) -> None:
        if self._parameter.data.data_ptr() != self._weight.data_ptr():
            self._weight.copy_(self._parameter)

    def release(self) -> None:
        self.unbind()
        self._parameter.grad = None
        if self._shares:
            self._parameter.data = self._parameter.data.clone()


class _ShardedPlace:
    """A parameter of which each process has a part. `weight` and `gradient` are None where the memory is elsewhere.

    One whole tensor at a time is put together, so that no process needs room for the model.
    """

    def __init__(self, parameter: torch.nn.Parameter, weight: Optional[torch.Tensor],
                 gradient: Optional[torch.Tensor], own_steps: bool) -> None:
        self._parameter = parameter
        self._weight = weight
        self._gradient = gradient
        self._takes_gradient = not own_steps

    def bind(self, changed: bool) -> None:
        if changed:
            set_from_first(self._parameter, self._weight)
        if self._takes_gradient:
            self._parameter.grad = None

    @torch.no_grad()
    def hand_over(self) -> None:
        grad = self._parameter.grad
        if grad is None:
            if self._gradient is not None:
                self._gradient.zero_()
            return
        full = whole(grad)
        if self._gradient is not None:
            self._gradient.copy_(full)

    @torch.no_grad()
    def hand_over_weights(self) -> None:
        full = whole(self._parameter)
        if self._weight is not None:
            self._weight.copy_(full)

    def unbind(self) -> None:
        pass  # there is nothing that would take them

    def release(self) -> None:
        self._parameter.grad = None


def check_sharding(name: str, parameter: torch.Tensor) -> None:
    """Refuse parts that are not those of ``fully_shard``."""
    placements = cast("Any", parameter).placements
    if sum(not one.is_replicate() for one in placements) > 1 or any(one.is_partial() for one in placements):
        raise Error(f"parameter {name} must be sharded by fully_shard alone, got {placements}")


def part_from_first(like: torch.Tensor, values: Optional[torch.Tensor]) -> torch.Tensor:
    """The parts, laid out as those of `like`, of a whole tensor that the first process has. All processes call it."""
    from torch.distributed.tensor import distribute_tensor

    shared = cast("Any", like)
    if values is None:
        values = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    else:
        values = values.view(like.shape).to(like.device, like.dtype)
    return distribute_tensor(values, shared.device_mesh, shared.placements)


@torch.no_grad()
def set_from_first(parameter: torch.Tensor, values: Optional[torch.Tensor]) -> None:
    """Give each process its part of the values that the first one has."""
    part = cast("Any", part_from_first(parameter, values))
    cast("Any", parameter).to_local().copy_(part.to_local())
