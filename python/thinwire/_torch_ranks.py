"""A member of several processes, as ``torchrun`` starts them: the first speaks with the program, and the others with it.

Each process computes a part of the member's rows. What it hears of the run, it hears from the first one, through a group of
its own of the backend gloo, so that nothing gets mixed up with what the user's module sends. A process that ends for whatever
reason closes that group, which ends the waiting of all others; why it ended is in the store that all processes of
`torch.distributed` have.
"""

from __future__ import annotations

import contextlib
import datetime
import pickle
from collections import Counter
from typing import Any, Callable, Optional, Sequence

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map

from ._program import Error
from ._torch_places import check_sharding
from ._torch_tensors import is_sharded, trained

c10d: Any = getattr(dist, "distributed_c10d", None)  # some builds of PyTorch have none
_begun: "Counter[str]" = Counter()  # how often each set of processes has begun a run
_PATIENCE = datetime.timedelta(days=30)  # a run may wait long for others; whoever ends closes the connection

LEAVING = datetime.timedelta(seconds=60)


class Ranks:
    """The processes of a member. All of them call each method, unless it says otherwise.

    Attributes
    ----------
    rank, size : int
        This process, and how many there are.
    sharded : bool
        Each process has a part of every tensor.
    averaged : bool
        The module averages its gradients over the processes.
    factor : float
        By what the gradient of this process counts in that average, where not all have as many rows.
    """

    def __init__(self, model: torch.nn.Module, group: Any, sharded: bool, averaged: bool) -> None:
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.sharded, self.averaged = sharded, averaged
        self._group = group
        self._over = False
        self.factor = 1.0
        self._weighing = model.register_forward_hook(self._weigh) if averaged else None
        # A group of its own in a place of its own, whatever groups the user makes and ends meanwhile.
        members = "-".join(map(str, dist.get_process_group_ranks(group)))
        _begun[members] += 1
        self._store: Any = c10d.PrefixStore(f"thinwire-{members}-{_begun[members]}", c10d._get_default_store())
        self._control: Any = c10d.ProcessGroupGloo(self._store, self.rank, self.size, _PATIENCE)

    def tell(self, value: Any = None) -> Any:
        """What the first process says; the others give nothing."""
        said = pickle.dumps(value) if self.rank == 0 else b""
        length, _ = self.agree(len(said))
        values = torch.frombuffer(bytearray(said), dtype=torch.uint8) if said else torch.empty(int(length), dtype=torch.uint8)
        self.spread(values)
        return value if self.rank == 0 else pickle.loads(values.numpy().tobytes())

    def sums(self, *values: float) -> list[float]:
        """The sums over all processes."""
        total = torch.tensor(values, dtype=torch.float64)
        self._together(lambda: self._control.allreduce([total], c10d.AllreduceOptions()).wait())
        return [float(value) for value in total]

    def agree(self, first: float = 0, second: float = 0) -> "tuple[float, float]":
        """The sums of two values over processes that all go on; as many values as `all_leave` has, which it may meet.

        Raises
        ------
        Error
            Other processes leave.
        """
        left, *told = self.sums(0, first, second)
        if left:
            error = Error("other processes of this member have left the run; they have to do so in the same step")
            self.close(error)
            raise error
        return told[0], told[1]

    def all_leave(self) -> bool:
        """Whether all processes leave now; False as well where the others do not say so soon, because they wait for this one."""
        total = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
        try:
            self._control.allreduce([total], c10d.AllreduceOptions()).wait(LEAVING)
        except RuntimeError:
            return False
        return int(total[0]) == self.size

    def check(self, lines: Sequence[str]) -> None:
        """Refuse modules that differ."""
        for own, other in zip([*lines, "nothing"], [*self.tell(lines), "nothing"]):
            if own != other:
                raise Error(f"the processes of a member must have the same module, but process 0 has {other} where process "
                            f"{self.rank} has {own}")

    def spread(self, values: torch.Tensor) -> None:
        """Give all processes the values of the first, in place."""
        self._together(lambda: self._control.broadcast([values], c10d.BroadcastOptions()).wait())

    def gather_sum(self, values: torch.Tensor, share: float) -> None:
        """Give the first process the sum over all of `share` times the values, in place."""
        values.mul_(share)
        self._together(lambda: self._control.reduce([values], c10d.ReduceOptions()).wait())

    def average(self, parameters: Sequence[torch.nn.Parameter], share: float) -> None:
        """Let the gradients of all be the sum of `share` times those of each, where the module does not see to that.

        Whoever has none counts as zero; where nobody has one, there is none afterwards.
        """
        if self.averaged:
            return
        having = [float(parameter.grad is not None) for parameter in parameters]
        missing, _ = self.agree(len(having) - sum(having))
        if missing:
            having = self.sums(*having)
        for parameter, count in zip(parameters, having):
            if not count:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradient = parameter.grad.mul_(share)
            self._together(lambda: dist.all_reduce(gradient, group=self._group))

    def close(self, why: Optional[BaseException] = None) -> None:
        """End the connection with the others, who will hear why. Called by each process for itself."""
        if self._over:
            return
        self._over = True
        if why is not None and self._store is not None:
            with contextlib.suppress(RuntimeError):  # the process that had the store has ended
                self._store.compare_set("failure", "", f"process {self.rank} of this member has failed: "
                                                       f"{type(why).__name__}: {why}")
        if self._weighing is not None:
            self._weighing.remove()
        self._control = None

    def blame(self) -> Optional[str]:
        """Why another process has ended, if it has said so. Called by each process for itself."""
        with contextlib.suppress(RuntimeError):
            if self._store is not None and self._store.check(["failure"]):
                said = str(self._store.get("failure").decode())
                return None if said.startswith(f"process {self.rank} ") else said
        return None

    @property
    def parted(self) -> bool:
        """Whether the connection has ended."""
        return self._over

    def _weigh(self, module: torch.nn.Module, given: Any, output: Any) -> Any:
        """After a call of the module: what comes back through its output is to count by the rows of this process."""
        if self.factor == 1 or not torch.is_grad_enabled():
            return None
        return tree_map(self._weighed, output)

    def _weighed(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return value
        return _Scaled.apply(value, self.factor)  # type: ignore[no-untyped-call]

    def _together(self, call: Callable[[], object]) -> None:
        if self._over:
            raise Error("the processes of this member have parted")
        try:
            call()
        except RuntimeError as error:
            said = self.blame() or f"another process of this member has ended without a word ({error})"
            self.close()
            raise Error(said) from error


def ranks_of(model: torch.nn.Module, group: Any) -> Optional[Ranks]:
    """The processes that train the module together: those of `group`, or those that its wrapper names; None: this alone."""
    parameters = trained(model)
    sharded = [name for name, parameter in parameters if is_sharded(parameter)]
    if sharded and len(sharded) < len(parameters):
        other = next(name for name, parameter in parameters if not is_sharded(parameter))
        raise Error(f"all parameters must be sharded or none, but {sharded[0]} is and {other} is not: call fully_shard(model)")
    wrapped = _data_parallel(model)
    if group is None and sharded:
        group = _group_of_mesh(dict(parameters)[sharded[0]])
    elif group is None and wrapped is not None:
        group = wrapped.process_group
    if group is None:
        return None
    for name in sharded:
        check_sharding(name, dict(parameters)[name])
    return Ranks(model, group, bool(sharded), bool(sharded) or wrapped is not None)


def _data_parallel(model: torch.nn.Module) -> Optional[torch.nn.parallel.DistributedDataParallel]:
    inner = getattr(model, "_orig_mod", model)
    return inner if isinstance(inner, torch.nn.parallel.DistributedDataParallel) else None


def _group_of_mesh(parameter: Any) -> Any:
    mesh = parameter.device_mesh
    if mesh.ndim == 1:
        return mesh.get_group()
    if mesh.size() == dist.get_world_size():
        return dist.group.WORLD
    raise Error(f"the mesh of the module's parameters has {mesh.ndim} dimensions, and not all processes: name the group of this "
                "member's processes, group=…")


class _Scaled(torch.autograd.Function):
    """The values as they are, with gradients times a factor."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor, factor: float) -> torch.Tensor:
        context.factor = factor
        return values.clone()

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0] * context.factor, None
