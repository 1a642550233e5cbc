"""Training steps of a Llama in eager PyTorch, in a process of their own, and their peak resident memory.

    .venv/bin/python bench/pytorch_memory.py JOB

JOB is one of beside_pytorch.py's as JSON. Weights and tokens are random, gradients are not clipped. Prints one JSON
line: the largest resident memory of the process (VmHWM) once PyTorch is imported and after the steps, in bytes, the
losses in nats, and the seconds of every step.
"""

import contextlib
import functools
import json
import sys
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import pytorch_llama
import pytorch_low_rank

ALPHA = 16  # of LoRA


def peak_bytes():
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM:"))


class Recomputed(nn.Module):
    """A block of which only the input is kept for the backward pass."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *inputs):
        return checkpoint(self.block, *inputs, use_reentrant=False)


def loss_in_chunks(model, chunk, tokens):
    """The model's loss, the logits of `chunk` tokens at a time, which the backward pass computes again."""
    states, targets = model.states(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
    chunks = zip(states.split(chunk), targets.split(chunk))
    return sum(len(some) / len(targets) * checkpoint(model.loss_of, x, some, use_reentrant=False)
               for x, some in chunks)


def make_optimizers(job, weights, pieces):
    """For these weights; pieces: of each weight that GaLore projects."""
    lr, optimizers = job["lr"], []
    low = [w for w in weights if job["optimizer"] == "galore" and w in pieces]
    if low:
        groups = [{"params": [w], "pieces": pieces[w]} for w in low]
        optimizers.append(pytorch_low_rank.GaLore(groups, job["rank"], lr))
    whole = [w for w in weights if w not in set(low)]
    if whole:
        optimizers.append(torch.optim.AdamW(whole, lr=lr, betas=(0.9, 0.999), weight_decay=0, fused=True))
    return optimizers


def apply(optimizers):
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


class Steps:
    def __init__(self, job):
        self.model = pytorch_llama.Llama(pytorch_llama.Shape(**job["shape"]), job["sequence"])
        if job["weights"] == "bf16":
            for weight in self.model.parameters():
                weight.data = weight.data.bfloat16()
        pieces = {getattr(block, name).weight: count for block in self.model.blocks
                  for name, count in pytorch_low_rank.PIECES.items()}
        if job["adapter"] == "lora":
            pytorch_low_rank.adapt(self.model, job["rank"], ALPHA)
        self.loss = self.model
        if job["recompute"]:
            self.loss = functools.partial(loss_in_chunks, self.model, job["chunk"])
            self.model.blocks = nn.ModuleList(Recomputed(block) for block in self.model.blocks)
        self.autocast = torch.autocast("cpu", torch.bfloat16) if job["precision"] == "bf16" else (
            contextlib.nullcontext())
        weights = [w for w in self.model.parameters() if w.requires_grad]
        self.optimizers = []
        if job["update"] == "layer":
            for weight in weights:
                own = make_optimizers(job, [weight], pieces)
                weight.register_post_accumulate_grad_hook(lambda _, own=own: apply(own))
        else:
            self.optimizers = make_optimizers(job, weights, pieces)

    def take(self, tokens):
        """One step on tokens [rows, sequence + 1]; returns the loss before it."""
        with self.autocast:
            loss = self.loss(tokens)
        loss.backward()
        apply(self.optimizers)
        return loss.item()


def main():
    job = json.loads(sys.argv[1])
    imported = peak_bytes()
    torch.manual_seed(1)
    torch.set_num_threads(job["threads"])
    steps, losses, seconds = Steps(job), [], []
    for _ in range(job["steps"]):
        tokens = torch.randint(job["shape"]["vocab"], (job["rows"], job["sequence"] + 1))
        start = time.perf_counter()
        losses.append(steps.take(tokens))
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"imported_bytes": imported, "peak_bytes": peak_bytes(), "losses": losses,
                      "step_seconds": seconds}))


if __name__ == "__main__":
    sys.exit(main())
