"""The other end of a run whose model is computed here: ``thinwire train`` or ``join`` as a child process.

thinwire/train/model_socket.h describes the protocol. In short: weights and gradients lie in memory
that both processes have mapped, and lines of JSON through a socket say whose turn it is.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import socket
import subprocess
import sys
import tempfile
from collections import deque
from dataclasses import dataclass, fields
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

from ._program import Error, failure, program, without_token

_READ_AT_ONCE = 1 << 16
_MOST_FILES = 2


class Tensor(NamedTuple):
    """One tensor of a model, as a run lists it."""

    name: str
    shape: tuple[int, ...]
    role: str  #: matrix, bias, norm, embedding or head
    offset: int  #: of its first value, in bytes


class Memory(NamedTuple):
    """The tensors of a worker's weights, or of its gradients: float32, row-major."""

    tensors: list[Tensor]
    bytes: Optional[mmap.mmap]  #: None: another process of this member has them


class Rows(NamedTuple):
    """A worker waits for the loss of rows, and for its gradients."""

    worker: int
    step: int  #: counted from 0
    learning_rate: float
    ranges: list[tuple[int, int]]  #: first row, and how many
    begins: bool  #: with new weights from others; what an optimizer here has learnt is of no use
    tokens: Optional["Tokens"]  #: of the rows, in a run of a language model
    changed: bool = True  #: the weights may be others than those that were handed over


class Tokens(NamedTuple):
    """Rows of a text: int32, row-major."""

    rows: int
    length: int  #: of a row: one more than it has predictions
    bytes: mmap.mmap


class Worker(NamedTuple):
    """A worker begins; its tensors stay where they are until it begins again."""

    worker: int
    weights: Memory
    gradients: Memory
    recipe: Mapping[str, Mapping[str, Any]]  #: every field of the run, by table


class Initial(NamedTuple):
    """A new run begins with these weights, unless they are changed before ``Peer.ready``."""

    weights: Memory


@dataclass(frozen=True)
class StepReport:
    """One step of a run, over all workers that this process knows of.

    Attributes
    ----------
    step : int
        Completed steps, this one included.
    loss : float
        Mean over the step's rows; NaN where it was not finite.
    learning_rate : float
        Used in this step.
    gradient_norm : float
        Before clipping.
    rows : int
        Rows of the step.
    rows_per_second : float
        Speed at which they were learnt.
    bytes_sent, bytes_received : float
        By one worker, in this step.
    """

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float
    rows: int
    rows_per_second: float
    bytes_sent: float
    bytes_received: float


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes
    ----------
    steps : int
        Completed steps.
    finished : bool
        False: it was stopped, and the same call goes on from there.
    folder : str
        The run's folder, with its log and checkpoints.
    train_loss : float
        Mean over the last steps of a finished run; NaN otherwise.
    bytes_sent_per_step : float
        By one worker; NaN where the run was stopped.
    digest : str
        The digest of the weights, the same on all members: 16 hexadecimal digits; empty where it was stopped.
    """

    steps: int
    finished: bool
    folder: str
    train_loss: float = math.nan
    bytes_sent_per_step: float = math.nan
    digest: str = ""


def result_of(end: Mapping[str, Any]) -> Result:
    """A result from the program's JSON."""
    summary = end.get("summary") or {}
    return Result(int(end["steps"]), bool(end["finished"]), str(end["folder"]), _number(summary.get("train_loss")),
                  _number(summary.get("bytes_sent_per_worker_step")), str(summary.get("digest", "")))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


@dataclass
class Listeners:
    """Who hears of a run's events; each may be None."""

    on_step: Optional[Callable[[StepReport], None]] = None
    on_checkpoint: Optional[Callable[[int, str], None]] = None
    on_message: Optional[Callable[[str], None]] = None


def print_message(text: str) -> None:
    """Show a message of a run on ``sys.stderr``."""
    print(text, file=sys.stderr, flush=True)


