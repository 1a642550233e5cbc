"""A small diffusion model (DDPM, Ho et al. 2020, arXiv 2006.11239) of digits of 8 x 8 pixels, trained by four workers on one
machine: AdamW with all-reduce beside DisTrO and Streaming DiLoCo in one bit, at 800 times fewer bytes or so.

    python train.py [adamw | distro | one_bit …] [--images FILE.png] [TABLE.FIELD=VALUE …]

Prints losses on digits that were held out, and writes a picture with a row of samples for each method. The digits are those of
scikit-learn (pip install scikit-learn); without it they are drawn.
"""

import argparse
import math
import runpy
import struct
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

import thinwire.torch

WIDTH, NOISE_STEPS = 128, 200
METHODS = {
    "adamw": {"sync.method": "allreduce", "optim.lr": 8e-3},
    "distro": {"sync.method": "distro", "distro.k": 3, "optim.lr": 2e-3},
    "one_bit": {"sync.method": "streaming", "streaming.wire": "int1", "streaming.error_feedback": True,
                "streaming.error_in": "weights", "streaming.overlap": "none", "streaming.sync_every": 60,
                "streaming.slices": 60, "streaming.outer_momentum": 0.7, "streaming.outer_lr": 0.7,
                "optim.method": "muon", "optim.lr": 4e-3},
}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(nn.functional.silu(self.widen(self.norm(x))))


class Denoiser(nn.Module):
    """Says which noise an image has: x is [rows, 64], and t [rows] how far it is on its way to nothing but noise."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.time = nn.Linear(64, WIDTH), nn.Linear(64, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angles = t[:, None] * torch.exp(torch.arange(32) * (-math.log(10000) / 32))
        waves = torch.cat([angles.sin(), angles.cos()], -1)
        return self.head(self.norm(self.blocks(self.image(x) + self.time(waves))))


def kept_shares() -> torch.Tensor:
    """How much of an image's variance is left after each step of the noise: the cosine schedule."""
    t = (torch.arange(NOISE_STEPS + 1) / NOISE_STEPS + 0.008) / 1.008
    kept = torch.cos(t * math.pi / 2) ** 2
    return (kept[1:] / kept[0]).clamp(min=1e-4)


KEPT = kept_shares()


def noisy_loss(model: nn.Module, images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Mean squared error of the noise that the model sees in images that are more or less noisy."""
    t = torch.randint(NOISE_STEPS, (len(images),), generator=random)
    noise = torch.randn(images.shape, generator=random)
    kept = KEPT[t, None]
    return (model(kept.sqrt() * images + (1 - kept).sqrt() * noise, t) - noise).square().mean()


@torch.no_grad()
def samples(model: nn.Module, count: int, random: torch.Generator) -> torch.Tensor:
    """New images: noise that the model takes away bit by bit."""
    x = torch.randn(count, 64, generator=random)
    for t in reversed(range(NOISE_STEPS)):
        before = KEPT[t - 1] if t else torch.tensor(1.0)
        noise = model(x, torch.full((count,), t))
        image = ((x - (1 - KEPT[t]).sqrt() * noise) / KEPT[t].sqrt()).clamp(-1, 1)
        step = 1 - KEPT[t] / before
        x = (before.sqrt() * step * image + (1 - step).sqrt() * (1 - before) * x) / (1 - KEPT[t])
        if t:
            x += ((1 - before) / (1 - KEPT[t]) * step).sqrt() * torch.randn(count, 64, generator=random)
    return x


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Images to train on and to test with, [number, 64] from -1 to 1, in an order that is always the same."""
    try:
        from sklearn.datasets import load_digits

        images = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1
    except ImportError:
        print("scikit-learn is not installed: digits are drawn instead of its scanned ones")
        drawn = runpy.run_path(str(Path(__file__).parents[1] / "torch_digits/train.py"))
        images = (drawn["digits"](torch.arange(1797))[0] - 0.5).clamp(-1, 1)
    images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
    return images[:1500], images[1500:]


def held_out_loss(model: nn.Module, images: torch.Tensor) -> float:
    with torch.no_grad():
        return float(noisy_loss(model, images.repeat(40, 1), torch.Generator().manual_seed(1)))


def train(method: str, changes: dict[str, str], folder: str, images: torch.Tensor,
          held_out: torch.Tensor) -> tuple[nn.Module, float, float]:
    """The trained model, its loss on images that were held out, and how many bytes a worker sent in a step."""
    recipe_fields: dict[str, Any] = {
        "run.dir": f"{folder}/diffusion-{method}", "train.workers": 4, "train.batch": 128, "train.steps": 2000,
        "schedule.warmup": 100, "log.tensorboard": False, **METHODS[method], **changes}
    torch.manual_seed(int(recipe_fields.get("run.seed", 1)))
    model = Denoiser()
    with thinwire.torch.local(model, thinwire.torch.recipe(model, recipe_fields), restart=True, quiet=True) as run:
        for step in run:
            random = torch.Generator().manual_seed(int(step.rows[0]))
            loss = noisy_loss(model, images[torch.randint(len(images), (len(step.rows),), generator=random)], random)
            loss.backward()
            run.step(loss)
            if step.worker == 0 and (step.number + 1) % 500 == 0:
                print(f"{method}, step {step.number + 1}: loss {run.report.loss if run.report else math.nan:.4f}", flush=True)
    assert run.result is not None
    return model, held_out_loss(model, held_out), run.result.bytes_sent_per_step


def write_picture(file: str, rows: list[torch.Tensor], scale: int = 4) -> None:
    """Rows of images of 8 x 8 pixels as a PNG in shades of grey."""
    pixels = torch.stack(rows).view(len(rows), -1, 8, 8).clamp(-1, 1)
    pixels = nn.functional.pad(((1 - pixels) * 127.5).to(torch.uint8), (1, 1, 1, 1), value=255)
    lines = pixels.permute(0, 2, 1, 3).reshape(len(rows) * 10, -1)
    lines = lines.repeat_interleave(scale, 0).repeat_interleave(scale, 1)
    height, width = lines.shape
    body = b"".join(b"\0" + bytes(line.tolist()) for line in lines)

    def part(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    Path(file).write_bytes(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(body)) + part(b"IEND", b""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="METHOD or TABLE.FIELD=VALUE")
    parser.add_argument("--images", default="diffusion.png", help="where to write the picture (default: %(default)s)")
    arguments = parser.parse_intermixed_args()
    changes = dict(word.split("=", 1) for word in arguments.words if "=" in word)
    methods = [word for word in arguments.words if "=" not in word] or list(METHODS)
    images, held_out = digits()
    rows = [held_out[:16]]
    for method in methods:
        model, loss, sent = train(method, changes, "runs", images, held_out)
        gradients = 2 * sum(one.numel() for one in model.parameters())
        print(f"{method:8}  held-out loss {loss:.4f}, {sent:9.0f} B a step and worker, {gradients / sent:6.1f} times fewer than "
              "gradients in bf16", flush=True)
        rows.append(samples(model, 16, torch.Generator().manual_seed(2)))
    write_picture(arguments.images, rows)


if __name__ == "__main__":
    main()
