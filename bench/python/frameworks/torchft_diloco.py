"""torchft_diloco.py serve FOLDER STEPS | WORKER FOLDER STEPS: DiLoCo of torchft, each worker a replica group of its own."""

import sys
import time
from datetime import timedelta

from toy import EVERY, RATE, Batches, loss_of, network, read_address, write_address

import torch
from torch.distributed import TCPStore
from torchft import Manager, ProcessGroupGloo
from torchft._torchft import LighthouseServer
from torchft.local_sgd import DiLoCo


def serve(folder, steps):
    # user code begins
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=3, join_timeout_ms=10000)
    # user code ends
    write_address(folder, f"http://127.0.0.1:{lighthouse.address().rsplit(':', 1)[1]}")
    time.sleep(1e6)


def work(worker, folder, steps):
    batches, model = Batches(worker, folder), network()
    address = read_address(folder)
    # user code begins
    inner = torch.optim.AdamW(model.parameters(), lr=RATE)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def state_dict():
        return {"model": model.state_dict(), "inner": inner.state_dict(), "outer": outer.state_dict()}

    def load_state_dict(state):
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["inner"])
        outer.load_state_dict(state["outer"])

    manager = Manager(pg=ProcessGroupGloo(timeout=timedelta(seconds=10)), load_state_dict=load_state_dict,
                      state_dict=state_dict, min_replica_size=3, use_async_quorum=False, timeout=timedelta(seconds=30),
                      rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port, lighthouse_addr=address,
                      replica_id=f"worker-{worker}", hostname="127.0.0.1")
    with DiLoCo(manager, [model], inner, outer, sync_every=EVERY):
        for step in range(steps):
            inner.zero_grad()
            loss = loss_of(model, *batches.of(step))
            loss.backward()
            inner.step()
            # user code ends
            batches.note(step, loss.detach())
            # user code begins
    manager.shutdown()
    # user code ends


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        work(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
