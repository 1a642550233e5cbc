"""Four workers with a network for digits, each with its own share of the samples, on one machine: what DiLoCo or DisTrO
does to the accuracy, and how many bytes it takes. No data is downloaded: the digits are drawn, with noise.

    python train.py [METHOD …] [TABLE.FIELD=VALUE …]
"""

import sys

import torch
from torch import nn

import thinwire.torch

GLYPHS = """
#### ..#. #### #### #..# #### #### #### #### ####
#..# .##. ...# ...# #..# #... #... ...# #..# #..#
#..# ..#. #### #### #### #### #### ..#. #### ####
#..# ..#. #... ...# ...# ...# #..# ..#. #..# ...#
#### .### #### #### ...# #### #### ..#. #### ####
"""


def templates() -> torch.Tensor:
    """Each digit at each place of an image of 8 x 8: [10, 4, 64]."""
    lines = [line.split() for line in GLYPHS.split("\n") if line]
    images = torch.zeros(10, 2, 2, 8, 8)
    for digit in range(10):
        glyph = torch.tensor([[character == "#" for character in line[digit]] for line in lines])
        for down in range(2):
            for right in range(2):
                images[digit, down, right, down:down + 5, right:right + 4] = glyph
    return images.view(10, 4, 64)


def digits(rows: torch.Tensor, images: torch.Tensor = templates()) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and what they show: each row is a digit somewhere, brighter or darker, and noisy."""
    random = (rows * 2654435761) % 2**32
    labels, places, brightness = random // 7 % 10, random // 77 % 4, 1 + random // 7777 % 3
    noise = torch.randn(len(rows), 64, generator=torch.Generator().manual_seed(int(rows[0])))
    return images[labels, places] * brightness[:, None] / 2 + 0.2 * noise, labels


def main() -> None:
    methods = [word for word in sys.argv[1:] if "=" not in word] or ["allreduce", "distro", "diloco", "sparseloco"]
    changes = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    held_out, right = digits(torch.arange(10**6, 10**6 + 1000))
    for method in methods:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
        recipe = thinwire.torch.recipe(model, {
            "run.dir": f"runs/digits-{method}", "sync.method": method, "train.workers": 4, "train.batch": 128,
            "train.steps": 300, "optim.lr": 3e-3, "schedule.warmup": 10, "log.tensorboard": False,
            "diloco.sync_every": 25, "sparseloco.sync_every": 25, **changes})
        with thinwire.torch.local(model, recipe, restart=True, quiet=True) as run:
            for step in run:
                images, labels = digits(step.rows)
                loss = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                run.step(loss)
        with torch.no_grad():
            accuracy = (model(held_out).argmax(-1) == right).double().mean()
        assert run.result is not None
        print(f"{method:10}  accuracy {float(accuracy):.3f}, {run.result.bytes_sent_per_step:9.0f} B a step and worker")


if __name__ == "__main__":
    main()
