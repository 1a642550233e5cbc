"""PyTorch modules in runs of Thinwire: your training loop stays, and the optimizer becomes a run.

>>> run = thinwire.torch.join(model, "one.example.org:4333", token, folder="runs/me")
>>> with run:
...     for step in run:
...         loss = criterion(model(x[step.rows % n]), y[step.rows % n])
...         loss.backward()
...         run.step(loss)

The program ``thinwire`` owns weights, gradients and the optimizer's state. Parameters of float32 on
the CPU become views of its memory, so that nothing is copied; others are copied in every step.
docs/python.md explains it.
"""

from __future__ import annotations

import fnmatch
import math
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import torch

from ._model import join_words
from ._peer import Initial, Listeners, Memory, Peer, Result, Rows, StepReport, Worker, print_message
from ._program import Error, Fields, Recipe, field_words, option_words, recipe_file, recipe_text
from ._runs import checkpoint_step, load, newest_checkpoint, save

__all__ = ["Run", "Step", "join", "local", "recipe", "tensors"]

_Path = Union[str, "os.PathLike[str]"]
_HEADS = ("lm_head", "head", "classifier", "score", "unembed", "output_projection")


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
    """

    number: int
    rows: torch.Tensor
    learning_rate: float
    worker: int


def tensors(model: torch.nn.Module, roles: Optional[Mapping[str, str]] = None) -> list[str]:
    """Return the lines of ``external.tensors`` for the parameters of a module that require gradients.

    Parameters
    ----------
    model : Module
        Tied parameters are listed once, frozen ones not at all, and no buffers.
    roles : mapping, optional
        Patterns of names, as in ``{"*.gate.weight": "head"}``, and their role: matrix, bias, norm,
        embedding or head. The first that fits counts. Otherwise weights of two sides and more are
        matrices, those of an `Embedding` embeddings, of layers whose class is named a norm norms,
        of a linear layer named ``lm_head``, ``head`` or alike heads, and all else biases.

    Notes
    -----
    Optimizers treat the roles differently: weight decay leaves out norms and biases, and Muon and
    low-rank optimizers are for matrices alone. A tensor of more than two sides, such as the kernel
    of a convolution, is a matrix with one row for each output.
    """
    lines = []
    model = _original(model)
    for module_name, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix=module_name, recurse=False):
            lines.append((name, parameter, module))
    by_name = {name: module for name, _, module in lines}
    result = []
    for name, parameter in _trained(model):
        if not parameter.is_floating_point():
            raise Error(f"parameter {name} must have real numbers, got {parameter.dtype}; "
                        "torch.view_as_real of it would do")
        role = _given_role(name, roles or {}) or _role(name, parameter, by_name[name])
        result.append(f"{name} {'x'.join(map(str, _sides(parameter)))} {role}")
    return result


def recipe(model: torch.nn.Module, fields: Fields = None, *, path: Optional[_Path] = None,
           weights: Optional[_Path] = None, roles: Optional[Mapping[str, str]] = None) -> dict[str, Any]:
    """Return the recipe of runs that train a module, and write it to a file if `path` is given.

    Parameters
    ----------
    model : Module
        The module, whose parameters the recipe lists.
    fields : mapping, optional
        Everything else: ``{"train.steps": 400, "train.batch": 64, "sync.method": "distro"}``.
    path : path, optional
        A ``.toml`` file for ``thinwire serve``, or for others to read.
    weights : path, optional
        A ``.safetensors`` file to write the module's present weights to, with which a run begins
        that is served with this recipe. Without it, they are drawn from ``run.seed``.
    roles : mapping, optional
        As for `tensors`.
    """
    complete = {"model.architecture": "external", "external.tensors": tensors(model, roles), "train.sequence": 1,
                **(fields or {})}
    if weights is not None:
        save(weights, {name: parameter.detach().float().cpu().reshape(_sides(parameter)).numpy()
                       for name, parameter in _trained(model)})
        complete["train.init"] = os.path.abspath(weights)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(recipe_text(complete))
    return complete


def local(model: torch.nn.Module, recipe: Recipe, fields: Fields = None, *, restart: bool = False,
          quiet: bool = False, on_step: Optional[Callable[[StepReport], None]] = None) -> "Run":
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
    """
    return Run(model, ["train"], recipe, [*field_words(fields), *option_words({"restart": restart})], quiet, on_step)


