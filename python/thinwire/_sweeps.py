"""Runs over a grid of values: ``thinwire sweep``."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

from ._program import Fields, Recipe, call, flat, option_words, plain, recipe_file, recipe_text, toml

_Path = Union[str, "os.PathLike[str]"]
_TEXTS = ("state", "folder", "method", "within", "digest")  # columns of results.csv; all others but swept ones are numbers


def sweep(recipe: Recipe, grid: Optional[Mapping[str, Sequence[Any]]] = None, *, out: _Path,
          points: Sequence[Mapping[str, Any]] = (), seeds: Sequence[int] = (), fields: Fields = None,
          jobs: Optional[int] = None, quiet: bool = False) -> list[dict[str, Any]]:
    """Train a recipe with many settings, a process for each run, as ``thinwire sweep`` does.

    The same call goes on with a sweep that was interrupted: finished runs are kept.

    Parameters
    ----------
    recipe : path or mapping
        The recipe, prepared if it needs that.
    grid : mapping, optional
        Lists of values, ``{"optim.lr": [1e-3, 3e-3]}``: every combination is a setting.
    out : path
        The folder for runs and results.
    points : sequence of mappings, optional
        Fields that vary together; each point is crossed with the grid.
    seeds : sequence of int, optional
        Values of ``run.seed``: every setting runs with each.
    fields : mapping, optional
        Fields that all runs have.
    jobs : int, optional
        How many runs at once. Default: as many as the cores can carry.
    quiet : bool
        Show no messages.

    Returns
    -------
    list of dict
        One for each run, the columns of ``results.csv`` (docs/formats.md): the swept fields, ``seed``, ``state``, ``folder``
        and the numbers of its summary. Swept fields have the values that were given, numbers are int or float, and what
        a run does not have is None.

    Raises
    ------
    Error
        The program refused a setting, naming the point and the field, or a run failed.
    """
    with tempfile.TemporaryDirectory(prefix="thinwire-") as folder, recipe_file(recipe) as file:
        text = [recipe_text({"recipe": os.path.abspath(file), **({"seeds": list(seeds)} if len(seeds) else {})})]
        text += [f"[{table}]\n{recipe_text(values)}" for table, values in (("fixed", fields), ("grid", grid)) if values]
        text += [f"[[points]]\n{recipe_text(point)}" for point in points]
        described = Path(folder) / "grid.toml"
        described.write_text("".join(text), encoding="utf-8")
        call(["sweep", str(described), "--out", os.fspath(out), *option_words({"jobs": jobs})], quiet)
    swept = _swept(grid or {}, points)
    with open(Path(out) / "results.csv", encoding="utf-8", newline="") as table:
        return [{name: _given(text, swept[name]) if name in swept else _read(name, text) for name, text in row.items()}
                for row in csv.DictReader(table)]


def _swept(grid: Mapping[str, Sequence[Any]], points: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The values that each field has in the grid and in points."""
    swept: dict[str, list[Any]] = {name: list(plain(values)) for name, values in flat(grid)}
    for point in points:
        for name, value in flat(point):
            swept.setdefault(name, []).append(plain(value))
    return swept


def _given(text: str, values: Sequence[Any]) -> Any:
    """The value that a cell stands for, which has neither quotes nor the notation of the number that was given."""
    for value in values:
        if _bare(text) == _bare(toml(value)):
            return value
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return next((value for value in numbers if _number(text) == value), text or None)


def _bare(text: str) -> str:
    """A value's text without what TOML has more than one way to write."""
    if text.startswith("["):
        text = "".join(text.split())
    return text.translate(dict.fromkeys(map(ord, "'\"\\")))


def _read(name: str, text: str) -> Any:
    return text or None if name in _TEXTS else _number(text)


def _number(text: str) -> Union[int, float, None]:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None
