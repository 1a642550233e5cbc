"""Optimizers that communicate, one for each method. Written by tools/python_methods.py; change that."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Union

import torch

from ._torch_optimizer import Optimizer, Params
from ._torch_run import Run


class AllReduce(Optimizer):
    """Averages the gradients over all workers every step.

    The method is sync.method = "allreduce" of recipes. Where a value is None, it is the run's, or the default.
    """

    _method = "allreduce"

    def __init__(self, params: Params, *, lr: Optional[float] = None, weight_decay: Optional[float] = None,
                 clip: Optional[float] = None, optimizer: Optional[str] = None, wire: Optional[str] = None,
                 hide: Optional[bool] = None, run: Optional[Run] = None,
                 folder: Optional[Union[str, os.PathLike[str]]] = None, steps: Optional[int] = None,
                 fields: Optional[Mapping[str, Any]] = None, quiet: bool = True) -> None:
        """Begin to train, or take part in a run.

        Parameters
        ----------
        params : Module, or parameters or groups of them
            What is trained: a module, its parameters, or groups of them. Only a module says which tensors are
            embeddings, heads and norms (`tensors`).
        lr : float, optional
            Learning rate (optim.lr); an optimizer that trains alone follows schedulers.
        weight_decay : float, optional
            As optim.weight_decay; norms and biases have none.
        clip : float, optional
            Largest norm of a gradient (optim.clip); 0: no clipping.
        optimizer : str, optional
            The program's optimizer (optim.method).
        wire : str, optional
            Number format in which gradients and their sums are sent; sums are formed in fp32. (default "bf16"; one of
            bf16, fp32, fp8, fp4, int2)
        hide : bool, optional
            Whether the gradients of a group of tensors are averaged while the backward pass computes the next; results
            have the same bits. Needs wire = bf16 or fp32. (default true)
        run : Run, optional
            The run to take part in, of `join` or `local`. None: it trains alone.
        folder : path, optional
            Alone: where checkpoints are, from which the same call goes on. None: there are none.
        steps : int, optional
            Alone: steps after which the run ends by itself. None: it does not.
        fields : mapping, optional
            Alone: further fields of the recipe, {"checkpoint.every": 100}.
        quiet : bool, optional
            Alone: show no messages.
        """
        own = {"wire": wire, "hide": hide}
        super().__init__(params, own, inner=None, lr=lr, weight_decay=weight_decay, clip=clip, optimizer=optimizer,
                         run=run, folder=folder, steps=steps, fields=fields, quiet=quiet)


class DisTrO(Optimizer):
    """Sends the largest DCT coefficients of each worker's own momentum, hundreds of times fewer bytes than gradients.

    The method is sync.method = "distro" of recipes. Where a value is None, it is the run's, or the default.
    """

    _method = "distro"

    def __init__(self, params: Params, *, lr: Optional[float] = None, weight_decay: Optional[float] = None,
                 clip: Optional[float] = None, optimizer: Optional[str] = None, chunk: Optional[int] = None,
                 k: Optional[int] = None, fixed_k: Optional[bool] = None, decay: Optional[float] = None,
                 values: Optional[str] = None, feedback: Optional[bool] = None, aggregate: Optional[str] = None,
                 sum_wire: Optional[str] = None, sum_k: Optional[int] = None, update: Optional[str] = None,
                 muon_momentum: Optional[float] = None, muon_scale: Optional[float] = None,
                 transform: Optional[str] = None, client: Optional[str] = None, local_steps: Optional[int] = None,
                 local_update: Optional[str] = None, overlap: Optional[int] = None, look_ahead: Optional[bool] = None,
                 run: Optional[Run] = None, folder: Optional[Union[str, os.PathLike[str]]] = None,
                 steps: Optional[int] = None, fields: Optional[Mapping[str, Any]] = None, quiet: bool = True) -> None:
        """Begin to train, or take part in a run.

        Parameters
        ----------
        params : Module, or parameters or groups of them
            What is trained: a module, its parameters, or groups of them. Only a module says which tensors are
            embeddings, heads and norms (`tensors`).
        lr : float, optional
            Learning rate (optim.lr); an optimizer that trains alone follows schedulers.
        weight_decay : float, optional
            As optim.weight_decay; norms and biases have none.
        clip : float, optional
            Largest norm of a gradient (optim.clip); 0: no clipping.
        optimizer : str, optional
            The program's optimizer (optim.method).
        chunk : int, optional
            Largest side of the tiles that tensors are cut into; the side is the largest divisor of the dimension up to
            this. In elements. (default 64; >= 1 and <= 256)
        k : int, optional
            Coefficients sent every step for a full tile of chunk * chunk elements. In coefficients. (default 32; >= 1
            and <= 65536)
        fixed_k : bool, optional
            Send k coefficients for smaller tiles too, instead of their share of k. (default false)
        decay : float, optional
            Decay of the momentum, per step. (default 0.999; >= 0 and <= 1)
        values : str, optional
            Number format of the coefficients on the wire; int8 and 1bit use one scale per tensor. (default "1bit"; one
            of fp32, bf16, int8, 1bit)
        feedback : bool, optional
            Keep the quantisation error of the values in the momentum, to be sent later. (default false)
        aggregate : str, optional
            Divide a slot's sum by the number of workers that sent it, or by the number of all workers in the round.
            (default "mean_of_senders"; one of mean_of_senders, mean_of_all)
        sum_wire : str, optional
            Number format of the mean of all payloads, which members then receive in place of the payloads where that is
            less; same: each receives every payload. (default "same"; one of same, fp32, bf16, int8, 2bit, 1bit)
        sum_k : int, optional
            With sum_wire: how many the mean keeps of a full tile or chunk, those of the largest sums, so that it is as
            large with any number of workers; 0: all that were sent. In coefficients. (default 0; >= 0 and <= 65536)
        update : str, optional
            What is done with the aggregate: a step of size lr by its sign; an AdamW step with it as the gradient, or
            GaLore's in seeded bases; plain subtraction; or, for the matrices of the blocks, a step along an
            orthogonalized momentum of the aggregates (the sign for the rest). (default "sign"; one of sign, adamw, sgd,
            muon)
        muon_momentum : float, optional
            With update = muon: decay of the momentum of the aggregates, per step. (default 0.9; >= 0 and <=
            0.999999999)
        muon_scale : float, optional
            With update = muon: root mean square of a matrix's step, as a multiple of lr. (default 0.2; >= 0 and <=
            1000000)
        transform : str, optional
            Basis in which the largest coefficients are chosen: the discrete cosine transform, or the parameters
            themselves. (default "dct"; one of dct, none)
        client : str, optional
            Whether a worker keeps a momentum and sends the largest part of it, or keeps nothing and sends the largest
            part of the delta of its local steps. (default "stateful"; one of stateful, stateless)
        local_steps : int, optional
            Steps that a stateless client takes on its own before it sends; the workers synchronise after this many
            steps and at the end of the run. In steps. (default 1; >= 1 and <= 1000000000)
        local_update : str, optional
            The local step of a stateless client: lr times the gradient, lr times its sign, or an AdamW step whose state
            starts afresh in every round. (default "sgd"; one of sgd, sign, adamw)
        overlap : int, optional
            Number of rounds that payloads may be in flight while the next one is computed; with 1 every update is
            applied one round late. In rounds. (default 0; >= 0 and <= 1)
        look_ahead : bool, optional
            With overlap: compute gradients one step ahead, after a step of size lr by the sign of the worker's own
            momentum, which is then undone exactly. (default false)
        run : Run, optional
            The run to take part in, of `join` or `local`. None: it trains alone.
        folder : path, optional
            Alone: where checkpoints are, from which the same call goes on. None: there are none.
        steps : int, optional
            Alone: steps after which the run ends by itself. None: it does not.
        fields : mapping, optional
            Alone: further fields of the recipe, {"checkpoint.every": 100}.
        quiet : bool, optional
            Alone: show no messages.
        """
        own = {"chunk": chunk, "k": k, "fixed_k": fixed_k, "decay": decay, "values": values, "feedback": feedback,
               "aggregate": aggregate, "sum_wire": sum_wire, "sum_k": sum_k, "update": update,
               "muon_momentum": muon_momentum, "muon_scale": muon_scale, "transform": transform, "client": client,
               "local_steps": local_steps, "local_update": local_update, "overlap": overlap, "look_ahead": look_ahead}
        super().__init__(params, own, inner=None, lr=lr, weight_decay=weight_decay, clip=clip, optimizer=optimizer,
                         run=run, folder=folder, steps=steps, fields=fields, quiet=quiet)


class LocalSGD(Optimizer):
    """Trains the workers independently for some steps, then steps along their mean pseudo-gradient.

    The method is sync.method = "local_sgd" of recipes. Where a value is None, it is the run's, or the default.
    """

    _method = "local_sgd"

    def __init__(self, params: Params, *, inner: Optional[torch.optim.Optimizer] = None, lr: Optional[float] = None,
                 weight_decay: Optional[float] = None, clip: Optional[float] = None, optimizer: Optional[str] = None,
                 sync_every: Optional[int] = None, outer: Optional[str] = None, outer_lr: Optional[float] = None,
                 outer_momentum: Optional[float] = None, wire: Optional[str] = None, sum_wire: Optional[str] = None,
                 error_feedback: Optional[bool] = None, error_in: Optional[str] = None, overlap: Optional[str] = None,
                 overlap_steps: Optional[int] = None, mix: Optional[float] = None, depth: Optional[int] = None,
                 overlap_after: Optional[int] = None, run: Optional[Run] = None,
                 folder: Optional[Union[str, os.PathLike[str]]] = None, steps: Optional[int] = None,
                 fields: Optional[Mapping[str, Any]] = None, quiet: bool = True) -> None:
        """Begin to train, or take part in a run.

        Parameters
        ----------
        params : Module, or parameters or groups of them
            What is trained: a module, its parameters, or groups of them. Only a module says which tensors are
            embeddings, heads and norms (`tensors`).
        inner : torch.optim.Optimizer, optional
            The optimizer of the steps between exchanges, of the same parameters; in a run whose recipe says
            optim.method = "own". Otherwise the program's (`optimizer`) takes them.
        lr : float, optional
            Learning rate (optim.lr); an optimizer that trains alone follows schedulers.
        weight_decay : float, optional
            As optim.weight_decay; norms and biases have none.
        clip : float, optional
            Largest norm of a gradient (optim.clip); 0: no clipping.
        optimizer : str, optional
            The program's optimizer (optim.method).
        sync_every : int, optional
            Steps that a worker trains on its own before it sends its pseudo-gradient; all workers also send at the end
            of the run. In steps. (default 32; >= 1 and <= 1000000000)
        outer : str, optional
            Optimizer that steps along the workers' mean pseudo-gradient; average takes the mean of their weights.
            (default "nesterov"; one of nesterov, momentum, sgd, average)
        outer_lr : float, optional
            Learning rate of the outer step; it follows no schedule. (default 0.7; > 0 and <= 100)
        outer_momentum : float, optional
            Decay of the outer momentum, per outer step. (default 0.9; >= 0 and <= 0.999999999)
        wire : str, optional
            Number format in which pseudo-gradients and their sums are sent; sums are formed in fp32. (default "bf16";
            one of fp32, bf16, fp8, fp4, int2, int1)
        sum_wire : str, optional
            Number format in which sums are sent, with at least as many bits as wire; same: that of wire, where with
            int1, and with error_in = weights, each worker receives all contributions instead. (default "same"; one of
            same, fp32, bf16, fp8, fp4)
        error_feedback : bool, optional
            Keep what a pseudo-gradient loses in the number format, and send it with the next one. (default false)
        error_in : str, optional
            With error_feedback: where that is kept; in weights, a worker goes on training from what it has learned and
            not yet sent, and needs no buffer. (default "buffer"; one of buffer, weights)
        overlap : str, optional
            What workers do while sums are in flight: wait; take overlap_steps steps; take all steps up to the next
            outer one, from weights one outer step late; or the same with their own pseudo-gradient applied at once.
            (default "none"; one of none, inner, delayed, eager)
        overlap_steps : int, optional
            With overlap = inner: number of steps after which sums are applied. In steps. (default 1; >= 0 and <=
            1000000000)
        mix : float, optional
            With overlap = inner: share of the worker's own weights when it mixes them with the new shared ones; 0 takes
            the shared weights as they are. (default 0.5; >= 0 and <= 1)
        depth : int, optional
            With overlap = eager: number of outer steps that sums may be in flight. In outer steps. (default 1; >= 1 and
            <= 2)
        overlap_after : int, optional
            Number of outer steps at the start of the run that do not overlap: workers wait for their sums. In outer
            steps. (default 0; >= 0 and <= 1000000000)
        run : Run, optional
            The run to take part in, of `join` or `local`. None: it trains alone.
        folder : path, optional
            Alone: where checkpoints are, from which the same call goes on. None: there are none.
        steps : int, optional
            Alone: steps after which the run ends by itself. None: it does not.
        fields : mapping, optional
            Alone: further fields of the recipe, {"checkpoint.every": 100}.
        quiet : bool, optional
            Alone: show no messages.
        """
        own = {"sync_every": sync_every, "outer": outer, "outer_lr": outer_lr, "outer_momentum": outer_momentum,
               "wire": wire, "sum_wire": sum_wire, "error_feedback": error_feedback, "error_in": error_in,
               "overlap": overlap, "overlap_steps": overlap_steps, "mix": mix, "depth": depth,
               "overlap_after": overlap_after}
        super().__init__(params, own, inner=inner, lr=lr, weight_decay=weight_decay, clip=clip, optimizer=optimizer,
                         run=run, folder=folder, steps=steps, fields=fields, quiet=quiet)


class DiLoCo(Optimizer):
    """Trains the workers independently for many steps, then takes a Nesterov step along their mean pseudo-gradient.

    The method is sync.method = "diloco" of recipes. Where a value is None, it is the run's, or the default.
    """

    _method = "diloco"

    def __init__(self, params: Params, *, inner: Optional[torch.optim.Optimizer] = None, lr: Optional[float] = None,
                 weight_decay: Optional[float] = None, clip: Optional[float] = None, optimizer: Optional[str] = None,
                 sync_every: Optional[int] = None, outer: Optional[str] = None, outer_lr: Optional[float] = None,
                 outer_momentum: Optional[float] = None, wire: Optional[str] = None, sum_wire: Optional[str] = None,
                 error_feedback: Optional[bool] = None, error_in: Optional[str] = None, overlap: Optional[str] = None,
                 overlap_steps: Optional[int] = None, mix: Optional[float] = None, depth: Optional[int] = None,
                 overlap_after: Optional[int] = None, run: Optional[Run] = None,
                 folder: Optional[Union[str, os.PathLike[str]]] = None, steps: Optional[int] = None,
                 fields: Optional[Mapping[str, Any]] = None, quiet: bool = True) -> None:
        """Begin to train, or take part in a run.

        Parameters
        ----------
        params : Module, or parameters or groups of them
            What is trained: a module, its parameters, or groups of them. Only a module says which tensors are
            embeddings, heads and norms (`tensors`).
        inner : torch.optim.Optimizer, optional
            The optimizer of the steps between exchanges, of the same parameters; in a run whose recipe says
            optim.method = "own". Otherwise the program's (`optimizer`) takes them.
        lr : float, optional
            Learning rate (optim.lr); an optimizer that trains alone follows schedulers.
        weight_decay : float, optional
            As optim.weight_decay; norms and biases have none.
        clip : float, optional
            Largest norm of a gradient (optim.clip); 0: no clipping.
        optimizer : str, optional
            The program's optimizer (optim.method).
        sync_every : int, optional
            Steps that a worker trains on its own before it sends its pseudo-gradient; all workers also send at the end
            of the run. In steps. (default 100; >= 1 and <= 1000000000)
        outer : str, optional
            Optimizer that steps along the workers' mean pseudo-gradient; average takes the mean of their weights.
            (default "nesterov"; one of nesterov, momentum, sgd, average)
        outer_lr : float, optional
            Learning rate of the outer step; it follows no schedule. (default 0.7; > 0 and <= 100)
        outer_momentum : float, optional
            Decay of the outer momentum, per outer step. (default 0.9; >= 0 and <= 0.999999999)
        wire : str, optional
            Number format in which pseudo-gradients and their sums are sent; sums are formed in fp32. (default "bf16";
            one of fp32, bf16, fp8, fp4, int2, int1)
        sum_wire : str, optional
            Number format in which sums are sent, with at least as many bits as wire; same: that of wire, where with
            int1, and with error_in = weights, each worker receives all contributions instead. (default "same"; one of
            same, fp32, bf16, fp8, fp4)
        error_feedback : bool, optional
            Keep what a pseudo-gradient loses in the number format, and send it with the next one. (default false)
        error_in : str, optional
            With error_feedback: where that is kept; in weights, a worker goes on training from what it has learned and
            not yet sent, and needs no buffer. (default "buffer"; one of buffer, weights)
        overlap : str, optional
            What workers do while sums are in flight: wait; take overlap_steps steps; take all steps up to the next
            outer one, from weights one outer step late; or the same with their own pseudo-gradient applied at once.
            (default "none"; one of none, inner, delayed, eager)
        overlap_steps : int, optional
            With overlap = inner: number of steps after which sums are applied. In steps. (default 1; >= 0 and <=
            1000000000)
        mix : float, optional
            With overlap = inner: share of the worker's own weights when it mixes them with the new shared ones; 0 takes
            the shared weights as they are. (default 0.5; >= 0 and <= 1)
        depth : int, optional
            With overlap = eager: number of outer steps that sums may be in flight. In outer steps. (default 1; >= 1 and
            <= 2)
        overlap_after : int, optional
            Number of outer steps at the start of the run that do not overlap: workers wait for their sums. In outer
            steps. (default 0; >= 0 and <= 1000000000)
        run : Run, optional
            The run to take part in, of `join` or `local`. None: it trains alone.
        folder : path, optional
            Alone: where checkpoints are, from which the same call goes on. None: there are none.
        steps : int, optional
            Alone: steps after which the run ends by itself. None: it does not.
        fields : mapping, optional
            Alone: further fields of the recipe, {"checkpoint.every": 100}.
        quiet : bool, optional
            Alone: show no messages.
        """
        own = {"sync_every": sync_every, "outer": outer, "outer_lr": outer_lr, "outer_momentum": outer_momentum,
               "wire": wire, "sum_wire": sum_wire, "error_feedback": error_feedback, "error_in": error_in,
               "overlap": overlap, "overlap_steps": overlap_steps, "mix": mix, "depth": depth,
               "overlap_after": overlap_after}
        super().__init__(params, own, inner=inner, lr=lr, weight_decay=weight_decay, clip=clip, optimizer=optimizer,
                         run=run, folder=folder, steps=steps, fields=fields, quiet=quiet)


class Streaming(Optimizer):
    """Trains the workers independently and steps along their mean pseudo-gradient, a few layers at a time, while
    training continues.

    The method is sync.method = "streaming" of recipes. Where a value is None, it is the run's, or the default.
    """

    _method = "streaming"

    def __init__(self, params: Params, *, inner: Optional[torch.optim.Optimizer] = None, lr: Optional[float] = None,
                 weight_decay: Optional[float] = None, clip: Optional[float] = None, optimizer: Optional[str] = None,
                 sync_every: Optional[int] = None, fragment_layers: Optional[int] = None, slices: Optional[int] = None,
                 outer: Optional[str] = None, outer_lr: Optional[float] = None, outer_momentum: Optional[float] = None,
                 wire: Optional[str] = None, sum_wire: Optional[str] = None, error_feedback: Optional[bool] = None,
                 error_in: Optional[str] = None, overlap: Optional[str] = None, overlap_steps: Optional[int] = None,
                 mix: Optional[float] = None, depth: Optional[int] = None, overlap_after: Optional[int] = None,
                 run: Optional[Run] = None, folder: Optional[Union[str, os.PathLike[str]]] = None,
                 steps: Optional[int] = None, fields: Optional[Mapping[str, Any]] = None, quiet: bool = True) -> None:
        """Begin to train, or take part in a run.

        Parameters
        ----------
        params : Module, or parameters or groups of them
            What is trained: a module, its parameters, or groups of them. Only a module says which tensors are
            embeddings, heads and norms (`tensors`).
        inner : torch.optim.Optimizer, optional
            The optimizer of the steps between exchanges, of the same parameters; in a run whose recipe says
            optim.method = "own". Otherwise the program's (`optimizer`) takes them.
        lr : float, optional
            Learning rate (optim.lr); an optimizer that trains alone follows schedulers.
        weight_decay : float, optional
            As optim.weight_decay; norms and biases have none.
        clip : float, optional
            Largest norm of a gradient (optim.clip); 0: no clipping.
        optimizer : str, optional
            The program's optimizer (optim.method).
        sync_every : int, optional
            Steps that a worker trains on its own before it sends its pseudo-gradient; all workers also send at the end
            of the run. In steps. (default 100; >= 1 and <= 1000000000)
        fragment_layers : int, optional
            Layers of a fragment; fragments are sent one after another, spread evenly over sync_every steps. In layers.
            (default 3; >= 1 and <= 10000)
        slices : int, optional
            Fragments that are each an equal part of every tensor, instead of layers; 0: none. In fragments. (default 0;
            >= 0 and <= 100000)
        outer : str, optional
            Optimizer that steps along the workers' mean pseudo-gradient; average takes the mean of their weights.
            (default "nesterov"; one of nesterov, momentum, sgd, average)
        outer_lr : float, optional
            Learning rate of the outer step; it follows no schedule. (default 0.7; > 0 and <= 100)
        outer_momentum : float, optional
            Decay of the outer momentum, per outer step. (default 0.9; >= 0 and <= 0.999999999)
        wire : str, optional
            Number format in which pseudo-gradients and their sums are sent; sums are formed in fp32. (default "fp4";
            one of fp32, bf16, fp8, fp4, int2, int1)
        sum_wire : str, optional
            Number format in which sums are sent, with at least as many bits as wire; same: that of wire, where with
            int1, and with error_in = weights, each worker receives all contributions instead. (default "same"; one of
            same, fp32, bf16, fp8, fp4)
        error_feedback : bool, optional
            Keep what a pseudo-gradient loses in the number format, and send it with the next one. (default false)
        error_in : str, optional
            With error_feedback: where that is kept; in weights, a worker goes on training from what it has learned and
            not yet sent, and needs no buffer. (default "buffer"; one of buffer, weights)
        overlap : str, optional
            What workers do while sums are in flight: wait; take overlap_steps steps; take all steps up to the next
            outer one, from weights one outer step late; or the same with their own pseudo-gradient applied at once.
            (default "inner"; one of none, inner, delayed, eager)
        overlap_steps : int, optional
            With overlap = inner: number of steps after which sums are applied. In steps. (default 1; >= 0 and <=
            1000000000)
        mix : float, optional
            With overlap = inner: share of the worker's own weights when it mixes them with the new shared ones; 0 takes
            the shared weights as they are. (default 0.5; >= 0 and <= 1)
        depth : int, optional
            With overlap = eager: number of outer steps that sums may be in flight. In outer steps. (default 1; >= 1 and
            <= 2)
        overlap_after : int, optional
            Number of outer steps at the start of the run that do not overlap: workers wait for their sums. In outer
            steps. (default 0; >= 0 and <= 1000000000)
        run : Run, optional
            The run to take part in, of `join` or `local`. None: it trains alone.
        folder : path, optional
            Alone: where checkpoints are, from which the same call goes on. None: there are none.
        steps : int, optional
            Alone: steps after which the run ends by itself. None: it does not.
        fields : mapping, optional
            Alone: further fields of the recipe, {"checkpoint.every": 100}.
        quiet : bool, optional
            Alone: show no messages.
        """
        own = {"sync_every": sync_every, "fragment_layers": fragment_layers, "slices": slices, "outer": outer,
               "outer_lr": outer_lr, "outer_momentum": outer_momentum, "wire": wire, "sum_wire": sum_wire,
               "error_feedback": error_feedback, "error_in": error_in, "overlap": overlap,
               "overlap_steps": overlap_steps, "mix": mix, "depth": depth, "overlap_after": overlap_after}
        super().__init__(params, own, inner=inner, lr=lr, weight_decay=weight_decay, clip=clip, optimizer=optimizer,
                         run=run, folder=folder, steps=steps, fields=fields, quiet=quiet)


class SparseLoCo(Optimizer):
    """Trains the workers independently and sends the largest values of their pseudo-gradients, in two bits each.

    The method is sync.method = "sparseloco" of recipes. Where a value is None, it is the run's, or the default.
    """

    _method = "sparseloco"

    def __init__(self, params: Params, *, inner: Optional[torch.optim.Optimizer] = None, lr: Optional[float] = None,
                 weight_decay: Optional[float] = None, clip: Optional[float] = None, optimizer: Optional[str] = None,
                 sync_every: Optional[int] = None, chunk: Optional[int] = None, k: Optional[int] = None,
                 decay: Optional[float] = None, aggregate: Optional[str] = None, sum_wire: Optional[str] = None,
                 sum_k: Optional[int] = None, outer: Optional[str] = None, outer_lr: Optional[float] = None,
                 outer_momentum: Optional[float] = None, run: Optional[Run] = None,
                 folder: Optional[Union[str, os.PathLike[str]]] = None, steps: Optional[int] = None,
                 fields: Optional[Mapping[str, Any]] = None, quiet: bool = True) -> None:
        """Begin to train, or take part in a run.

        Parameters
        ----------
        params : Module, or parameters or groups of them
            What is trained: a module, its parameters, or groups of them. Only a module says which tensors are
            embeddings, heads and norms (`tensors`).
        inner : torch.optim.Optimizer, optional
            The optimizer of the steps between exchanges, of the same parameters; in a run whose recipe says
            optim.method = "own". Otherwise the program's (`optimizer`) takes them.
        lr : float, optional
            Learning rate (optim.lr); an optimizer that trains alone follows schedulers.
        weight_decay : float, optional
            As optim.weight_decay; norms and biases have none.
        clip : float, optional
            Largest norm of a gradient (optim.clip); 0: no clipping.
        optimizer : str, optional
            The program's optimizer (optim.method).
        sync_every : int, optional
            Steps that a worker trains on its own before it sends part of its pseudo-gradient; all workers also send at
            the end of the run. In steps. (default 30; >= 1 and <= 1000000000)
        chunk : int, optional
            Number of consecutive values of a tensor from which the largest are sent. In values. (default 4096; >= 1 and
            <= 65536)
        k : int, optional
            Values sent of each full chunk; shorter chunks send their share. In values. (default 64; >= 1 and <= 65536)
        decay : float, optional
            Decay of what was not sent, per outer step. (default 0.95; >= 0 and <= 1)
        aggregate : str, optional
            Whether what the workers sent of a value is averaged over those that sent it or over all. (default
            "mean_of_senders"; one of mean_of_senders, mean_of_all)
        sum_wire : str, optional
            Number format of the mean of all payloads, which members then receive in place of the payloads where that is
            less; same: each receives every payload. (default "same"; one of same, fp32, bf16, int8, 2bit, 1bit)
        sum_k : int, optional
            With sum_wire: how many the mean keeps of a full tile or chunk, those of the largest sums, so that it is as
            large with any number of workers; 0: all that were sent. In values. (default 0; >= 0 and <= 65536)
        outer : str, optional
            Optimizer that steps along the workers' mean pseudo-gradient. (default "sgd"; one of sgd, nesterov,
            momentum)
        outer_lr : float, optional
            Learning rate of the outer step; it follows no schedule. (default 1.0; > 0 and <= 100)
        outer_momentum : float, optional
            Decay of the outer momentum, per outer step. (default 0.9; >= 0 and <= 0.999999999)
        run : Run, optional
            The run to take part in, of `join` or `local`. None: it trains alone.
        folder : path, optional
            Alone: where checkpoints are, from which the same call goes on. None: there are none.
        steps : int, optional
            Alone: steps after which the run ends by itself. None: it does not.
        fields : mapping, optional
            Alone: further fields of the recipe, {"checkpoint.every": 100}.
        quiet : bool, optional
            Alone: show no messages.
        """
        own = {"sync_every": sync_every, "chunk": chunk, "k": k, "decay": decay, "aggregate": aggregate,
               "sum_wire": sum_wire, "sum_k": sum_k, "outer": outer, "outer_lr": outer_lr,
               "outer_momentum": outer_momentum}
        super().__init__(params, own, inner=inner, lr=lr, weight_decay=weight_decay, clip=clip, optimizer=optimizer,
                         run=run, folder=folder, steps=steps, fields=fields, quiet=quiet)
