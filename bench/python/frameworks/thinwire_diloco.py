"""thinwire_diloco.py serve FOLDER STEPS | WORKER FOLDER STEPS: DiLoCo of this package."""

import sys

from toy import BATCH, EVERY, RATE, Batches, loss_of, network, read_address, write_address  # and where the package is

import torch

import thinwire.torch


def serve(folder, steps):
    # user code begins
    recipe = thinwire.torch.recipe(network(), {
        "train.steps": steps, "train.batch": 4 * BATCH, "train.workers": 4, "sync.method": "diloco",
        "diloco.sync_every": EVERY, "optim.method": "own"})
    with thinwire.serve(recipe, {"run.dir": f"{folder}/serve"}) as server:
        # user code ends
        write_address(folder, f"{server.address} {server.token}")
        # user code begins
        server.wait()
        # user code ends


def work(worker, folder, steps):
    batches, model = Batches(worker, folder), network()
    address, token = read_address(folder).split()
    # user code begins
    run = thinwire.torch.join(model, address, token, f"{folder}/member-{worker}", {"train.threads": 1})
    inner = torch.optim.AdamW(model.parameters(), lr=RATE)
    with thinwire.torch.DiLoCo(model, inner=inner, run=run) as optimizer:
        while not optimizer.finished:
            step = optimizer.completed
            loss = loss_of(model, *batches.of(step))
            loss.backward()
            optimizer.step(loss=loss)
            optimizer.zero_grad()
            # user code ends
            batches.note(step, loss.detach())


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        work(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
