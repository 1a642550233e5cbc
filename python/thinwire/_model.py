"""Trains models of one's own that are functions over NumPy arrays, and the runs of recipes."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Union

from ._peer import Initial, Listeners, Memory, Peer, Result, Rows, StepReport, Worker, print_message, result_of
from ._program import Error, Fields, Recipe, call, field_words, option_words, recipe_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    #: Tensors by name.
    Arrays = Dict[str, NDArray[np.float32]]

_Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Step:
    """A worker's part of a training step.

    Attributes
    ----------
    number : int
        The step, counted from 0.
    rows : array of int64
        Its rows: numbers that never come again, whose meaning is the program's.
    learning_rate : float
        The learning rate of the step, for whoever wants to know it.
    worker : int
        The worker, of those that this process computes.
    """

    number: int
    rows: NDArray[np.int64]
    learning_rate: float
    worker: int


#: A model of one's own: adds the gradients of the mean loss over the rows of the step to
#: ``gradients``, which are zero, and returns that loss. It must not change ``weights``.
Model = Callable[["Arrays", "Arrays", Step], float]


def train(recipe: Recipe, fields: Fields = None, *, model: Optional[Model] = None,
          initial: Optional[Callable[["Arrays"], None]] = None, restart: bool = False, quiet: bool = False,
          on_step: Optional[Callable[[StepReport], None]] = None) -> Result:
    """Train what a recipe describes, or go on where it was stopped, as ``thinwire train`` does.

    Parameters
    ----------
    recipe : path or mapping
        The recipe's file, or its fields: ``{"train.steps": 400}`` or ``{"train": {"steps": 400}}``.
    fields : mapping, optional
        Fields of the recipe to change, by dotted name: ``{"sync.method": "distro"}``.
    model : callable, optional
        The model of a recipe that says ``model.architecture = "external"``:
        ``model(weights, gradients, step)`` adds the gradients of the mean loss over ``step.rows``
        to ``gradients``, which are zero before, and returns the loss. Weights and gradients are
        dictionaries of float32 arrays by the recipe's names, in the memory that the program uses.
    initial : callable, optional
        Called with the weights of such a model before a new run begins: they are drawn from
        ``run.seed``, and it may change them.
    restart : bool
        Start over even if the run's folder holds a run.
    quiet : bool
        Show no messages.
    on_step : callable, optional
        Called with a `StepReport` after each step, with a model of one's own.

    Returns
    -------
    Result

    Raises
    ------
    Error
        What the program refuses or fails at. Checkpoints stay usable.
    KeyboardInterrupt
        Ctrl-C; the run has then been stopped, and the same call goes on.
    """
    with recipe_file(recipe) as file:
        words = ["train", file, *field_words(fields), *option_words({"restart": restart})]
        if model is None:
            return result_of(json.loads(call([*words, "--json"], quiet)))
        return _compute(words, model, initial, (), _listeners(quiet, on_step))


def join(address: str, token: str, folder: Optional[_Path] = None, fields: Fields = None, *,
         model: Optional[Model] = None, tensors: Sequence[str] = (), quiet: bool = False,
         on_step: Optional[Callable[[StepReport], None]] = None, **options: Any) -> Result:
    """Take part in a run that is served, or return to it, as ``thinwire join`` does.

    Parameters
    ----------
    address : str
        ``HOST:PORT`` of the run, or the folder of its mailbox.
    token : str
        The token that ``thinwire serve`` printed.
    folder : path, optional
        The member's own folder; the same folder is the same member. Default: ``runs/joined-ID``.
    fields : mapping, optional
        This machine's own fields, such as ``{"train.threads": 4}``.
    model : callable, optional
        As for `train`, of a run whose model is external.
    tensors : sequence of str
        The tensors that the model is for, as lines of ``external.tensors`` (``"hidden 16x4"``): a
        run with others is refused. Empty: any.
    quiet, on_step
        As for `train`.
    **options
        Other options of ``thinwire join``, such as ``wait="10m"`` or ``ca="ca.pem"``.
    """
    words = join_words(address, token, folder, fields, options)
    if model is None:
        return result_of(json.loads(call([*words, "--json"], quiet)))
    return _compute(words, model, None, tensors, _listeners(quiet, on_step))


def join_words(address: str, token: str, folder: Optional[_Path], fields: Fields,
               options: Mapping[str, Any]) -> list[str]:
    """The command that joins a run."""
    own = {} if folder is None else {"run.dir": folder}
    return ["join", address, *field_words({**(fields or {}), **own}), "--token", token, *option_words(options)]


def rows_of(question: Rows) -> "NDArray[np.int64]":
    """The rows that are asked for, as an array."""
    import numpy as np

    return np.concatenate([np.arange(first, first + count, dtype=np.int64) for first, count in question.ranges])


def arrays_in(memory: Memory) -> "Arrays":
    """The tensors as arrays in place."""
    import numpy as np

    assert memory.bytes is not None
    values = np.frombuffer(memory.bytes, np.float32)
    arrays = {}
    for tensor in memory.tensors:
        first, count = tensor.offset // 4, int(np.prod(tensor.shape))
        arrays[tensor.name] = values[first:first + count].reshape(tensor.shape)
    return arrays


def _listeners(quiet: bool, on_step: Optional[Callable[[StepReport], None]]) -> Listeners:
    return Listeners(on_step=on_step, on_message=None if quiet else print_message)


def _compute(words: Sequence[str], model: Model, initial: Optional[Callable[["Arrays"], None]],
             tensors: Sequence[str], listeners: Listeners) -> Result:
    """Serve a run with a model until it ends."""
    peer = Peer(words, tensors, listeners)
    workers: dict[int, tuple[Arrays, Arrays]] = {}
    try:
        with _stopping(peer):
            while True:
                wanted = peer.next()
                if wanted is None:
                    break
                if isinstance(wanted, Worker):
                    if initial is not None and wanted.recipe["train"]["launcher"] == "mpi":
                        raise Error("initial must be None with [train] launcher = \"mpi\", whose ranks begin with the "
                                    "weights that the recipe says; set train.init to a file of `thinwire.save`")
                    workers[wanted.worker] = (arrays_in(wanted.weights), arrays_in(wanted.gradients))
                elif isinstance(wanted, Initial):
                    if initial is not None:
                        initial(arrays_in(wanted.weights))
                    peer.ready()
                else:
                    step = Step(wanted.step, rows_of(wanted), wanted.learning_rate, wanted.worker)
                    peer.answer(wanted.worker, float(model(*workers[wanted.worker], step)))
        assert peer.result is not None
        return peer.result
    finally:
        peer.leave()


@contextmanager
def _stopping(peer: Peer) -> Iterator[None]:
    """Ctrl-C asks the run to stop, and is raised once it has; a second one is raised as usual."""
    interrupted = False
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: Any) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        peer.stop()

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Error:  # what was under way has failed because of it
        if not interrupted:
            raise
    finally:
        signal.signal(signal.SIGINT, usual)
    if interrupted:
        raise KeyboardInterrupt
