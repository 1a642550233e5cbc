"""torch_ddp.py WORKER FOLDER STEPS: DistributedDataParallel of PyTorch, which sends every gradient."""

import sys

from toy import RATE, Batches, loss_of, network

import torch
import torch.distributed as dist


def work(worker, folder, steps):
    batches, model = Batches(worker, folder), network()
    # user code begins
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=worker, world_size=4)
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for step in range(steps):
        loss = loss_of(model, *batches.of(step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # user code ends
        batches.note(step, loss.detach())


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
