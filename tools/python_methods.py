#!/usr/bin/env python3
"""Writes python/thinwire/_torch_methods.py: an optimizer for each method, with the fields that the program describes.

    tools/python_methods.py build/dev/bin/thinwire [--check]

--check: only say whether the file is up to date (exit status 1 if not).
"""

import argparse
import json
import subprocess
import sys
import textwrap
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "python/thinwire/_torch_methods.py"
CLASSES = {"allreduce": "AllReduce", "distro": "DisTrO", "local_sgd": "LocalSGD", "diloco": "DiLoCo",
           "streaming": "Streaming", "sparseloco": "SparseLoCo"}
LOCAL = ("local_sgd", "diloco", "streaming", "sparseloco")  # their workers train on their own between exchanges
TYPES = {"integer": "int", "number": "float", "true or false": "bool", "text": "str", "list of texts": "Sequence[str]"}
WIDTH = 120

HEAD = '''"""Optimizers that communicate, one for each method. Written by tools/python_methods.py; change that."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Union

import torch

from ._torch_optimizer import Optimizer, Params
from ._torch_run import Run
'''

PARAMETERS = {
    "params": ("Params", "", "What is trained: a module, its parameters, or groups of them. Only a module says which tensors "
               "are embeddings, heads and norms (`tensors`)."),
    "inner": ("torch.optim.Optimizer", "None", "The optimizer of the steps between exchanges, of the same parameters; in a run "
              "whose recipe says optim.method = \"own\". Otherwise the program's (`optimizer`) takes them."),
    "lr": ("float", "None", "Learning rate (optim.lr); an optimizer that trains alone follows schedulers."),
    "weight_decay": ("float", "None", "As optim.weight_decay; norms and biases have none."),
    "clip": ("float", "None", "Largest norm of a gradient (optim.clip); 0: no clipping."),
    "optimizer": ("str", "None", "The program's optimizer (optim.method)."),
    "run": ("Run", "None", "The run to take part in, of `join` or `local`. None: it trains alone."),
    "folder": ("Union[str, os.PathLike[str]]", "None", "Alone: where checkpoints are, from which the same call goes on. None: "
               "there are none."),
    "steps": ("int", "None", "Alone: steps after which the run ends by itself. None: it does not."),
    "fields": ("Mapping[str, Any]", "None", "Alone: further fields of the recipe, {\"checkpoint.every\": 100}."),
    "quiet": ("bool", "True", "Alone: show no messages."),
}


def wrapped(text, first=" " * 12, more=" " * 12):
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=more, break_long_words=False,
                         break_on_hyphens=False)


def listed(items, first):
    """Items with commas, in lines that break between them only."""
    return wrapped(", ".join(item.replace(" ", "\0") for item in items), first, " " * len(first)).replace("\0", " ")


def described(name, kind, text, optional=True):
    return f"        {name} : {kind}{', optional' if optional else ''}\n{wrapped(text)}\n"


def own_text(field):
    default = json.dumps(field["default"])
    facts = [f"default {default}", field["range"], "one of " + ", ".join(field["choices"]) if field["choices"] else ""]
    unit = f" In {field['unit']}." if field["unit"] else ""
    return f"{field['sentence']}{unit} ({'; '.join(fact for fact in facts if fact)})"


def class_of(method, table):
    fields = table["fields"]
    common = [name for name in PARAMETERS if name not in ("params", "inner") or (name == "inner" and method in LOCAL)]
    clash = set(common) & set(fields)
    assert not clash, f"{method} has fields of the names of other parameters: {clash}"
    shown = {name: TYPES[field["type"]] for name, field in fields.items()}
    before = [name for name in ("inner", "lr", "weight_decay", "clip", "optimizer") if name in common]
    after = [name for name in common if name not in before]

    arguments = ["self", "params: Params", "*"]
    arguments += [f"{name}: Optional[{PARAMETERS[name][0]}] = None" for name in before]
    arguments += [f"{name}: Optional[{kind}] = None" for name, kind in shown.items()]
    arguments += ["quiet: bool = True" if name == "quiet" else f"{name}: Optional[{PARAMETERS[name][0]}] = None"
                  for name in after]
    own = listed([f'"{name}": {name}' for name in fields], "        own = {")
    passed = listed(["params", "own", *(f"{name}={name if name in common else None}" for name in list(PARAMETERS)[1:])],
                    "        super().__init__(")
    text = f'\n\nclass {CLASSES[method]}(Optimizer):\n'
    text += wrapped(f'"""{table["sentence"]}', "    ", "    ") + "\n\n"
    text += f'    The method is sync.method = "{method}" of recipes. Where a value is None, it is the run\'s, or the default.\n'
    text += '    """\n\n' + f'    _method = "{method}"\n\n'
    text += listed(arguments, "    def __init__(") + ") -> None:\n"
    text += '        """Begin to train, or take part in a run.\n\n        Parameters\n        ----------\n'
    text += described("params", "Module, or parameters or groups of them", PARAMETERS["params"][2], optional=False)
    text += "".join(described(name, kind_of(name), PARAMETERS[name][2]) for name in before)
    text += "".join(described(name, shown[name], own_text(field)) for name, field in fields.items())
    text += "".join(described(name, kind_of(name), PARAMETERS[name][2]) for name in after)
    return text + '        """\n' + own + "}\n" + passed + ")\n"


def kind_of(name):
    return {"inner": "torch.optim.Optimizer", "folder": "path", "fields": "mapping"}.get(name, PARAMETERS[name][0])


def written(program):
    said = subprocess.run([program, "recipe", "--explain", "--json"], capture_output=True, text=True, check=True).stdout
    tables = json.loads(said)
    methods = [name for name, table in tables.items() if table.get("chosen_by") == "sync.method"]
    unknown = set(methods) - set(CLASSES)
    assert not unknown, f"{sorted(unknown)} need names of classes"
    head = HEAD
    if any(field["type"] == "list of texts" for method in methods for field in tables[method]["fields"].values()):
        head = head.replace("Optional, Union", "Optional, Sequence, Union")
    return head + "".join(class_of(method, tables[method]) for method in CLASSES if method in methods)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = written(arguments.program)
    if not arguments.check:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        sys.exit(f"{FILE} is out of date: tools/python_methods.py {arguments.program} writes it anew")


if __name__ == "__main__":
    main()
