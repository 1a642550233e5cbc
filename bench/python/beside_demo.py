#!/usr/bin/env python3
"""Thinwire's DisTrO beside DeMo on the same gradients: three workers, k 32, a step's time, bytes and updates.

    export OMP_NUM_THREADS=1 THINWIRE_BINARY=build/release/bin/thinwire PYTHONPATH=python
    .venv/bin/python bench/python/beside_demo.py [--layers 6 --rounds 5] [--demo demo.py]

The other side is demo_reference.py, and with --demo the optimizer of github.com/bloc97/DeMo, which is not on PyPI, from a copy
of its file (needs einops): its three workers are threads that hand their payloads to each other. No side has a network or a
model to compute. Sides take turns; a step is that of all three workers, each of which encodes its gradient and applies the
payloads of all. The time is that of processors, of Python and Thinwire's program together, and on the clock, both for a
worker. Compared is the sign that each weight moves by, of those whose decoded mean in the reference is more than 1e-5 of the
largest of its tensor.
"""

import argparse
import importlib.util
import statistics
import tempfile
import threading
import time
from pathlib import Path

import torch
from torch import nn

import demo_reference  # and where the other programs of bench are
import pytorch_distro
import thinwire.torch
from step_pairs import program_seconds

WORKERS, RATE = 3, 1e-3


class Thinwire:
    """A run of three workers in one program."""

    def __init__(self, shapes, folder, **more):
        self._model = nn.ParameterList([torch.zeros(shape) for shape in shapes])
        recipe = thinwire.torch.recipe(self._model, {
            **demo_reference.SETTINGS, "train.workers": WORKERS, "train.batch": WORKERS, "train.steps": 100000, "optim.lr": RATE,
            "schedule.kind": "constant", "schedule.warmup": 0, "train.threads": 1, "run.dir": str(folder),
            "log.tensorboard": False, "checkpoint.minutes": 0, **more})
        self._run = thinwire.torch.local(self._model, recipe, quiet=True)
        self._run.__enter__()
        self._step = next(self._run)

    def step(self, gradients):
        for _ in range(WORKERS):  # in whatever order they are ready
            for one, gradient in zip(self._model, gradients[self._step.worker]):
                one.grad = gradient
            self._run.step(0.0)
            self._step = next(self._run)

    def processor_seconds(self):
        return time.process_time() + program_seconds(self._run._peer._child.pid)

    def weights(self):
        return [one.detach() for one in self._model]

    @property
    def bytes(self):
        return self._run.report.bytes_sent

    def close(self):
        self._run._abandon()


class Reference:
    """demo_reference.py, one worker after the other."""

    def __init__(self, shapes):
        self._shapes = shapes
        self._workers = [demo_reference.Worker(shapes) for _ in range(WORKERS)]
        self.bytes = self._workers[0].bytes
        self.decoded = []

    def step(self, gradients):
        payloads = [one.encode(own, RATE) for one, own in zip(self._workers, gradients)]
        for one in self._workers:
            self.decoded = one.apply(payloads, RATE)

    processor_seconds = staticmethod(time.process_time)

    def close(self):
        pass


class Published:
    """The optimizer of demo.py, a thread for each worker."""

    def __init__(self, shapes, source):
        spec = importlib.util.spec_from_file_location("demo", source)
        demo = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(demo)
        self._meet, self._sent = threading.Barrier(WORKERS), [None] * WORKERS
        self._parameters = [[nn.Parameter(torch.zeros(shape)) for shape in shapes] for _ in range(WORKERS)]
        self._optimizers = [demo.DeMo(own, lr=RATE) for own in self._parameters]
        for worker, optimizer in enumerate(self._optimizers):
            optimizer._demo_all_gather = lambda slots, values, worker=worker: self._gather(worker, slots, values)

    def _gather(self, worker, slots, values):
        self._sent[worker] = slots, values
        self._meet.wait()
        gathered = list(self._sent)
        self._meet.wait()
        return [slots for slots, _ in gathered], [values for _, values in gathered]

    def step(self, gradients):
        for own, given in zip(self._parameters, gradients):
            for one, gradient in zip(own, given):
                one.grad = gradient.clone()  # it is overwritten
        threads = [threading.Thread(target=one.step) for one in self._optimizers]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    processor_seconds = staticmethod(time.process_time)

    def weights(self):
        return [one.detach() for one in self._parameters[0]]

    @property
    def bytes(self):
        return self._optimizers[0].data_transmit

    def close(self):
        pass


def differing(before, after, decoded):
    """How many weights did not move by the sign that the reference decodes, and of how many."""
    wrong = certain = 0
    for old, new, update in zip(before, after, decoded):
        update = update.view(old.shape)
        sure = update.abs() > 1e-5 * update.abs().max()
        certain += int(sure.sum())
        wrong += int((torch.round((old - new) / RATE)[sure] != update.sign()[sure]).sum())
    return wrong, certain


def measured(side, gradients):
    begin, worked = time.perf_counter(), side.processor_seconds()
    side.step(gradients)
    return (side.processor_seconds() - worked) / WORKERS, (time.perf_counter() - begin) / WORKERS


def print_table(sides, times, compared):
    print("| | processors, ms a step and worker (least) | clock, ms | times faster | bytes a worker sends | signs that differ |")
    print("|---|---|---|---|---|---|")
    for name, side in sides.items():
        processors, clock = zip(*times[name])
        faster = statistics.median(other / own for (own, _), (other, _) in zip(times[name], times["reference"]))
        wrong = "of {1:,}: {0:,}".format(*compared[name]) if name in compared else ""
        print(f"| {name} | {1000 * statistics.median(processors):.0f} ({1000 * min(processors):.0f}) | "
              f"{1000 * statistics.median(clock):.0f} | {faster:.1f} | {side.bytes:,.0f} | {wrong} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=6, help="of a Llama of width 512 (6: 51.7 M parameters)")
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--demo", help="demo.py of bloc97/DeMo")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    shapes = pytorch_distro.llama_shapes(arguments.vocabulary, 512, arguments.layers, 1376)
    with tempfile.TemporaryDirectory() as folder:
        sides = {"Thinwire, DeMo's settings": Thinwire(shapes, Path(folder) / "exact"),
                 "Thinwire, 1-bit values": Thinwire(shapes, Path(folder) / "usual", **{"distro.values": "1bit"}),
                 "reference": Reference(shapes)}
        if arguments.demo:
            sides["demo.py"] = Published(shapes, arguments.demo)
        exact = [name for name in sides if name in ("Thinwire, DeMo's settings", "demo.py")]
        times, compared = {name: [] for name in sides}, {name: (0, 0) for name in exact}
        for round_number in range(arguments.rounds + 1):
            torch.manual_seed(round_number)
            gradients = [[torch.randn(shape) for shape in shapes] for _ in range(WORKERS)]
            before = {name: [one.clone() for one in sides[name].weights()] for name in exact}
            for name in sorted(sides, reverse=round_number % 2 == 1):
                taken = measured(sides[name], gradients)
                times[name] += [taken] if round_number > 0 else []  # memory is there and warm afterwards
            for name in exact:
                found = differing(before[name], sides[name].weights(), sides["reference"].decoded)
                compared[name] = tuple(map(sum, zip(compared[name], found)))
        print_table(sides, times, compared)
        for side in sides.values():
            side.close()


if __name__ == "__main__":
    main()