class Peer:
    """A running program whose model is computed here. Used by one thread.

    Parameters
    ----------
    words : sequence of str
        The command without the program's name.
    tensors : sequence of str
        The tensors that the model has, as lines of ``external.tensors``; empty: any.
    listeners : Listeners
        Called while this process waits for the program.
    takes_tokens : bool
        The model may also be a language model that the program could compute itself.
    sets_gradients : bool
        All gradients are set in every step, so that the program need not clear them before.
    """

    def __init__(self, words: Sequence[str], tensors: Sequence[str], listeners: Listeners,
                 takes_tokens: bool = False, sets_gradients: bool = False) -> None:
        self._listeners = listeners
        self._unread = b""
        self._lines: deque[bytes] = deque()
        self._files: deque[int] = deque()
        self._asked: dict[int, int] = {}  # the step for which a worker waits
        self._result: Optional[Result] = None
        self._failure: Optional[Error] = None
        self._closed = False
        self._said = tempfile.TemporaryFile()
        words, environment = without_token(words)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A session of its own, so that Ctrl-C reaches this process alone, which then decides.
            self._child = subprocess.Popen(
                [program(), *words, "--model-socket", str(theirs.fileno())], stdin=subprocess.DEVNULL,
                stdout=self._said, stderr=self._said, env=environment, pass_fds=[theirs.fileno()],
                start_new_session=True)
        except BaseException:
            self._socket.close()
            self._said.close()
            raise
        finally:
            theirs.close()
        self._send({"tensors": list(tensors), "tokens": takes_tokens, "sets_gradients": sets_gradients})

    def next(self) -> "Rows | Worker | Initial | None":
        """Wait for what the program wants next; None once the run has ended.

        Raises
        ------
        Error
            The run failed.
        """
        while True:
            line = self._next_line()
            if line is None:
                self._end()
                return None
            wanted = self._take(json.loads(line))
            if wanted is not None:
                return wanted

    def answer(self, worker: int, loss: Optional[float], learning_rate: Optional[float] = None,
               gradient_norm: Optional[float] = None) -> None:
        """Give the loss that a worker waits for, if it is known; its gradients are in its memory.

        The others are for what the recipe leaves to this process: the rate of the step, and, with
        ``optim.method = "own"``, the norm of its gradient.
        """
        said: dict[str, Any] = {"worker": worker, "step": self._asked[worker]}
        if loss is not None:
            said["loss"] = loss if math.isfinite(loss) else None
        if learning_rate is not None:
            said["learning_rate"] = learning_rate
        if gradient_norm is not None:
            said["gradient_norm"] = gradient_norm
        self._send(said)

    def changes(self, worker: int) -> None:
        """Say that the weights of a worker will now be changed, before the answer."""
        self._send({"worker": worker, "step": self._asked[worker], "changes": True})

    def ready(self) -> None:
        """Say that the initial weights are as they should be."""
        self._send({"ready": True})

    def stop(self) -> None:
        """Ask the run to end soon; until then its workers go on asking."""
        self._send({"stop": True})

    def leave(self) -> None:
        """Say that nothing more will be computed, and wait until the run has ended, whatever it says."""
        if self._closed:
            return
        hear = self._listeners
        self._listeners = Listeners(None, hear.on_checkpoint, hear.on_message)  # steps are no longer theirs
        try:
            with contextlib.suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_WR)
            while True:
                while self._lines:
                    with contextlib.suppress(OSError):  # of whoever shows messages
                        self._take(json.loads(self._lines.popleft()))
                if not self._read_more():
                    break
        except BaseException:  # the user does not want to wait
            self._child.kill()
            raise
        finally:
            self.close()

    def abandon(self) -> None:
        """End the program at once; what it has not yet written is lost."""
        self._child.kill()
        self.close()

    def close(self) -> None:
        """End the connection and the program."""
        if self._closed:
            return
        self._closed = True
        self._socket.close()
        while self._files:
            os.close(self._files.popleft())
        self._child.wait()
        self._said.close()

    @property
    def failure(self) -> Optional[Error]:
        """Why the run failed, if it has said so."""
        return self._failure

    @property
    def result(self) -> Optional[Result]:
        """How the run ended, once it has; None if it failed."""
        return self._result

    def _send(self, line: Mapping[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(line).encode() + b"\n")
        except OSError:
            pass  # next() will say why it has ended

    def _read_more(self) -> bool:
        room = socket.CMSG_SPACE(_MOST_FILES * 4)
        try:
            read, beside, flags, _ = self._socket.recvmsg(_READ_AT_ONCE, room, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            return False
        if flags & socket.MSG_CTRUNC:
            raise Error("the memory of the run cannot be opened: this process has too many open files")
        for level, kind, payload in beside:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._files.extend(memoryview(payload)[: len(payload) // 4 * 4].cast("i"))
        self._unread += read
        *whole, self._unread = self._unread.split(b"\n")
        self._lines.extend(whole)
        return bool(read)

    def _next_line(self) -> Optional[bytes]:
        while not self._lines:
            if not self._read_more():
                return None
        return self._lines.popleft()

    def _take(self, line: Mapping[str, Any]) -> "Rows | Worker | Initial | None":
        kind = line["kind"]
        if kind == "rows":
            self._asked[line["worker"]] = line["step"]
            return Rows(line["worker"], line["step"], line["learning_rate"],
                        [(first, count) for first, count in line["rows"]], bool(line.get("begins")),
                        self._tokens(*line["tokens"]) if "tokens" in line else None)
        if kind == "worker":
            return Worker(line["worker"], self._memory(line["memory"]), self._memory(line["memory"]), line["recipe"])
        if kind == "initial":
            return Initial(self._memory(line["memory"]))
        self._tell(kind, line)
        return None

    def _tell(self, kind: str, line: Mapping[str, Any]) -> None:
        hear = self._listeners
        if kind == "step" and hear.on_step is not None:
            values = {one.name: line[one.name] for one in fields(StepReport)}
            for name in ("loss", "gradient_norm", "rows_per_second"):
                values[name] = _number(values[name])
            hear.on_step(StepReport(**values))
        elif kind == "checkpoint" and hear.on_checkpoint is not None:
            hear.on_checkpoint(line["step"], line["folder"])
        elif kind == "message" and hear.on_message is not None:
            hear.on_message(line["text"])
        elif kind == "result":
            self._result = result_of(line["end"])
        elif kind == "error":
            self._failure = Error(line["message"])

    def _map(self, size: int) -> mmap.mmap:
        file = self._files.popleft()
        try:
            return mmap.mmap(file, size)
        finally:
            os.close(file)

    def _tokens(self, rows: int, length: int) -> Tokens:
        return Tokens(rows, length, self._map(4 * rows * length))

    def _memory(self, memory: Mapping[str, Any]) -> Memory:
        mapped = self._map(memory["bytes"])
        tensors = [Tensor(one["name"], tuple(one["shape"]), one["role"], one["offset"]) for one in memory["tensors"]]
        return Memory(tensors, mapped)

    def _end(self) -> None:
        status = self._child.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        self.close()
        if self._failure is not None:
            raise self._failure
        if self._result is None:
            raise failure(status, said)
