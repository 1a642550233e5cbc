"""The server of Flower's FedAvg: all members in all rounds, with equal weights, from the weights of a Hugging Face folder."""

import pathlib
import sys

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    sys.path.append(config["bench"])
    from federated_flower.model import load_model

    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=config["members"],
                      min_available_nodes=config["members"])
    model = load_model(config["initial"], config["sequence"])
    result = strategy.start(grid=grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=config["rounds"])
    weights = {name: value.numpy() for name, value in result.arrays.to_torch_state_dict().items()}
    final = pathlib.Path(config["final"])
    np.savez(final.with_suffix(".part.npz"), **weights)
    final.with_suffix(".part.npz").rename(final)
