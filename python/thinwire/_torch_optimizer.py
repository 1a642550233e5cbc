"""The base of the optimizers that communicate: `_torch_methods` has one class for each method."""

from __future__ import annotations

import copy
import math
import os
import tempfile
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple, Union

import torch

from ._peer import Peer, StepReport
from ._program import Error
from ._runs import checkpoint_step, newest_checkpoint
from ._torch_ranks_peer import RanksPeer
from ._torch_run import Run, local
from ._torch_places import part_from_first
from ._torch_tensors import is_sharded, recipe, tensors, trained, whole

#: A module, or parameters, or groups of them: ``{"params": […], "weight_decay": 0}``.
Params = Union[torch.nn.Module, Iterable[torch.Tensor], Iterable[Dict[str, Any]], Iterable[Tuple[str, torch.Tensor]]]

_Path = Union[str, "os.PathLike[str]"]
_ENDLESS = 10**9  # steps; the most that a run may have
_STATE_FILE = "inner.pt"


class Optimizer(torch.optim.Optimizer):
    """An optimizer whose steps are those of a run; use one of its subclasses.

    It may be used as a context manager, which closes it.

    Attributes
    ----------
    run : Run
        The run. Iterating over it gives the rows of each step: ``for step in optimizer.run:``.
    """

    _method = ""

    def __init__(self, params: Params, own: Mapping[str, Any], *, lr: Optional[float], weight_decay: Optional[float],
                 clip: Optional[float], optimizer: Optional[str], inner: Optional[torch.optim.Optimizer],
                 run: Optional[Run], folder: Optional[_Path], steps: Optional[int],
                 fields: Optional[Mapping[str, Any]], quiet: bool) -> None:
        if inner is not None:
            for name, value in (("lr", lr), ("weight_decay", weight_decay), ("clip", clip), ("optimizer", optimizer)):
                if value is not None:
                    raise Error(f"{name} is the business of the inner optimizer; leave it out, got {value}")
        given = {f"{self._method}.{name}": value for name, value in own.items()}
        given.update({"optim.lr": lr, "optim.weight_decay": weight_decay, "optim.clip": clip,
                      "optim.method": "own" if inner is not None else optimizer})
        given = {name: value for name, value in given.items() if value is not None}
        module, groups = _module_and_groups(params)
        if inner is not None:
            groups = inner.param_groups
        self._inner = inner
        self._alone = run is None
        self._temporary: Optional[tempfile.TemporaryDirectory[str]] = None
        if run is None:
            run = self._own_run(module, groups, given, folder, steps, fields, quiet)
        else:
            for name, setting in (("folder", folder), ("steps", steps), ("fields", fields)):
                if setting is not None:
                    raise Error(f"{name} is for an optimizer that trains alone; with run=… leave it out, got {setting}")
        self.run = run
        begins = run._peer is None
        try:
            if begins:
                run.__enter__()
            if run._asked is None and run.result is None:
                run._wait()
            if run.result is not None:
                raise Error(f"the run in {run.result.folder} has ended already, after step {run.result.steps}")
            self._ending = weakref.finalize(self, _end, run._peer, self._temporary) if self._temporary else None
            self._check(module, groups, given)
            self._begin(groups)
        except BaseException:
            if begins:
                self.close()
            raise

    def _own_run(self, module: Optional[torch.nn.Module], groups: list[dict[str, Any]], given: Mapping[str, Any],
                 folder: Optional[_Path], steps: Optional[int], fields: Optional[Mapping[str, Any]], quiet: bool) -> Run:
        if module is None:
            module = _holder(groups)
        complete: dict[str, Any] = {
            "run.name": "optimizer", "train.steps": _ENDLESS if steps is None else steps, "train.batch": 1,
            "train.threads": torch.get_num_threads(), "schedule.kind": "constant", "schedule.warmup": 0,
            "sync.method": self._method, **given, **(fields or {})}
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="thinwire-")
            complete.update({"log.tensorboard": False, "checkpoint.minutes": 0})
        complete["run.dir"] = self._temporary.name if self._temporary else os.fspath(folder or "")
        run = local(module, recipe(module, complete, roles=_roles(module, groups)), quiet=quiet)
        run._keeps_weights = True
        return run

    def _check(self, module: Optional[torch.nn.Module], groups: list[dict[str, Any]], given: Mapping[str, Any]) -> None:
        """Refuse what contradicts the run."""
        run = self.run
        method = run.recipe["sync"]["method"]
        if method != self._method:
            raise Error(f'the run\'s sync.method is "{method}", and {type(self).__name__} is for "{self._method}"')
        if run._command[1] is not None and run.recipe["train"]["workers"] > 1:
            raise Error(f"train.workers must be 1 for an optimizer, got {run.recipe['train']['workers']}: a local run of "
                        "several trains one after the other; loop over it instead (for step in run: … run.step(loss))")
        if self._inner is None and run.takes_own_steps:
            raise Error('the run\'s optim.method is "own": its members bring optimizers of their own, as '
                        "inner=torch.optim.AdamW(model.parameters())")
        if self._inner is not None and not run.takes_own_steps:
            raise Error(f'the run\'s optim.method is "{run.recipe["optim"]["method"]}", which the program computes; leave '
                        'inner out, or serve the run with optim.method = "own"')
        for name, value in given.items():
            table, _, field = name.partition(".")
            theirs = run.recipe[table].get(field)
            if theirs != value:
                raise Error(f"{name} must be {theirs!r} as in the run, got {value!r}; leave it out, as all members take "
                            "the run's")
        if module is not None and [id(one) for _, one in trained(module)] != [id(one) for _, one in run._trained]:
            raise Error("params must be the module that the run is for, got another one")
        self._check_groups(groups)

    def _check_groups(self, groups: list[dict[str, Any]]) -> None:
        names = {id(parameter): name for name, parameter in self.run._trained}
        grouped = [parameter for group in groups for parameter in group["params"] if parameter.requires_grad]
        missing = set(names) - {id(parameter) for parameter in grouped}
        for one, name in names.items():
            if one in missing:
                raise Error(f"parameter {name} of the run is in no parameter group; freeze it before the run begins, or "
                            "add it")
        if any(id(parameter) not in names for parameter in grouped):
            raise Error("params must be parameters of the module that the run is for, got others as well")
        if self._inner is not None:
            return
        decays = {name: role not in ("norm", "bias") for name, role in self.run._roles.items()}
        usual = self.run.recipe["optim"]["weight_decay"]
        for group in groups:
            unknown = set(group) - {"params", "param_names", "lr", "weight_decay"}
            if unknown:
                raise Error(f"a parameter group may have params, lr and weight_decay, got {sorted(unknown)[0]}")
            for parameter in group["params"] if "weight_decay" in group else []:
                own = names.get(id(parameter))
                decay = usual if own is not None and decays[own] else 0
                if own is not None and group["weight_decay"] != decay:
                    raise Error(f"weight_decay of parameter {own} must be {decay} as in the run, got {group['weight_decay']}: norms "
                                f"and biases have none, all others {usual}")

    def _begin(self, groups: list[dict[str, Any]]) -> None:
        run, inner = self.run, self._inner
        if inner is not None:
            super().__init__(inner.param_groups, inner.defaults)
            self._share_inner()
            self._fresh = copy.deepcopy(inner.state_dict()["state"])
            self._take_state()
            run._on_checkpoint = self._save_state
        else:
            optim = run.recipe["optim"]
            rate = optim["lr"] if self._alone else self._run_rate()
            plain = [{"params": list(group["params"]), "lr": group.get("lr", rate),
                      "weight_decay": group.get("weight_decay", optim["weight_decay"])} for group in groups]
            super().__init__(plain, {"lr": rate, "weight_decay": optim["weight_decay"]})
            self._show_rate()
            self._rate()
        self._built = True
        if self.completed > 0:  # as a scheduler with last_epoch=optimizer.completed - 1 needs it
            for group in self.param_groups:
                group.setdefault("initial_lr", group["lr"])

    # What a loop asks.

    @property
    def completed(self) -> int:
        """Steps that the run has completed."""
        asked, result = self.run._asked, self.run.result
        return asked.step if asked is not None else result.steps if result is not None else 0

    @property
    def finished(self) -> bool:
        """Whether the run has ended: there are no further steps."""
        return self.run._asked is None

    @property
    def rows(self) -> torch.Tensor:
        """The rows of the next step (`Step.rows`), for programs that let the run choose the samples."""
        return self.run._rows()

    @property
    def tokens(self) -> Optional[torch.Tensor]:
        """What they hold in a run of a language model (`Step.tokens`)."""
        return self.run._tokens()

    @property
    def report(self) -> Optional[StepReport]:
        """What the log has of the newest step."""
        return self.run.report

    # What PyTorch knows of an optimizer.

    def step(self, closure: Any = None, *, loss: Union[float, torch.Tensor, None] = None) -> Any:
        """Take a step: what the method exchanges is exchanged, and the weights are new.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients, as for all optimizers.
        loss : float or Tensor, optional
            The loss, for the log, which otherwise has none.

        Raises
        ------
        Error
            The run failed, or has ended (`finished`); or what was set is not the run's.
        """
        if self.run._asked is None:
            raise Error(f"the run has ended after step {self.completed}: leave the loop when optimizer.finished is true")
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if [id(one) for _, one in trained(self.run._model)] != [id(one) for _, one in self.run._trained]:
            raise Error("parameters were frozen, thawed, added or removed since the run began; a run has the same ones "
                        "throughout")
        if self._inner is not None:
            self._inner_step(loss)
        else:
            rate = self._rate()
            self.run._answer(loss, rate if self._alone else None)
            self._show_rate()
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused once the run has begun."""
        if getattr(self, "_built", False):
            raise Error("parameters cannot be added to a run that has begun")
        super().add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """Return the groups, the inner optimizer's state, and where the run stands.

        What the method keeps is in the run's folder, whose checkpoints go on by themselves.
        """
        state = super().state_dict()
        state["thinwire"] = {"completed": self.completed, "folder": self.run.recipe["run"]["dir"]}
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take groups and the inner optimizer's state, if they are of the step at which the run stands."""
        place = state_dict.get("thinwire")
        if place is None:
            raise Error("the state is of another optimizer: it does not say where its run stands")
        if place["completed"] != self.completed:
            raise Error(f"the state is that of a run after step {place['completed']}, and this one stands after step "
                        f"{self.completed}; with the same folder (was {place['folder']}) a run goes on from its newest "
                        "checkpoint, with the state that belongs to it")
        state = {name: state_dict[name] for name in ("state", "param_groups")}
        if self._inner is None:
            super().load_state_dict(state)
        else:
            self._inner.load_state_dict(state)
            self._share_inner()

    def __getstate__(self) -> dict[str, Any]:
        raise Error("an optimizer with a run cannot be copied or pickled; use state_dict()")

    def close(self) -> None:
        """Leave the run, which the same folder goes on with; the module has memory of its own again."""
        if self._temporary is not None:
            self.run._abandon()
            self._temporary.cleanup()
        else:
            self.run.__exit__(None, None, None)

    def __enter__(self) -> "Optimizer":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._temporary is not None or kind is None:
            self.close()
        else:
            self.run.__exit__(kind, error, trace)

    # Learning rates.

    def _run_rate(self) -> float:
        assert self.run._asked is not None
        return self.run._asked.learning_rate

    def _show_rate(self) -> None:
        """Groups show the run's learning rate where it has one of its own."""
        if self._alone or self.run._asked is None:
            return
        self._shown = self._run_rate()
        for group in self.param_groups:
            group["lr"] = self._shown

    def _rate(self) -> float:
        rates = {float(group["lr"]) for group in self.param_groups}
        if len(rates) > 1:
            raise Error(f"all parameter groups must have the same lr, got {sorted(rates)}")
        (rate,) = rates
        if not (math.isfinite(rate) and rate >= 0):
            raise Error(f"lr must be a number >= 0, got {rate}")
        if not self._alone and rate != self._shown:
            raise Error(f"lr must be {self._shown}, as the run's optim.lr and [schedule] say for all members, got {rate}; "
                        "leave schedulers out")
        return rate

    # The inner optimizer.

    def _share_inner(self) -> None:
        assert self._inner is not None
        self.state, self.param_groups = self._inner.state, self._inner.param_groups

    def _inner_step(self, loss: Union[float, torch.Tensor, None]) -> None:
        inner, asked = self._inner, self.run._asked
        assert inner is not None and asked is not None
        if asked.begins:
            self._set_state(self._fresh)
        self.run._average()
        norm = _norm(parameter.grad for _, parameter in self.run._trained)
        if not math.isfinite(norm):
            raise Error(f"step {asked.step + 1}: the norm of the gradient is {norm}; the weights are as they were")
        self.run._answer_own(loss, float(inner.param_groups[0]["lr"]), norm, inner.step)

    def _set_state(self, state: Mapping[Any, Any]) -> None:
        assert self._inner is not None
        groups = self._inner.state_dict()["param_groups"]
        self._inner.load_state_dict({"state": copy.deepcopy(state), "param_groups": groups})
        self._share_inner()

    def _save_state(self, checkpoint: str) -> None:
        """Beside a checkpoint that the run has just written, before the next step."""
        assert self._inner is not None
        ranks = self.run._ranks
        if ranks is not None and ranks.sharded and ranks.parted:
            return  # it could not be put together
        state = _mapped(self._inner.state_dict()["state"], whole)
        if ranks is not None and ranks.rank > 0:
            return
        file = os.path.join(checkpoint, _STATE_FILE)
        torch.save(state, file + ".partial")
        os.replace(file + ".partial", file)

    def _take_state(self) -> None:
        """Go on with the state that belongs to the checkpoint from which the run goes on."""
        ranks = self.run._ranks
        state = self._saved_state() if ranks is None or ranks.rank == 0 else None
        if ranks is not None:
            state = ranks.tell(state)
        if state is None:
            return
        assert self._inner is not None
        if ranks is not None and ranks.sharded:
            parameters = [one for group in self._inner.param_groups for one in group["params"]]
            state = {number: _parts(values, parameters[number]) for number, values in state.items()}
        self._set_state(state)

    def _saved_state(self) -> Any:
        newest = newest_checkpoint(os.path.join(self.run._began_in, self.run.recipe["run"]["dir"]))
        asked = self.run._asked
        if asked is None or asked.begins or newest is None or checkpoint_step(newest) != asked.step:
            return None
        file = newest / _STATE_FILE
        if file.exists():
            return torch.load(file, weights_only=True)
        self.run._tell(f"{newest} has no state of the inner optimizer, which begins anew")
        return None


