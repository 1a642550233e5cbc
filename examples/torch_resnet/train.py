"""A residual network (He et al. 2015, arXiv 1512.03385) with BatchNorm for digits of 8 x 8 pixels, trained by four workers on one
machine of whom each has digits of its own: none of them ever sees all ten.

    python train.py [METHOD …] [TABLE.FIELD=VALUE …]

The means and variances of BatchNorm are buffers, which a run leaves alone: here they are those of all digits that went through
the module, whichever worker's they were; on machines of their own, members would each have others. What belongs to the weights
on which the workers agree is measured at the end, by a pass over the images that trains nothing (update_bn).
"""

import runpy
import sys
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import update_bn

import thinwire.torch

CHANNELS, WORKERS = 16, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.change = nn.Sequential(
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS), nn.ReLU(),
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(x + self.change(x))


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS), nn.ReLU(), Block(), Block(),
                         nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * CHANNELS, 10))


def drawn_digits() -> tuple[torch.Tensor, torch.Tensor]:
    """The example that draws digits, so that nothing is downloaded."""
    drawn = runpy.run_path(str(Path(__file__).parents[1] / "torch_digits/train.py"))
    images, labels = drawn["digits"](torch.arange(4000))
    return images.view(-1, 1, 8, 8), labels


def of_worker(labels: torch.Tensor, worker: int) -> torch.Tensor:
    """The images that a worker has: of seven of the ten digits."""
    first = 10 * worker // WORKERS
    return torch.nonzero((labels - first) % 10 < 7).flatten()


def main() -> None:
    methods = [word for word in sys.argv[1:] if "=" not in word] or ["allreduce", "diloco", "distro"]
    changes = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    images, labels = drawn_digits()
    held_out, right = images[3000:], labels[3000:]
    images, labels = images[:3000], labels[:3000]
    own = [of_worker(labels, worker) for worker in range(WORKERS)]
    for method in methods:
        torch.manual_seed(1)
        model = network()
        recipe = thinwire.torch.recipe(model, {
            "run.dir": f"runs/resnet-{method}", "sync.method": method, "train.workers": WORKERS, "train.batch": 128,
            "train.steps": 200, "optim.lr": 3e-3, "schedule.warmup": 10, "log.tensorboard": False, "diloco.sync_every": 10,
            **changes})
        with thinwire.torch.local(model, recipe, restart=True, quiet=True) as run:
            for step in run:
                rows = own[step.worker][step.rows % len(own[step.worker])]
                loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
                loss.backward()
                run.step(loss)
        update_bn(images.split(250), model)
        model.eval()
        with torch.no_grad():
            accuracy = (model(held_out).argmax(-1) == right).double().mean()
        assert run.result is not None
        print(f"{method:10}  accuracy {float(accuracy):.3f}, {run.result.bytes_sent_per_step:9.0f} B a step and worker")


if __name__ == "__main__":
    main()
