"""The small Llama of bench/federated in PyTorch."""

import pathlib

import numpy as np
import torch
from pytorch_llama import Llama, Shape
from safetensors.torch import load_file

SHAPE = Shape(vocab=258, hidden=64, layers=3, heads=4, intermediate=176)


def make_model(sequence):
    return Llama(SHAPE, sequence)


def load_model(weights, sequence):
    """From a Hugging Face folder, or from an .npz file of the model's own tensors."""
    model = make_model(sequence)
    path = pathlib.Path(weights)
    if path.is_dir():
        model.load_hugging_face(load_file(path / "model.safetensors"))
    else:
        with np.load(path) as arrays:
            model.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays})
    return model
