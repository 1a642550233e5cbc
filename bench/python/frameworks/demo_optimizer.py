"""demo_optimizer.py WORKER FOLDER STEPS DEMO.PY: the optimizer of bloc97/DeMo, from a copy of its file."""

import importlib.util
import sys

from toy import Batches, loss_of, network

import torch.distributed as dist


def work(worker, folder, steps, source):
    spec = importlib.util.spec_from_file_location("demo", source)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    batches, model = Batches(worker, folder), network()
    # user code begins
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=worker, world_size=4)
    optimizer = demo.DeMo(model.parameters(), lr=1e-3)
    for step in range(steps):
        loss = loss_of(model, *batches.of(step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # user code ends
        batches.note(step, loss.detach())


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
