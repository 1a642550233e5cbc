"""Runs that train a PyTorch module, alone or with others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import torch

from ._model import join_words
from ._peer import Initial, Listeners, Peer, Result, Rows, StepReport, Worker, print_message
from ._program import Error, Fields, Recipe, field_words, option_words, recipe_file
from ._runs import checkpoint_step, load, newest_checkpoint
from ._torch_places import Replica, set_from_first
from ._torch_ranks import Ranks, ranks_of
from ._torch_ranks_peer import RanksPeer
from ._torch_tensors import is_sharded, set_initial, tensors, trained

_Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Step:
    """This member's part of a training step.

    Attributes
    ----------
    number : int
        The step, counted from 0.
    rows : Tensor of int64
        The rows: numbers that never come again. ``x[step.rows % len(x)]`` reads samples in turn.
    learning_rate : float
        The learning rate of the step.
    worker : int
        The worker; above 0 only in a local run with several.
    tokens : Tensor of int64, or None
        Of a run of a language model that Thinwire computes as well: what the rows hold, [rows, sequence + 1].
        The inputs are ``tokens[:, :-1]``, the targets ``tokens[:, 1:]``.
    """

    number: int
    rows: torch.Tensor
    learning_rate: float
    worker: int
    tokens: Optional[torch.Tensor] = None


def local(model: torch.nn.Module, recipe: Recipe, fields: Fields = None, *, restart: bool = False,
          quiet: bool = False, on_step: Optional[Callable[[StepReport], None]] = None, group: Any = None) -> "Run":
    """Return a run on this machine alone, which begins with the module's present weights.

    A run that was stopped goes on from its folder instead, with the weights that it had then.

    Parameters
    ----------
    model : Module
        The module to train.
    recipe : path or mapping
        What `recipe` returned or wrote.
    fields : mapping, optional
        Fields of it to change. With ``train.workers`` above 1 the module computes for one worker
        after the other, which shows what a method does without other machines.
    restart : bool
        Start over even if the run's folder holds a run.
    quiet : bool
        Show no messages.
    on_step : callable, optional
        Called with a `StepReport` after each step.
    group : ProcessGroup, optional
        The processes of `torch.distributed` that train the module together, each of which calls this: a module of
        DistributedDataParallel or ``fully_shard`` says so itself. The first of them has the run's folder.
    """
    return Run(model, ["train"], recipe, [*field_words(fields), *option_words({"restart": restart})], quiet, on_step,
               group)


def join(model: torch.nn.Module, address: str, token: str, folder: Optional[_Path] = None, fields: Fields = None, *,
         quiet: bool = False, on_step: Optional[Callable[[StepReport], None]] = None, group: Any = None,
         **options: Any) -> "Run":
    """Return a run that takes part in a served one, or returns to it.

    The weights are the run's: those with which the module comes are replaced.

    Parameters
    ----------
    model : Module
        A module with the tensors of the run; another one is refused.
    address, token, folder, fields, **options
        As for `thinwire.join`.
    quiet, on_step, group
        As for `local`.
    """
    return Run(model, join_words(address, token, folder, fields, options), None, [], quiet, on_step, group)


def mpi(model: torch.nn.Module, recipe: Recipe, fields: Fields = None, *, restart: bool = False, quiet: bool = False,
        on_step: Optional[Callable[[StepReport], None]] = None) -> "Run":
    """Return a run whose workers are the ranks of an MPI job: each runs this program, as ``mpirun -n 4 python loop.py`` does.

    The weights are the run's, as for `join`: what `recipe` wrote with ``weights=``, or drawn from ``run.seed``. Recipe,
    weights and the run's folder must be under the same path for all ranks. The first rank writes the folder and is told of
    steps: elsewhere ``run.report`` stays None, and ``run.result`` has no loss and no digest.

    Parameters
    ----------
    model : Module
        The module to train, on one process.
    recipe, fields, restart, quiet, on_step
        As for `local`. With fewer ranks than ``train.workers``, a rank's module computes for several of them in turn.

    Raises
    ------
    Error
        A program without MPI, more ranks than workers, or a rank that failed or ended: then all of them end.
    """
    given = {**(fields or {}), "train.launcher": "mpi"}
    run = Run(model, ["train"], recipe, [*field_words(given), *option_words({"restart": restart})], quiet, on_step)
    run._alone_in_rank = True
    return run


class Run:
    """A module that is being trained: a context manager that yields the steps.

    Leaving the block ends the run in a way that the next one goes on from: by an exception, by
    ``break`` or by Ctrl-C, too. Afterwards the module owns its weights again; they are those of the
    run.

    Attributes
    ----------
    report : StepReport or None
        What the log has of the newest completed step.
    result : Result or None
        How it ended, once it has.
    recipe : mapping
        Every field of the run by table, ``run.recipe["sync"]["method"]``; empty before the first step.
    """

    def __init__(self, model: torch.nn.Module, command: Sequence[str], given: Optional[Recipe],
                 more: Sequence[str], quiet: bool, on_step: Optional[Callable[[StepReport], None]],
                 group: Any = None) -> None:
        self.report: Optional[StepReport] = None
        self.result: Optional[Result] = None
        self.recipe: Mapping[str, Mapping[str, Any]] = {}
        self._model = model
        self._command = (command, given, more)
        self._on_step = on_step
        self._listeners = Listeners(self._heard, self._wrote, None if quiet else print_message)
        self._trained: list[tuple[str, torch.nn.Parameter]] = []  # once it has begun
        self._roles: dict[str, str] = {}  # of them, by name
        # For the optimizers of this package: called with the folder; keep what the module has at the end.
        self._on_checkpoint: Optional[Callable[[str], None]] = None
        self._keeps_weights = False
        self._peer: Union[Peer, RanksPeer, None] = None
        self._group = group
        self._alone_in_rank = False  # this process is a rank of an MPI job
        self._ranks: Optional[Ranks] = None  # the processes of this member, if there are several
        self._replicas: dict[int, Replica] = {}
        self._bound: Optional[Replica] = None
        self._asked: Optional[Rows] = None  # what is to be yielded, or was and is not answered
        self._yielded = False
        self._began_in = ""

    def __enter__(self) -> "Run":
        command, given, more = self._command
        self.report = self.result = None
        self._began_in = os.getcwd()
        expected = tensors(self._model)
        if not expected:
            raise Error("the module must have parameters that require gradients, got none")
        self._ranks = ranks_of(self._model, self._group)
        if self._alone_in_rank and self._ranks is not None:
            self._ranks = None
            raise Error("a module of several processes of torch.distributed cannot be a rank of an MPI job, got "
                        f"{type(self._model).__name__}; give the module itself, and let thinwire.torch.mpi join the ranks")
        if given is None:
            self._peer = self._begin([*command, *more], expected)
            return self
        with recipe_file(given) as file:
            self._peer = self._begin([*command, file, *more], expected)
            try:
                self._wait()  # the recipe has been read then
            except BaseException as error:
                self._leave(error)
                raise
        return self

    def _begin(self, words: Sequence[str], expected: Sequence[str]) -> Union[Peer, RanksPeer]:
        if self._ranks is not None:
            return RanksPeer(self._ranks, words, expected, self._listeners)
        return Peer(words, expected, self._listeners, takes_tokens=True, sets_gradients=True)

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        failure = self._leave(error)
        if kind is None and failure is not None:
            raise failure
        blamed = self._ranks.blame() if self._ranks is not None and isinstance(error, RuntimeError) else None
        if blamed is not None and not isinstance(error, Error):  # of torch.distributed, as another process has ended
            raise Error(blamed) from error

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        if self._yielded:
            assert self._asked is not None
            raise RuntimeError(f"run.step(loss) must be called in every step, but was not in step {self._asked.step}")
        if self._asked is None and self.result is None:
            self._wait()
        self._forget_gradients()
        if self._asked is None:
            raise StopIteration
        self._yielded = True
        asked = self._asked
        return Step(asked.step, self._rows(), asked.learning_rate, asked.worker, self._tokens())

    def _forget_gradients(self) -> None:
        """No gradient of a step is added to the next one's; those for an optimizer of the user's are the user's."""
        if not self.takes_own_steps:
            for _, parameter in self._trained:
                parameter.grad = None

    def _rows(self) -> torch.Tensor:
        ranges = [] if self._asked is None else self._asked.ranges
        return torch.cat([torch.arange(first, first + count) for first, count in ranges])

    def _tokens(self) -> Optional[torch.Tensor]:
        tokens = None if self._asked is None else self._asked.tokens
        if tokens is None:
            return None
        return torch.frombuffer(tokens.bytes, dtype=torch.int32).view(tokens.rows, tokens.length).long()

    def step(self, loss: Union[float, torch.Tensor]) -> None:
        """Hand over the gradients in ``parameter.grad``; afterwards the weights are new.

        Parameters
        ----------
        loss : float or Tensor
            The mean loss over the rows of the step, for the log. The gradients must be those of
            this mean, however many calls of ``backward()`` have added them up.
        """
        if not self._yielded:
            raise RuntimeError("run.step(loss) belongs once into each pass of `for step in run:`")
        if self.takes_own_steps:
            raise RuntimeError("the run's optim.method is \"own\": its steps are those of an optimizer of this "
                               "program, as in thinwire.torch.DiLoCo(model, inner=…, run=run)")
        self._answer(loss)

    @property
    def takes_own_steps(self) -> bool:
        """Whether this program takes the steps itself, as the recipe's ``optim.method = "own"`` says."""
        return bool(self.recipe) and self.recipe["optim"]["method"] == "own"

    def _answer(self, loss: Union[float, torch.Tensor, None], rate: Optional[float] = None) -> None:
        """Hand over gradients and, if it is known, the loss; `rate`: if it is not the recipe's."""
        assert self._asked is not None and self._bound is not None and self._peer is not None
        self._bound.hand_over()
        self._peer.answer(self._asked.worker, _value(loss), rate)
        self._yielded, self._asked = False, None
        self._wait()

    def _answer_own(self, loss: Union[float, torch.Tensor, None], rate: float, norm: float,
                    step: Callable[[], None]) -> None:
        """Change the weights by `step`, and hand them over."""
        assert self._asked is not None and self._bound is not None and self._peer is not None
        value = _value(loss)
        self._peer.changes(self._asked.worker)
        step()
        self._bound.hand_over_weights()
        self._peer.answer(self._asked.worker, value, rate, norm)
        self._yielded, self._asked = False, None
        self._wait()

    def _average(self) -> None:
        """Average gradients over the processes of this member, where they are not yet."""
        if isinstance(self._peer, RanksPeer):
            self._peer.average([parameter for _, parameter in self._trained])

    def _wait(self) -> None:
        """Wait until rows are asked for or the run has ended."""
        if self._peer is None:
            raise RuntimeError("a run is to be used as `with run:`")
        while True:
            wanted = self._peer.next()
            if isinstance(wanted, Worker):
                self.recipe = wanted.recipe
                self._trained = trained(self._model)
                self._roles = {one.name: one.role for one in wanted.weights.tensors}
                self._replicas[wanted.worker] = Replica(self._model, wanted, self.takes_own_steps)
            elif isinstance(wanted, Initial):
                set_initial(self._model, wanted.weights)
                self._peer.ready()
            elif isinstance(wanted, Rows):
                self._bound = self._replicas[wanted.worker]
                self._bound.bind(wanted.changed)
                self._asked = wanted
                return
            else:
                self._end()
                return

    def _heard(self, report: StepReport) -> None:
        self.report = report
        if self._on_step is not None:
            self._on_step(report)

    def _tell(self, message: str) -> None:
        if self._listeners.on_message is not None:
            self._listeners.on_message(message)

    def _wrote(self, step: int, folder: str) -> None:
        if self._on_checkpoint is not None:
            self._on_checkpoint(os.path.join(self._began_in, folder))

    def _abandon(self) -> None:
        """End it at once, with the weights that the module has."""
        if self._peer is not None:
            self._forget_gradients()
            self._peer.abandon()
            self._end()

    def _leave(self, error: Optional[BaseException] = None) -> Optional[Error]:
        """End the run, if it has not ended, and return what failed at that; `error`: because of which it is left."""
        if self._peer is None:
            return None
        self._forget_gradients()
        peer = self._peer
        try:
            if isinstance(peer, RanksPeer):
                peer.leave(error)
            else:
                peer.leave()
        finally:
            self._end()
        return peer.failure

    def _end(self) -> None:
        """Give the module back its own memory, with the weights of the run."""
        if self._peer is None:
            return
        peer, self._peer = self._peer, None
        self.result = peer.result
        if self._bound is not None:
            if self.result is not None:
                self._bound.bind()
            self._bound.release()
        self._replicas, self._bound, self._asked, self._yielded = {}, None, None, False
        failure: Optional[BaseException] = None
        try:
            if self.result is not None and not self._keeps_weights:
                self._take_weights(self.result)
        except BaseException as error:
            failure = error
            raise
        finally:
            if self._ranks is not None:
                self._ranks.close(failure)

    def _take_weights(self, result: Result) -> None:
        """Workers that train weights of their own have others in memory than the run has agreed on."""
        weights = self._agreed_weights(result) if self._ranks is None or self._ranks.rank == 0 else None
        if not (weights is not None if self._ranks is None else self._ranks.tell(weights is not None)):
            return
        for name, parameter in trained(self._model):
            values = None if weights is None else torch.from_numpy(weights[name]).view(parameter.shape)
            if is_sharded(parameter):
                set_from_first(parameter, values)
                continue
            if values is None:
                values = torch.empty(parameter.shape)
            if self._ranks is not None:
                self._ranks.spread(values)
            with torch.no_grad():
                parameter.copy_(values)

    def _agreed_weights(self, result: Result) -> Optional[Mapping[str, Any]]:
        newest = newest_checkpoint(os.path.join(self._began_in, result.folder))
        return None if newest is None or checkpoint_step(newest) != result.steps else load(newest)


def _value(loss: Union[float, torch.Tensor, None]) -> Optional[float]:
    return float(loss.detach()) if isinstance(loss, torch.Tensor) else None if loss is None else float(loss)
