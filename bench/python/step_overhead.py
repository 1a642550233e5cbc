#!/usr/bin/env python3
"""What run.step() of the Python package costs beside torch.optim.AdamW.step(), for a network of a given size.

    export THINWIRE_BINARY=build/release/bin/thinwire PYTHONPATH=python
    .venv/bin/python bench/python/step_overhead.py [--widths 1024 2048]

Variants take turns, a few steps each, for several rounds, so that what else the machine does falls on all alike. A table
says for each the median, least and largest time of the optimizer's part of a step, and of the whole step. The runs that
are not in turn wait and use no processor. The last lines are the time of a step whose model is a single number, which
is the price of the message to and fro, and how fast memory is copied here, which bounds everything else.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

import thinwire.torch

METHODS = {"run: allreduce": ["allreduce", {}], "run: DiLoCo": ["diloco", {"diloco.sync_every": 10}],
           "run: DisTrO": ["distro", {}]}


class Optimizer:
    """A loop with an optimizer of PyTorch."""

    def __init__(self, model, batch, **options):
        self.model, self.batch = model, batch
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, **options)

    def step(self):
        begin = time.perf_counter()
        loss_of(self.model, self.batch).backward()
        computed = time.perf_counter()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return computed - begin, time.perf_counter() - computed


class Run:
    """The same loop in a run of one worker."""

    def __init__(self, model, batch, folder, threads, method, fields):
        recipe = thinwire.torch.recipe(model, {
            "run.dir": str(folder / method), "sync.method": method, "train.steps": 100000, "train.batch": 1, "optim.lr": 1e-4,
            "optim.clip": 0, "train.threads": threads, "log.tensorboard": False, "checkpoint.minutes": 0,
            "schedule.kind": "constant", **fields})
        self.model, self.batch = model, batch
        self.run = thinwire.torch.local(model, recipe, quiet=True)
        self.run.__enter__()

    def step(self):
        next(self.run)
        begin = time.perf_counter()
        loss = loss_of(self.model, self.batch)
        loss.backward()
        computed = time.perf_counter()
        self.run.step(loss)
        return computed - begin, time.perf_counter() - computed


def loss_of(model, batch):
    return model(batch).square().mean()


def network(width, layers):
    return nn.Sequential(*(layer for _ in range(layers) for layer in (nn.Linear(width, width, bias=False), nn.Tanh())))


def measure(variants, rounds, steps):
    """Lists of (computing, optimizing) seconds by variant."""
    times = {name: [] for name in variants}
    for one in variants.values():
        for _ in range(2):
            one.step()
    for _ in range(rounds):
        for name, one in variants.items():
            times[name] += [one.step() for _ in range(steps)]
    return times


def spread(values):
    milliseconds = [1000 * value for value in values]
    return f"{statistics.median(milliseconds):8.2f} ({min(milliseconds):.2f}–{max(milliseconds):.2f})"


def show(title, times):
    print(f"\n{title}\n{'':22}{'optimizer, ms':28}whole step, ms")
    for name, both in times.items():
        print(f"{name:22}{spread([last for _, last in both]):28}{spread([sum(one) for one in both])}", flush=True)


def copy_rate():
    """Bytes of float32 copied in a second, read and written counted once each."""
    source, target = torch.zeros(1 << 25), torch.zeros(1 << 25)
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        target.copy_(source)
        best = min(best, time.perf_counter() - begin)
    return 2 * source.nbytes / best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="*", default=[1024, 2048])
    parser.add_argument("--layers", type=int, nargs="*", default=[10, 12])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="steps of a variant in each round")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        for width, layers in [(1, 1), *zip(arguments.widths, arguments.layers)]:
            variants = {}
            for name, options in (("AdamW", {}), ("AdamW, fused", {"fused": True})):
                variants[name] = Optimizer(network(width, layers), torch.randn(8, width), **options)
            for name, (method, fields) in METHODS.items():
                if width == 1 and method != "allreduce":
                    continue
                variants[name] = Run(network(width, layers), torch.randn(8, width), Path(folder) / str(width),
                                     arguments.threads, method, fields)
            times = measure(variants, arguments.rounds, arguments.steps if width > 1 else 100)
            show(f"{layers * width * width:,} parameters, {arguments.threads} threads", times)
            del variants
    print(f"\nmemory: {copy_rate() / 1e9:.1f} GB/s copied")


if __name__ == "__main__":
    main()
