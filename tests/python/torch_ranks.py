"""torch_ranks.py JSON: a member of several processes, which are forked from this one, or started by torchrun.

The JSON is {"ranks": 2, "cases": […]}, and each case says in "kind" how the module of torch_model is shared: "plain", "ddp"
or "fsdp"; and either the fields of a local run ("recipe") or where to join one ("address", "token", "folder"). With "inner" a
DiLoCo with an optimizer of PyTorch's own takes the steps. "fails": [rank, step, how] lets a process, or all of them (-1), end
in a step: "raise", "kill" or "break", or at the end: "load". With "idle" the
module has a parameter that no loss depends on. The kind "leaves" is two processes without a run, one of which leaves while the
other has something to tell. Each process prints a line of JSON for each case: its rank, the steps that it was in,
the digest and a hash of its weights, and what went wrong, which ends it.
"""

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile

import torch
import torch._dynamo  # once, not in each process
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch_model import loss_of, small_model

import thinwire.torch
from thinwire._torch_ranks import Ranks


def shared(model, kind):
    """The module as a loop would have it, and the group that `join` and `local` are given."""
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model), None
    if kind == "fsdp":
        return sharded(model), None
    return model, dist.group.WORLD


def sharded(model):
    model.scale = torch.nn.Parameter(model.scale.detach().view(1))  # it takes no tensors without sides
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (model.conv, model.inner):
        fully_shard(part, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def begin(model, group, asked):
    if "recipe" in asked:
        return thinwire.torch.local(model, asked["recipe"], quiet=True, group=group)
    return thinwire.torch.join(model, asked["address"], asked["token"], asked["folder"], {"train.threads": 1}, quiet=True,
                               group=group)


def train(rank, asked, report):
    if asked["kind"] == "leaves":
        leave_or_hear(rank)
        return
    model, group = shared(small_model(seed=0 if asked["kind"] == "fsdp" else rank), asked["kind"])
    fails_in, fails_at, how = asked.get("fails", [0, -1, ""])
    if how == "load" and rank == fails_in:
        thinwire._torch_run.load = damaged
    if asked.get("idle"):
        model.idle = torch.nn.Parameter(torch.ones(8))
    run = begin(model, group, asked)
    optimizer = None
    if asked.get("inner"):
        inner = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=0.02)
        optimizer = thinwire.torch.DiLoCo(model, inner=inner, run=run)
    with optimizer or run:
        for step in run:
            report.setdefault("first", step.number)
            if step.number == fails_at and fails_in in (rank, -1):
                if how == "break":
                    break
                end(how)
            loss = loss_of(model, step)
            loss.backward()
            if optimizer is None:
                run.step(loss)
            else:
                optimizer.step(loss=loss)
                optimizer.zero_grad()
    report["loss"] = run.report.loss
    report["digest"] = run.result.digest if run.result else ""
    report["idle"] = model.idle.tolist() if asked.get("idle") else []
    report["hash"], report["weights"] = weights_of(model)


def leave_or_hear(rank):
    ranks = Ranks(small_model(), dist.group.WORLD, sharded=False, averaged=False)
    if rank == 1:
        ranks.all_leave()
    ranks.tell("what the run wants")


def damaged(folder):
    raise thinwire.Error(f"{folder} is damaged")


def end(how):
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise LookupError("no such row")


def weights_of(model):
    values = [one.full_tensor() if hasattr(one, "full_tensor") else one for one in model.parameters() if one.requires_grad]
    flat = torch.cat([one.detach().flatten() for one in values])
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest(), flat.tolist()


def work(rank, asked, **group):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, **group)
    for case in asked["cases"]:
        report = {"rank": rank}
        try:
            train(rank, case, report)
        except Exception as error:
            report["error"] = f"{type(error).__name__}: {error}"
        os.write(1, (json.dumps(report) + "\n").encode())  # at once, beside the others
        if "error" in report:
            os._exit(1)
    dist.destroy_process_group()


def main():
    asked = json.loads(sys.argv[1])
    if "RANK" in os.environ:
        work(int(os.environ["RANK"]), asked)
        return
    with tempfile.TemporaryDirectory() as folder:
        forked = multiprocessing.get_context("fork")
        group = {"init_method": f"file://{folder}/store", "world_size": asked["ranks"]}
        ranks = [forked.Process(target=work, args=(rank, asked), kwargs=group) for rank in range(asked["ranks"])]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()


if __name__ == "__main__":
    main()
