"""hivemind_optimizer.py serve FOLDER STEPS | WORKER FOLDER STEPS: hivemind.Optimizer with local updates, that is local SGD."""

import sys
import time

from toy import BATCH, EVERY, RATE, Batches, loss_of, network, read_address, write_address

import hivemind
import torch


def serve(folder, steps):
    # user code begins
    dht = hivemind.DHT(start=True, host_maddrs=["/ip4/127.0.0.1/tcp/0"], startup_timeout=60)
    # user code ends
    write_address(folder, str(dht.get_visible_maddrs()[0]))
    time.sleep(1e6)


def work(worker, folder, steps):
    batches, model = Batches(worker, folder), network()
    address = read_address(folder)
    # user code begins
    dht = hivemind.DHT(initial_peers=[address], host_maddrs=["/ip4/127.0.0.1/tcp/0"], start=True, startup_timeout=60)
    optimizer = hivemind.Optimizer(
        dht=dht, run_id="toy", params=model.parameters(), optimizer=lambda params: torch.optim.AdamW(params, lr=RATE),
        batch_size_per_step=BATCH, target_batch_size=4 * BATCH * EVERY, use_local_updates=True, matchmaking_time=1.0,
        averaging_timeout=10.0)
    for step in range(steps):
        loss = loss_of(model, *batches.of(step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # user code ends
        batches.note(step, loss.detach())
        # user code begins
    optimizer.shutdown()
    dht.shutdown()
    # user code ends


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        work(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
