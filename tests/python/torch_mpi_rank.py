"""A rank of an MPI job that trains a small PyTorch module; prints how it ended and what its module then holds.

    mpirun -n N python torch_mpi_rank.py CASE

CASE is JSON: {"recipe": FILE, "fields": {…}, "fails": [rank, step] or null}.
"""

import hashlib
import json
import os
import sys

from torch_model import loss_of, small_model

import thinwire.torch


def main():
    case = json.loads(sys.argv[1])
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    model = small_model(seed=rank)  # which the run replaces
    steps, reports = [], []
    with thinwire.torch.mpi(model, case["recipe"], case["fields"], quiet=True, on_step=reports.append) as run:
        for step in run:
            if [rank, step.number] == case["fails"]:
                raise LookupError("no such row")
            steps.append((step.number, step.worker, len(step.rows)))
            loss = loss_of(model, step)
            loss.backward()
            run.step(loss)
    held = hashlib.sha256(b"".join(one.detach().numpy().tobytes() for one in model.parameters() if one.requires_grad))
    print(json.dumps({"rank": rank, "steps": steps, "reports": len(reports), "finished": run.result.finished,
                      "digest": run.result.digest, "held": held.hexdigest()}), flush=True)


if __name__ == "__main__":
    main()
