"""A member of Flower's FedAvg: trains the small Llama on rows of its own text, with an optimizer that begins anew in each
round."""

import pathlib
import sys

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def rows_of(tokens, sequence, first, count):
    """Rows [first, first + count) of passes over the text, each in an order of its own: [count, sequence + 1]."""
    places = (len(tokens) - 1) // sequence
    rows = []
    for index in range(first, first + count):
        order = np.random.default_rng(index // places).permutation(places)
        at = int(order[index % places]) * sequence
        rows.append(tokens[at:at + sequence + 1])
    return torch.from_numpy(np.stack(rows).astype(np.int64))


@app.train()
def train(message, context):
    """The weights after this round's steps."""
    config = context.run_config
    sys.path.append(config["bench"])
    from federated_flower.model import make_model
    from pytorch_llama import Trainer

    torch.set_num_threads(1)
    model = make_model(config["sequence"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    trainer = Trainer(model, "fp32", False, config["lr"])
    tokens = np.fromfile(pathlib.Path(context.node_config["tokens"]) / "00000.tws", dtype="<u2", offset=64)
    count = config["steps"] * config["rows"]
    first = (int(message.content["config"]["server-round"]) - 1) * count
    rows = rows_of(tokens, config["sequence"], first, count)
    loss = 0.0
    for step in range(config["steps"]):
        loss += float(trainer.step(rows[step * config["rows"]:(step + 1) * config["rows"]]))
    metrics = MetricRecord({"train_loss": loss / config["steps"], "num-examples": count})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
