"""A Hugging Face folder with a Llama of random weights in bf16, written tensor by tensor, for measuring runs with
models that are larger than this machine's memory:

    python bench/random_model.py FOLDER [--hidden 4096 --inner 11008 --layers 32 --heads 32 --vocab 32000]

Values are normal with deviation 0.02, pieces of one million of them in an order of its own for each tensor; norms are
1. Needs NumPy.
"""

import argparse
import math
from pathlib import Path

import numpy as np

from zero_model import shapes_of, write_zero_model

DRAWN = 1 << 24
PIECE = 1 << 20


def to_bf16(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def write_values(file, shape, drawn, rng):
    if len(shape) == 1:
        file.write(to_bf16(np.ones(shape)).tobytes())
        return
    left = math.prod(shape)
    while left > 0:
        count = min(PIECE, left)
        begin = rng.integers(DRAWN - PIECE)
        file.write(drawn[begin:begin + count].tobytes())
        left -= count


def main():
    options = argparse.ArgumentParser(description="Writes a Llama of random weights.")
    options.add_argument("folder", type=Path)
    for name, value in (("hidden", 4096), ("inner", 11008), ("layers", 32), ("heads", 32), ("vocab", 32000)):
        options.add_argument(f"--{name}", type=int, default=value)
    given = vars(options.parse_args())
    folder, heads = given.pop("folder"), given.pop("heads")
    write_zero_model(folder, heads=heads, dtype="BF16", **given)
    shapes = shapes_of(**given)
    rng = np.random.default_rng(0)
    drawn = to_bf16(0.02 * rng.standard_normal(DRAWN, np.float32))
    with open(folder / "model.safetensors", "r+b") as file:
        header = int.from_bytes(file.read(8), "little")
        file.seek(8 + header)
        for shape in shapes.values():
            write_values(file, shape, drawn, rng)


if __name__ == "__main__":
    main()
