"""Commands of the program that need no model of one's own."""

from __future__ import annotations

import json
import os
from typing import Any, Optional, Sequence, Union, cast

from ._program import Fields, Recipe, call, field_words, option_words, recipe_file

_Path = Union[str, "os.PathLike[str]"]


def prepare(recipe: Recipe, fields: Fields = None, *, quiet: bool = False, **options: Any) -> None:
    """Turn the texts of a recipe into tokens, as ``thinwire prepare`` does."""
    with recipe_file(recipe) as file:
        call(["prepare", file, *field_words(fields), *option_words(options)], quiet)


def plan(recipe: Optional[Recipe] = None, fields: Fields = None, *, quiet: bool = True,
         **options: Any) -> dict[str, Any]:
    """Predict which method lets given machines finish first, as ``thinwire plan --json`` does.

    Parameters
    ----------
    recipe : path or mapping, optional
        The recipe of the run.
    fields : mapping, optional
        Fields of it to change.
    **options
        Options of the command: ``members=4``, ``flops="200G"``, ``up="10M"``, ``down="100M"``.

    Returns
    -------
    dict
        ``"recommended"`` is the method to choose; docs/planner.md explains the rest.
    """
    with recipe_file({} if recipe is None else recipe) as file:
        words = ["plan", file, *field_words(fields), "--json", *option_words(options)]
        return cast("dict[str, Any]", json.loads(call(words, quiet)))


def evaluate(model: _Path, tasks: Union[str, Sequence[str]], *, quiet: bool = True, **options: Any) -> Any:
    """Score a model on tasks and texts, as ``thinwire eval --json`` does.

    Parameters
    ----------
    model : path
        A run's folder, a checkpoint or a Hugging Face folder.
    tasks : str or sequence of str
        ``"perplexity"``, names of tasks, or files of tasks.
    **options
        Options of the command: ``text="held-out.txt"``, ``limit=100``.
    """
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    return json.loads(call(["eval", os.fspath(model), *names, "--json", *option_words(options)], quiet))


def generate(model: _Path, prompt: str = "", *, quiet: bool = True, **options: Any) -> str:
    """Continue a text, as ``thinwire generate`` does, and return the text with its continuation.

    Parameters
    ----------
    model : path
        A run's folder, a checkpoint, a Hugging Face or PEFT folder.
    prompt : str
        Text to continue.
    **options
        Options of the command: ``tokens=50``, ``temperature=0.8``, ``top_k=40``, ``greedy=True``.
    """
    words = ["generate", os.fspath(model), "--prompt", prompt, *option_words(options)]
    return call(words, quiet)
