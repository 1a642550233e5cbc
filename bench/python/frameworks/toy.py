"""What all frameworks train here: a network for drawn digits, the batches of a worker, and a note of each step."""

import importlib.util
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[3]
BATCH, RATE, EVERY = 32, 3e-3, 20  # samples of a worker and step, learning rate, steps between exchanges

torch.set_num_threads(1)


def digits():
    """The function of the example that draws digits: of rows, [rows, 64], and what they show."""
    spec = importlib.util.spec_from_file_location("drawn", ROOT / "examples/torch_digits/train.py")
    drawn = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "python"))
    spec.loader.exec_module(drawn)
    return drawn.digits


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class Batches:
    """The samples of one worker of four, and a line in a file for each step that it has taken."""

    def __init__(self, worker, folder):
        self._digits, self._worker = digits(), worker
        self._notes = open(Path(folder) / f"worker-{worker}", "w", buffering=1)

    def of(self, step):
        """Images and labels, whatever this worker's step is."""
        first = (step * 4 + self._worker) * BATCH
        return self._digits(torch.arange(first, first + BATCH))

    def note(self, step, loss):
        self._notes.write(f"{step} {time.time():.6f} {float(loss):.5f} {os.getpid()}\n")


def loss_of(model, images, labels):
    return nn.functional.cross_entropy(model(images), labels)


def write_address(folder, text):
    """For the workers, who wait for it."""
    path = Path(folder) / "address"
    path.with_suffix(".part").write_text(text)
    path.with_suffix(".part").rename(path)


def read_address(folder):
    path = Path(folder) / "address"
    while not path.exists():
        time.sleep(0.05)
    return path.read_text()
