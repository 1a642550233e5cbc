"""What a run knows of a PyTorch module: its tensors, their roles, and where they lie in a run's memory."""

from __future__ import annotations

import fnmatch
import math
import os
from typing import Any, Mapping, Optional, Sequence, Union, cast

import torch

from ._peer import Memory
from ._program import Error, Fields, recipe_text
from ._runs import save

_Path = Union[str, "os.PathLike[str]"]
_HEADS = ("lm_head", "head", "classifier", "score", "unembed", "output_projection")


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
    model = original(model)
    for module_name, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix=module_name, recurse=False):
            lines.append((name, parameter, module))
    by_name = {name: module for name, _, module in lines}
    result = []
    for name, parameter in trained(model):
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
        save(weights, {name: whole(parameter.detach()).float().cpu().reshape(_sides(parameter)).numpy()
                       for name, parameter in trained(model)})
        complete["train.init"] = os.path.abspath(weights)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(recipe_text(complete))
    return complete


def original(model: torch.nn.Module) -> torch.nn.Module:
    """The module that torch.compile and DistributedDataParallel have wrapped, with the names that it has everywhere."""
    inner = getattr(model, "_orig_mod", model)
    if isinstance(inner, torch.nn.parallel.DistributedDataParallel):
        inner = getattr(inner.module, "_orig_mod", inner.module)
    assert isinstance(inner, torch.nn.Module)
    return inner


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether each of several processes has a part of it: a DTensor."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor of which this process may have a part; then all processes call it."""
    return cast("torch.Tensor", cast("Any", tensor).full_tensor()) if is_sharded(tensor) else tensor


def trained(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, parameter) for name, parameter in original(model).named_parameters() if parameter.requires_grad]


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


def views(model: torch.nn.Module, memory: Memory) -> Sequence[Optional[torch.Tensor]]:
    """The tensors of the module's trained parameters in a memory, in their order; None: it is another process's."""
    if memory.bytes is None:
        return [None] * len(trained(model))
    values = torch.frombuffer(memory.bytes, dtype=torch.float32)
    places = {tensor.name: tensor for tensor in memory.tensors}
    views = []
    for name, parameter in trained(model):
        first = places[name].offset // 4
        views.append(values[first:first + parameter.numel()].view(parameter.shape))
    return views


def set_initial(model: torch.nn.Module, memory: Memory) -> None:
    with torch.no_grad():
        for view, (_, parameter) in zip(views(model, memory), trained(model)):
            values = whole(parameter)
            if view is not None:
                view.copy_(values)
