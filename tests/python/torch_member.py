"""torch_member.py ADDRESS TOKEN FOLDER [DIES_AT]: a member of a served run with the model of torch_model, which kills
itself with SIGKILL in step DIES_AT."""

import os
import signal
import sys

from torch_model import loss_of, small_model

import thinwire.torch

address, token, folder = sys.argv[1:4]
dies_at = int(sys.argv[4]) if len(sys.argv) > 4 else -1
model = small_model(seed=5)  # the run's weights replace these
with thinwire.torch.join(model, address, token, folder, {"train.threads": 1}) as run:
    for step in run:
        if step.number == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = loss_of(model, step)
        loss.backward()
        run.step(loss)