def _end(peer: Union[Peer, RanksPeer, None], folder: "tempfile.TemporaryDirectory[str]") -> None:
    """An optimizer that trained alone in a temporary folder is gone, and so is its run."""
    if peer is not None:
        peer.abandon()
    folder.cleanup()


def _module_and_groups(params: Params) -> tuple[Optional[torch.nn.Module], list[dict[str, Any]]]:
    if isinstance(params, torch.nn.Module):
        return params, [{"params": [parameter for _, parameter in trained(params)]}]
    listed: list[Any] = list(params)
    if not listed:
        raise Error("params must be a module, parameters or groups of parameters, got nothing")
    if isinstance(listed[0], dict):
        return None, [{**group, "params": _plain(group["params"])} for group in listed]
    return None, [{"params": _plain(listed)}]


def _plain(params: Any) -> list[torch.nn.Parameter]:
    """The parameters of a list that may have their names, too."""
    listed = [params] if isinstance(params, torch.Tensor) else list(params)
    plain = []
    for one in (one[1] if isinstance(one, tuple) else one for one in listed):
        if not isinstance(one, torch.nn.Parameter):
            raise Error(f"params must be of torch.nn.Parameter, got {type(one).__name__}")
        plain.append(one)
    return plain


def _holder(groups: list[dict[str, Any]]) -> torch.nn.Module:
    """A module of the parameters, whose names are numbers."""
    return torch.nn.ParameterList([parameter for group in groups for parameter in group["params"]])


def _roles(module: torch.nn.Module, groups: list[dict[str, Any]]) -> dict[str, str]:
    """A group without weight decay has biases, whatever else its tensors are."""
    bare = {id(one) for group in groups if group.get("weight_decay") == 0 for one in group["params"]}
    usual = {line.split()[0]: line.split()[2] for line in tensors(module)}
    return {name: "bias" for name, parameter in trained(module) if id(parameter) in bare and usual[name] != "norm"}


def _mapped(state: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The state of an optimizer with its tensors changed."""
    if isinstance(state, dict):
        return {name: _mapped(one, change) for name, one in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(_mapped(one, change) for one in state)
    return change(state) if isinstance(state, torch.Tensor) else state


def _parts(state: Any, parameter: torch.Tensor) -> Any:
    """The part that this process has of what an optimizer keeps for a parameter."""
    return _mapped(state, lambda one: part_from_first(parameter, one) if one.shape == parameter.shape else one)


def _norm(gradients: Iterable[Optional[torch.Tensor]]) -> float:
    norms = []
    for one in gradients:
        if one is not None:
            values = one.coalesce().values() if one.is_sparse else one
            norms.append(whole(torch.linalg.vector_norm(values)).double().cpu())
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0
