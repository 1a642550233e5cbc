"""A training loop as nanoGPT has it: a small transformer learns to continue a text, character by character.

    python train.py TEXT                          alone, in runs/torch_loop
    python train.py TEXT ADDRESS FOLDER     a member of a run that `python train.py TEXT serve` serves, whose token
                                            THINWIRE_TOKEN in the environment is

The lines marked with # <- are all that Thinwire changed in the loop: AdamW, its schedule, clipping and the choice of
batches are gone. More fields of the recipe may follow as table.field=value.
"""

import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

import thinwire.torch

WIDTH, LAYERS, HEADS, CONTEXT = 64, 2, 4, 64


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.project = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        q, k, v = self.attend(self.norm_1(x)).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, characters, bias=False)
        self.lm_head.weight = self.characters.weight  # tied
        for embedding in (self.characters, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.characters(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.lm_head(self.norm(self.blocks(x)))


def read(file: str) -> tuple[torch.Tensor, list[str]]:
    """The text as numbers, and its characters; members of a run need the same text, to agree on these."""
    text = open(file, encoding="utf-8").read()
    characters = sorted(set(text))
    numbers = {character: number for number, character in enumerate(characters)}
    return torch.tensor([numbers[character] for character in text]), characters


def batch_of(data: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the rows of a run stand for here: places of the text, far from each other."""
    begin = rows * 7919 % (len(data) - CONTEXT)
    windows = data[begin[:, None] + torch.arange(CONTEXT + 1)]
    return windows[:, :-1], windows[:, 1:]


def train(model: Transformer, data: torch.Tensor, run: thinwire.torch.Run) -> None:
    with run:                                                                                   # <-
        for step in run:                                                                        # <-
            x, y = batch_of(data, step.rows)                                                    # <-
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            run.step(loss)                                                                      # <-
            if run.report and run.report.step % 20 == 0:
                print(f"step {run.report.step}: loss {run.report.loss:.3f}", flush=True)
    if run.result and run.result.finished:
        print(f"finished after step {run.result.steps}; weights {run.result.digest}")


@torch.no_grad()
def continuation(model: Transformer, characters: list[str], tokens: torch.Tensor, count: int) -> str:
    for _ in range(count):
        logits = model(tokens[None, -CONTEXT:])[0, -1]
        tokens = torch.cat([tokens, torch.multinomial(F.softmax(logits, -1), 1)])
    return "".join(characters[number] for number in tokens)


def main() -> None:
    words = [word for word in sys.argv[1:] if "=" not in word]
    changes = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    data, characters = read(words[0])
    torch.manual_seed(1)
    model = Transformer(len(characters))
    recipe = thinwire.torch.recipe(model, {                                                     # <-
        "run.name": "torch_loop", "train.steps": 200, "train.batch": 32, "optim.lr": 3e-3, "schedule.warmup": 20,
        "model.init_std": 0.05, **changes})
    if len(words) == 1:
        train(model, data, thinwire.torch.local(model, recipe))
    elif words[1] == "serve":
        with thinwire.serve(recipe, {"train.workers": 2, "sync.method": "distro", **changes}) as server:
            print(f"members join with: THINWIRE_TOKEN={server.token} python train.py {words[0]} {server.address} FOLDER",
                  flush=True)
            server.wait()
        return
    else:
        train(model, data, thinwire.torch.join(model, words[1], os.environ["THINWIRE_TOKEN"], words[2]))
    print(continuation(model, characters, data[:CONTEXT], 200))


if __name__ == "__main__":
    main()
