"""Finds and calls the program ``thinwire``, which does all the work."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

#: A recipe's file, or its fields: ``{"train.steps": 400}`` or ``{"train": {"steps": 400}}``.
Recipe = Union[str, "os.PathLike[str]", Mapping[str, Any]]
#: Recipe fields by dotted name, ``{"sync.method": "distro"}``.
Fields = Optional[Mapping[str, Any]]

_PREFIX = "thinwire: "


class Error(RuntimeError):
    """What the program refused or failed at; the message is the program's own sentence."""


def program() -> str:
    """Return the path of the program ``thinwire``.

    It is what the environment variable ``THINWIRE_BINARY`` names, or the one that came with the
    wheel, or the first in ``PATH``.

    Raises
    ------
    Error
        There is none.
    """
    named = os.environ.get("THINWIRE_BINARY")
    if named:
        if os.access(named, os.X_OK):
            return named
        raise Error(f"THINWIRE_BINARY must be the path of the program thinwire, got {named}")
    for folder in _scripts_folders():
        beside = shutil.which("thinwire", path=folder)
        if beside:
            return beside
    found = shutil.which("thinwire")
    if found:
        return found
    raise Error(
        "the program thinwire was not found: install Thinwire's wheel, which brings it, put it into PATH, or let the "
        "environment variable THINWIRE_BINARY name it, such as build/release/bin/thinwire of a clone"
    )


def _scripts_folders() -> Iterator[str]:
    yield sysconfig.get_path("scripts")
    if "posix_user" in sysconfig.get_scheme_names():
        yield sysconfig.get_path("scripts", "posix_user")


def field_words(fields: Fields) -> list[str]:
    """Recipe fields as words of the command line, ``table.field=value``."""
    return [f"{name}={toml(value, bare=True)}" for name, value in flat(fields or {})]


def flat(fields: Mapping[str, Any], table: str = "") -> Iterator[tuple[str, Any]]:
    """Fields with their whole names, of tables in tables, too."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{table}{name}.")
        else:
            yield f"{table}{name}", value


def plain(value: Any) -> Any:
    """A number or an array of NumPy or PyTorch as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def toml(value: Any, bare: bool = False) -> str:
    """A value in TOML; `bare`: as the command line takes it, where a number may be "100M"."""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, (int, float)):
        return repr(value)
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    return text if bare else json.dumps(text, ensure_ascii=False)


def recipe_text(fields: Mapping[str, Any]) -> str:
    """The fields as the text of a recipe file."""
    return "".join(f"{name} = {toml(value)}\n" for name, value in flat(fields))


@contextmanager
def recipe_file(recipe: Recipe) -> Iterator[str]:
    """The path of a recipe's file, which exists only for a while if the recipe is given by its fields."""
    if not isinstance(recipe, Mapping):
        yield os.fspath(recipe)
        return
    with tempfile.TemporaryDirectory(prefix="thinwire-") as folder:
        file = Path(folder) / "recipe.toml"
        file.write_text(recipe_text(recipe), encoding="utf-8")
        yield str(file)


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as options of the command line: ``top_k=5`` is ``--top-k 5``, ``greedy=True`` ``--greedy``."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words += [option, *(toml(one, bare=True) for one in value)]
        elif value is not None and value is not False:
            words += [option, toml(value, bare=True)]
    return words


def failure(status: int, said: str) -> Error:
    """What the program's end means, from its exit status and what it printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    own = [number for number, line in enumerate(lines) if line.startswith(_PREFIX)]
    if own:  # of one line or more
        return Error("\n".join(lines[own[-1]:])[len(_PREFIX):])
    ended = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
    return Error(f"the program thinwire {ended}" + (f": {lines[-1]}" if lines else ""))


def without_token(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The words without ``--token TOKEN``, and the environment that has it: others can see command lines."""
    kept, environment = list(words), dict(os.environ)
    if "--token" in kept:
        place = kept.index("--token")
        environment["THINWIRE_TOKEN"] = kept[place + 1]
        del kept[place:place + 2]
    return kept, environment


def call(words: Sequence[str], quiet: bool = False) -> str:
    """Run the program to its end and return what it printed as its result.

    Its messages appear on ``sys.stderr`` unless `quiet`. Ctrl-C asks it to stop as a terminal
    would, and is raised again once it has.
    """
    words, environment = without_token(words)
    child = subprocess.Popen([program(), *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, encoding="utf-8", errors="replace", start_new_session=True)
    said: list[str] = []
    assert child.stdout is not None and child.stderr is not None
    shown = threading.Thread(target=_show, args=(child.stderr, said, quiet), daemon=True)
    shown.start()
    try:
        result = _until_end(child)
    finally:
        if child.poll() is None:  # an exception that is no interrupt
            child.terminate()
        child.wait()
        shown.join()
        child.stdout.close()
        child.stderr.close()
    if child.returncode != 0:
        raise failure(child.returncode, "".join(said))
    return result


def _until_end(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    try:
        return child.stdout.read()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        child.wait()
        raise


def _show(lines: Any, said: list[str], quiet: bool) -> None:
    for line in lines:
        said.append(line)
        if quiet or line.startswith(_PREFIX):
            continue
        try:
            print(line, end="", file=sys.stderr, flush=True)
        except OSError:  # nobody reads them; the program must not wait for that
            quiet = True