def join(model: torch.nn.Module, address: str, token: str, folder: Optional[_Path] = None, fields: Fields = None, *,
         quiet: bool = False, on_step: Optional[Callable[[StepReport], None]] = None, **options: Any) -> "Run":
    """Return a run that takes part in a served one, or returns to it.

    The weights are the run's: those with which the module comes are replaced.

    Parameters
    ----------
    model : Module
        A module with the tensors of the run; another one is refused.
    address, token, folder, fields, **options
        As for `thinwire.join`.
    quiet, on_step
        As for `local`.
    """
    return Run(model, join_words(address, token, folder, fields, options), None, [], quiet, on_step)


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
    """

    def __init__(self, model: torch.nn.Module, command: Sequence[str], given: Optional[Recipe],
                 more: Sequence[str], quiet: bool, on_step: Optional[Callable[[StepReport], None]]) -> None:
        self.report: Optional[StepReport] = None
        self.result: Optional[Result] = None
        self._model = model
        self._command = (command, given, more)
        self._on_step = on_step
        self._listeners = Listeners(self._heard, None, None if quiet else print_message)
        self._peer: Optional[Peer] = None
        self._replicas: dict[int, _Replica] = {}
        self._bound: Optional[_Replica] = None
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
        if given is None:
            self._peer = Peer([*command, *more], expected, self._listeners)
            return self
        with recipe_file(given) as file:
            self._peer = Peer([*command, file, *more], expected, self._listeners)
            try:
                self._wait()  # the recipe has been read then
            except BaseException:
                self._leave()
                raise
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        failure = self._leave()
        if kind is None and failure is not None:
            raise failure

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        if self._yielded:
            assert self._asked is not None
            raise RuntimeError(f"run.step(loss) must be called in every step, but was not in step {self._asked.step}")
        if self.result is not None:
            raise StopIteration
        if self._asked is None:
            self._wait()
        if self._asked is None:
            raise StopIteration
        self._yielded = True
        asked = self._asked
        rows = torch.cat([torch.arange(first, first + count) for first, count in asked.ranges])
        return Step(asked.step, rows, asked.learning_rate, asked.worker)

    def step(self, loss: Union[float, torch.Tensor]) -> None:
        """Hand over the gradients in ``parameter.grad``; afterwards the weights are new.

        Parameters
        ----------
        loss : float or Tensor
            The mean loss over the rows of the step, for the log. The gradients must be those of
            this mean, however many calls of ``backward()`` have added them up.
        """
        if not self._yielded or self._asked is None or self._bound is None or self._peer is None:
            raise RuntimeError("run.step(loss) belongs once into each pass of `for step in run:`")
        self._bound.hand_over()
        value = float(loss.detach()) if isinstance(loss, torch.Tensor) else float(loss)
        self._peer.answer(self._asked.worker, value)
        self._yielded, self._asked = False, None
        self._wait()

    def _wait(self) -> None:
        """Wait until rows are asked for or the run has ended."""
        if self._peer is None:
            raise RuntimeError("a run is to be used as `with run:`")
        while True:
            wanted = self._peer.next()
            if isinstance(wanted, Worker):
                self._replicas[wanted.worker] = _Replica(self._model, wanted.weights, wanted.gradients)
            elif isinstance(wanted, Initial):
                _set_initial(self._model, wanted.weights)
                self._peer.ready()
            elif isinstance(wanted, Rows):
                self._bound = self._replicas[wanted.worker]
                self._bound.bind()
                self._asked = wanted
                return
            else:
                self._end()
                return

    def _heard(self, report: StepReport) -> None:
        self.report = report
        if self._on_step is not None:
            self._on_step(report)

    def _leave(self) -> Optional[Error]:
        """End the run, if it has not ended, and return what failed at that."""
        if self._peer is None:
            return None
        peer = self._peer
        try:
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
            self._bound.release()
        self._replicas, self._bound, self._asked, self._yielded = {}, None, None, False
        if self.result is not None:
            self._take_weights(self.result)

    def _take_weights(self, result: Result) -> None:
        """Workers that train weights of their own have others in memory than the run has agreed on."""
        newest = newest_checkpoint(os.path.join(self._began_in, result.folder))
        if newest is None or checkpoint_step(newest) != result.steps:
            return
        weights = load(newest)
        with torch.no_grad():
            for name, parameter in _trained(self._model):
                parameter.copy_(torch.from_numpy(weights[name]).view(parameter.shape))


class _Replica:
    """The memory of one worker, and how the module's parameters lie in it."""

    def __init__(self, model: torch.nn.Module, weights: Memory, gradients: Memory) -> None:
        self._places = [_Place(parameter, weight, gradient) for (_, parameter), weight, gradient
                        in zip(_trained(model), _views(model, weights), _views(model, gradients))]

    def bind(self) -> None:
        for place in self._places:
            place.bind()

    def hand_over(self) -> None:
        for place in self._places:
            place.hand_over()

    def release(self) -> None:
        for place in self._places:
            place.release()


