"""Where a module's parameters are, and how they get into the memory that a run shares and out of it.

A parameter may be a part of a tensor on each of several processes (a DTensor of ``fully_shard``): then all of them take part
in every call, and the first has the run's memory.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from typing import Any, Iterable, Optional, cast

import torch

from ._peer import Worker
from ._program import Error
from ._torch_tensors import is_sharded, trained, views, whole


class Replica:
    """The memory of one worker, and how the module's parameters lie in it."""

    def __init__(self, model: torch.nn.Module, worker: Worker, own_steps: bool) -> None:
        own: list[Optional[torch.Tensor]] = [None] * len(trained(model))
        gradients = own if own_steps else views(model, worker.gradients)
        self._copies = GpuCopies([parameter.device for _, parameter in trained(model)],
                                 [memory.bytes for memory in (worker.weights, worker.gradients)])
        self._places = [_ShardedPlace(parameter, weight, gradient) if is_sharded(parameter)
                        else _Place(parameter, weight, gradient) for (_, parameter), weight, gradient
                        in zip(trained(model), views(model, worker.weights), gradients)]

    def bind(self, changed: bool = True) -> None:
        """The parameters have the newest weights; `changed`: others than they handed over."""
        for place in self._places:
            place.bind(changed)

    def hand_over(self) -> None:
        """The memory has the gradients."""
        for place in self._places:
            place.hand_over()
        self._copies.wait()

    def hand_over_weights(self) -> None:
        """The memory has the weights."""
        for place in self._places:
            place.hand_over_weights()
        self._copies.wait()

    def release(self) -> None:
        """The parameters have memory of their own."""
        for place in self._places:
            place.release()


class GpuCopies:
    """The memory that the program shares, as GPUs copy to and from it: page-locked, so that they need neither the processor nor
    Python to wait for them. What is copied is complete after `wait`.
    """

    def __init__(self, devices: Iterable[torch.device], memories: Iterable[Optional[mmap.mmap]]) -> None:
        self._gpus = sorted({device for device in devices if device.type == "cuda"}, key=str)
        if not self._gpus:
            return
        runtime = cast("Any", torch.cuda).cudart()
        for memory in memories:
            if memory is not None:
                self._lock(runtime, torch.frombuffer(memory, dtype=torch.uint8))

    def _lock(self, runtime: Any, memory: torch.Tensor) -> None:
        if int(runtime.cudaHostRegister(memory.data_ptr(), memory.numel(), _PORTABLE)) == 0:
            weakref.finalize(self, _unlock, runtime, memory)
        else:  # copies are slower, and nothing else changes, once the refusal has been reported and thereby forgotten
            with contextlib.suppress(RuntimeError):
                torch.zeros(1, device=self._gpus[0])

    def wait(self) -> None:
        for gpu in self._gpus:
            torch.cuda.current_stream(gpu).synchronize()


_PORTABLE = 1  # cudaHostRegisterPortable: for all GPUs


def _unlock(runtime: Any, memory: torch.Tensor) -> None:
    runtime.cudaHostUnregister(memory.data_ptr())


class _Place:
    """A parameter and its place in the memory that the program shares.

    Gradients have memory of their own, which is PyTorch's and the user's, who may keep one or differentiate it; what they are
    at a step is copied.
    """

    def __init__(self, parameter: torch.nn.Parameter, weight: Optional[torch.Tensor],
                 gradient: Optional[torch.Tensor]) -> None:
        assert weight is not None
        self._parameter = parameter
        self._weight = weight
        self._shares = parameter.dtype == torch.float32 and parameter.device.type == "cpu"
        self._on_gpu = parameter.device.type == "cuda"  # whose copies GpuCopies.wait() waits for
        self._gradient = gradient

    def bind(self, changed: bool) -> None:
        """The parameter has the newest weights."""
        if not self._shares:
            if changed:
                self._parameter.data.copy_(self._weight, non_blocking=self._on_gpu)
        elif self._parameter.data.data_ptr() != self._weight.data_ptr():
            self._parameter.data = self._weight

    @torch.no_grad()
    def hand_over(self) -> None:
        assert self._gradient is not None
        grad = self._parameter.grad
        if grad is None:  # thrown away by zero_grad(), or of no use for the loss
            self._gradient.zero_()
            return
        self._gradient.copy_(grad if grad.layout == torch.strided else grad.to_dense(), non_blocking=self._on_gpu)

    @torch.no_grad()
    def hand_over_weights(self) -> None:
        if self._parameter.data.data_ptr() != self._weight.data_ptr():
            self._weight.copy_(self._parameter, non_blocking=self._on_gpu)

    def release(self) -> None:
        if self._shares:
            self._parameter.data = self._parameter.data.clone()


class _ShardedPlace:
    """A parameter of which each process has a part. `weight` and `gradient` are None where the memory is elsewhere.

    One whole tensor at a time is put together, so that no process needs room for the model.
    """

    def __init__(self, parameter: torch.nn.Parameter, weight: Optional[torch.Tensor],
                 gradient: Optional[torch.Tensor]) -> None:
        self._parameter = parameter
        self._weight = weight
        self._gradient = gradient

    def bind(self, changed: bool) -> None:
        if changed:
            set_from_first(self._parameter, self._weight)

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

    def release(self) -> None:
        pass  # it has never had other memory


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
