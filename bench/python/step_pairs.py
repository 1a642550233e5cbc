#!/usr/bin/env python3
"""What a step with an optimizer of thinwire.torch costs beyond the same step with torch.optim.AdamW, in pairs.

    export THINWIRE_BINARY=build/release/bin/thinwire PYTHONPATH=python
    .venv/bin/python bench/python/step_pairs.py [--width 2048 --layers 12 --rows 64]

Each round takes one step of every variant, forward and backward pass included, and the quotients are those of steps of the same
round, so that what else the machine does falls on both. Beside the time on the clock there is the processors' time of this
process and of the program, which a busy machine changes less. Rounds should be a multiple of DiLoCo's steps between exchanges,
whose cost is in the mean. The optimizers train alone, so nothing crosses a network.
"""

import argparse
import os
import statistics
import time

import torch

import thinwire.torch
from step_overhead import loss_of, network


def program_seconds(pid):
    """Seconds of processors that a program has used so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Variant:
    """A network with its optimizer."""

    def __init__(self, make, width, layers, rows):
        torch.manual_seed(0)
        self.model, self.batch = network(width, layers), torch.randn(rows, width)
        self.optimizer = make(self.model)
        run = getattr(self.optimizer, "run", None)
        self.program = run._peer._child.pid if run is not None else None

    def processor_seconds(self):
        return time.process_time() + (0 if self.program is None else program_seconds(self.program))

    def step(self):
        """Seconds on the clock, and of processors: of the whole step, and of what follows the backward pass."""
        begin, worked = time.perf_counter(), self.processor_seconds()
        loss_of(self.model, self.batch).backward()
        computed, had_worked = time.perf_counter(), self.processor_seconds()
        self.optimizer.step()
        self.optimizer.zero_grad()
        end, has_worked = time.perf_counter(), self.processor_seconds()
        return end - begin, end - computed, has_worked - worked, has_worked - had_worked


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def variants(clip, every):
    def diloco(model):
        return thinwire.torch.DiLoCo(model, inner=adamw(model), sync_every=every, wire="int1")

    def own_diloco(model):
        return thinwire.torch.DiLoCo(model, lr=1e-4, clip=clip, sync_every=every, wire="int1")

    def distro(model):
        return thinwire.torch.DisTrO(model, lr=1e-4, clip=clip)

    return {"AdamW": adamw, "AdamW again": adamw, "DiLoCo, inner AdamW": diloco, "DiLoCo": own_diloco, "DisTrO": distro}


def overhead(base, other, which):
    """Median of the quotients less 1 in percent, their quartiles, and the quotient of the means."""
    quotients = sorted(100 * (two[which] / one[which] - 1) for one, two in zip(base, other))
    low, middle, high = statistics.quantiles(quotients, n=4)
    mean = 100 * (sum(two[which] for two in other) / sum(one[which] for one in base) - 1)
    return f"{middle:+7.1f} ({low:+.1f} to {high:+.1f}; mean {mean:+.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--every", type=int, default=10, help="steps between DiLoCo's exchanges")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clip", type=float, default=0.0, help="optim.clip of the program's optimizers")
    parser.add_argument("--only", nargs="+", default=[], help="of what the table names, beside AdamW (default: all)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    made = {name: Variant(make, arguments.width, arguments.layers, arguments.rows)
            for name, make in variants(arguments.clip, arguments.every).items()
            if not arguments.only or name in ["AdamW", *arguments.only]}
    times = {name: [] for name in made}
    for one in made.values():
        one.step()
    for round_number in range(arguments.rounds):
        order = list(made) if round_number % 2 == 0 else list(reversed(made))
        for name in order:
            times[name].append(made[name].step())
    base = times["AdamW"]
    print(f"{arguments.layers * arguments.width**2:,} parameters, {arguments.rows} rows, {arguments.threads} threads, "
          f"{arguments.rounds} rounds; AdamW: {1000 * statistics.median(one[0] for one in base):.0f} ms a step, "
          f"{1000 * statistics.median(one[1] for one in base):.0f} ms of it after the backward pass; of processors "
          f"{1000 * statistics.median(one[2] for one in base):.0f} and {1000 * statistics.median(one[3] for one in base):.0f} ms")
    for name in list(made)[1:]:
        print(f"{name:20} whole step, %: clock {overhead(base, times[name], 0)}, processors {overhead(base, times[name], 2)}")
        print(f"{'':20} step() alone, %: clock {overhead(base, times[name], 1)}, processors {overhead(base, times[name], 3)}")
    for one in made.values():
        if one.program is not None:
            one.optimizer.close()


if __name__ == "__main__":
    main()
