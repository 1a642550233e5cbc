"""Serves a run of many hosts from a script."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Optional

from ._program import Error, Fields, Recipe, failure, field_words, option_words, program, recipe_file

_LOOK_S = 0.02


class Server:
    """A run that is served, as `serve` makes it; a context manager.

    Attributes
    ----------
    address : str
        ``HOST:PORT`` that members join.
    token : str
        The token that they need.
    """

    address: str
    token: str

    def __init__(self, recipe: Recipe, fields: Fields, options: dict[str, Any]) -> None:
        self._recipe = recipe
        self._words = [*field_words(fields), *option_words(options)]
        self._kept = contextlib.ExitStack()
        self._child: Optional[subprocess.Popen[bytes]] = None

    def __enter__(self) -> "Server":
        with self._kept as kept:
            folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="thinwire-")))
            self._said = kept.enter_context(open(folder / "messages", "w+b"))
            ready = folder / "ready.json"
            file = kept.enter_context(recipe_file(self._recipe))
            self._child = subprocess.Popen([program(), "serve", file, *self._words, "--ready-file", str(ready)],
                                           stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said,
                                           start_new_session=True)
            kept.callback(self._stop)
            while not ready.exists():
                if self._child.poll() is not None:
                    raise self._failure()
                time.sleep(_LOOK_S)
            access = json.loads(ready.read_text())
            self.address, self.token = access["address"], access["token"]
            self._kept = kept.pop_all()
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        """Stop serving; the same recipe and folder go on with the run later."""
        self._kept.close()

    def wait(self) -> None:
        """Wait until the run is complete.

        Raises
        ------
        Error
            Serving failed.
        """
        assert self._child is not None, "use it as a context manager"
        if self._child.wait() != 0:
            raise self._failure()

    def _stop(self) -> None:
        assert self._child is not None
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGINT)
        try:
            self._child.wait()
        except BaseException:  # the user does not want to wait
            self._child.kill()
            raise

    def _failure(self) -> Exception:
        assert self._child is not None
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        status = self._child.wait()
        if status == 0:  # the run is finished already
            return Error(said.strip().split("\n")[-1])
        return failure(status, said)


def serve(recipe: Recipe, fields: Fields = None, *, listen: str = "127.0.0.1:0", **options: Any) -> Server:
    """Coordinate a run of many hosts, as ``thinwire serve`` does, while a block of code runs.

    >>> with thinwire.serve("sine.toml") as server:
    ...     thinwire.join(server.address, server.token, "runs/me", model=sine)
    ...     server.wait()

    Parameters
    ----------
    recipe : path or mapping
        The recipe, whose ``train.workers`` members the run waits for before it begins.
    fields : mapping, optional
        Fields of it to change.
    listen : str
        ``HOST:PORT`` to listen on; members elsewhere need ``0.0.0.0`` and a port that reaches it.
    **options
        Other options of the command, such as ``address="one.example.org:4333"``.
    """
    return Server(recipe, fields, {"listen": listen, **options})