class _Place:
    """A parameter and its place in the memory that the program shares."""

    def __init__(self, parameter: torch.nn.Parameter, weight: torch.Tensor, gradient: torch.Tensor) -> None:
        self._parameter = parameter
        self._weight = weight
        self._gradient = gradient
        self._shares = parameter.dtype == torch.float32 and parameter.device.type == "cpu"

    def bind(self) -> None:
        """The parameter has the newest weights, and no gradient but zeros."""
        if not self._shares:
            self._parameter.data.copy_(self._weight)
            self._parameter.grad = None
            return
        if self._parameter.data.data_ptr() != self._weight.data_ptr():
            self._parameter.data = self._weight
        self._parameter.grad = self._gradient

    @torch.no_grad()
    def hand_over(self) -> None:
        grad = self._parameter.grad
        if grad is None:  # thrown away by zero_grad(), or of no use for the loss
            self._gradient.zero_()
            return
        if grad.layout != torch.strided:
            grad = grad.to_dense()
        if grad.data_ptr() != self._gradient.data_ptr():
            self._gradient.copy_(grad)

    def release(self) -> None:
        self._parameter.grad = None
        if self._shares:
            self._parameter.data = self._parameter.data.clone()


def _original(model: torch.nn.Module) -> torch.nn.Module:
    """The module that torch.compile has wrapped, with the names that it has everywhere."""
    original = getattr(model, "_orig_mod", model)
    assert isinstance(original, torch.nn.Module)
    return original


def _trained(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, parameter) for name, parameter in _original(model).named_parameters() if parameter.requires_grad]


def _sides(parameter: torch.Tensor) -> list[int]:
    """The shape under which a run knows it: at most two sides, at least one."""
    shape = list(parameter.shape)
    if len(shape) > 2:
        return [shape[0], math.prod(shape[1:])]
    return shape or [1]


def _given_role(name: str, roles: Mapping[str, str]) -> Optional[str]:
    return next((role for pattern, role in roles.items() if fnmatch.fnmatchcase(name, pattern)), None)


def _role(name: str, parameter: torch.Tensor, module: torch.nn.Module) -> str:
    parts = name.split(".")
    if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
        return "embedding"
    if len(_sides(parameter)) == 2:
        return "head" if len(parts) > 1 and parts[-2] in _HEADS else "matrix"
    return "norm" if "norm" in type(module).__name__.lower() and parts[-1] == "weight" else "bias"


def _views(model: torch.nn.Module, memory: Memory) -> list[torch.Tensor]:
    """The tensors of the module's trained parameters in a memory, in their order."""
    values = torch.frombuffer(memory.bytes, dtype=torch.float32)
    places = {tensor.name: tensor for tensor in memory.tensors}
    views = []
    for name, parameter in _trained(model):
        first = places[name].offset // 4
        views.append(values[first:first + parameter.numel()].view(parameter.shape))
    return views


def _set_initial(model: torch.nn.Module, memory: Memory) -> None:
    with torch.no_grad():
        for view, (_, parameter) in zip(_views(model, memory), _trained(model)):
            view.copy_(parameter)
