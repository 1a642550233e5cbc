"""What `Peer` is, for each process of a member that has several."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import torch

from ._peer import Initial, Listeners, Memory, Peer, Result, Rows, Tensor, Tokens, Worker
from ._program import Error
from ._torch_ranks import Ranks


@dataclass
class _Said:
    """What the first process has heard from the program: worker, initial, rows, end, failure or left."""

    kind: str
    fields: Tuple[Any, ...]
    events: List[Tuple[str, Tuple[Any, ...]]]


class RanksPeer:
    """What `Peer` is, for each of the processes of a member. They call its methods alike.

    Parameters
    ----------
    ranks : Ranks
        The processes.
    words, tensors, listeners
        As for `Peer`. The listeners are called by all processes, but for messages.
    """

    def __init__(self, ranks: Ranks, words: Sequence[str], tensors: Sequence[str], listeners: Listeners) -> None:
        self._ranks = ranks
        self._listeners = listeners
        self._events: list[tuple[str, tuple[Any, ...]]] = []
        self._peer: Optional[Peer] = None
        self._result: Optional[Result] = None
        self._failure: Optional[Error] = None
        self._flat: dict[int, tuple[Optional[torch.Tensor], Optional[torch.Tensor]]] = {}  # weights and gradients of workers
        self._own_steps = False
        self._share = (0, 0)  # rows of this process in the present step, and of the member
        self._known: Optional[int] = None  # a sum of the weights that were handed over
        try:
            ranks.check(tensors)
            if ranks.rank == 0:
                recorded = Listeners(lambda report: self._events.append(("on_step", (report,))),
                                     lambda step, folder: self._events.append(("on_checkpoint", (step, folder))),
                                     listeners.on_message)
                self._peer = Peer(words, tensors, recorded, takes_tokens=True, sets_gradients=True)
        except BaseException as error:
            ranks.close(error)
            raise

    def next(self) -> "Rows | Worker | Initial | None":
        """As `Peer.next`; the rows are those of this process."""
        wanted, said = self._ask()
        said = self._ranks.tell(said)
        self._replay(said)
        if said.kind == "failure":
            self._failure = Error(*said.fields)
            self._ranks.close()
            raise self._failure
        if said.kind == "end":
            for weights, _ in self._flat.values():
                if weights is not None and not self._ranks.sharded:
                    self._ranks.spread(weights)
            (self._result,) = said.fields
            return None
        if said.kind == "initial":
            return wanted if isinstance(wanted, Initial) else Initial(Memory(said.fields[0], None))
        if said.kind == "worker":
            return self._begin(wanted if isinstance(wanted, Worker) else self._worker(*said.fields))
        return self._part(*said.fields)

    def average(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Average the gradients that this process's own optimizer will take."""
        self._ranks.average(parameters, self._share[0] / self._share[1])

    def answer(self, worker: int, loss: Optional[float], learning_rate: Optional[float] = None,
               gradient_norm: Optional[float] = None) -> None:
        """As `Peer.answer`; the loss is the mean over the rows of this process."""
        rows, all_rows = self._share
        told = self._ranks.agree() if loss is None else self._ranks.agree(rows * loss, rows)
        weights, gradients = self._flat[worker]
        if gradients is not None and not self._own_steps and not self._ranks.averaged:
            self._ranks.gather_sum(gradients, rows / all_rows)
        if self._peer is None:
            return
        self._known = _sum_of(weights) if self._own_steps else None
        self._peer.answer(worker, told[0] / told[1] if told[1] else None, learning_rate, gradient_norm)

    def changes(self, worker: int) -> None:
        """As `Peer.changes`."""
        self._ranks.agree()
        if self._peer is not None:
            self._peer.changes(worker)

    def ready(self) -> None:
        """As `Peer.ready`."""
        if self._peer is not None:
            self._peer.ready()

    def leave(self, error: Optional[BaseException] = None) -> None:
        """As `Peer.leave`, all together; `error`: this process has failed, and leaves the others alone."""
        together = False
        if error is None and self._failure is None and self._result is None:
            together = self._ranks.all_leave()
        if not together and self._result is None:
            self._ranks.close(error or Error("it has left the run before the others"))
        if self._peer is not None:
            try:
                self._peer.leave()
            except BaseException as interrupt:
                self._ranks.close(interrupt)
                raise
        if together:
            said = self._ranks.tell(self._say("end", self._peer.result) if self._peer else None)
            self._replay(said)
            (self._result,) = said.fields
        elif self._peer is not None:
            self._replay(self._say("left"))

    def abandon(self) -> None:
        """As `Peer.abandon`."""
        if self._peer is not None:
            self._peer.abandon()
        self._ranks.close()

    @property
    def failure(self) -> Optional[Error]:
        """As `Peer.failure`."""
        return self._failure or (self._peer.failure if self._peer else None)

    @property
    def result(self) -> Optional[Result]:
        """As `Peer.result`; None where the processes have not ended together."""
        return self._result

    def _ask(self) -> "tuple[Rows | Worker | Initial | None, Optional[_Said]]":
        """What the program wants, and what the other processes are to hear of it."""
        if self._peer is None:
            return None, None
        try:
            wanted = self._peer.next()
        except Error as error:
            return None, self._say("failure", str(error))
        except BaseException as error:
            self._ranks.close(error)
            raise
        if isinstance(wanted, Worker):
            return wanted, self._say("worker", wanted.worker, wanted.weights.tensors, _size(wanted.weights),
                                     wanted.gradients.tensors, _size(wanted.gradients), wanted.recipe)
        if isinstance(wanted, Initial):
            return wanted, self._say("initial", wanted.weights.tensors)
        if isinstance(wanted, Rows):
            weights, _ = self._flat[wanted.worker]
            changed = self._known is None or _sum_of(weights) != self._known
            tokens = None if wanted.tokens is None else (wanted.tokens.rows, wanted.tokens.length, wanted.tokens.bytes[:])
            return wanted, self._say("rows", wanted._replace(tokens=None, changed=changed), tokens)
        return None, self._say("end", self._peer.result)

    def _say(self, kind: str, *fields: Any) -> _Said:
        return _Said(kind, fields, self._events[:])

    def _replay(self, said: _Said) -> None:
        self._events.clear()
        for name, arguments in said.events:
            hears = getattr(self._listeners, name)
            if hears is not None:
                hears(*arguments)

    def _worker(self, worker: int, tensors: list[Tensor], size: int, gradients: list[Tensor], gradients_size: int,
                recipe: Mapping[str, Mapping[str, Any]]) -> Worker:
        """A worker of the first process, here: with memory of this process's own, unless it has parts only."""
        def memory(size: int) -> Optional[mmap.mmap]:
            return None if self._ranks.sharded else mmap.mmap(-1, size)

        return Worker(worker, Memory(tensors, memory(size)), Memory(gradients, memory(gradients_size)), recipe)

    def _begin(self, worker: Worker) -> Worker:
        self._own_steps = worker.recipe["optim"]["method"] == "own"
        self._flat[worker.worker] = _flat(worker.weights), _flat(worker.gradients)
        self._known = None
        return worker

    def _part(self, asked: Rows, tokens: Optional[tuple[int, int, bytes]]) -> Rows:
        """What this process computes of the rows; its memory is as that of the first."""
        size, rank = self._ranks.size, self._ranks.rank
        rows = sum(count for _, count in asked.ranges)
        if rows < size:
            error = Error(f"step {asked.step + 1} has {rows} rows for this member, whose {size} processes need one each: raise "
                          "train.batch")
            self._ranks.close(error)
            raise error
        first, last = rows * rank // size, rows * (rank + 1) // size
        self._share = (last - first, rows)
        self._ranks.factor = size * (last - first) / rows
        weights, _ = self._flat[asked.worker]
        if asked.changed and weights is not None and not self._ranks.sharded:
            self._ranks.spread(weights)
        return asked._replace(ranges=_cut(asked.ranges, first, last),
                              tokens=None if tokens is None else _cut_tokens(tokens, first, last))


def _size(memory: Memory) -> int:
    return 0 if memory.bytes is None else len(memory.bytes)


def _flat(memory: Memory) -> Optional[torch.Tensor]:
    return None if memory.bytes is None else torch.frombuffer(memory.bytes, dtype=torch.float32)


def _sum_of(weights: Optional[torch.Tensor]) -> int:
    """A number that tells whether anything has changed."""
    return 0 if weights is None else int(weights.view(torch.int32).sum())


def _cut(ranges: Sequence[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """The rows from `first` to `last` of all that the ranges hold."""
    parts, before = [], 0
    for begin, count in ranges:
        low, high = max(first - before, 0), min(last - before, count)
        if low < high:
            parts.append((begin + low, high - low))
        before += count
    return parts


def _cut_tokens(tokens: tuple[int, int, bytes], first: int, last: int) -> Tokens:
    _, length, values = tokens
    memory = mmap.mmap(-1, 4 * (last - first) * length)
    memory[:] = values[4 * first * length:4 * last * length]
    return Tokens(last - first, length, memory)
