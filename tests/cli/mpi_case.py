"""Shared by tests that start the program under mpirun."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]
MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]


def has_mpi():
    if shutil.which("mpirun") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "recipe.toml"
        recipe.write_text("")
        alone = subprocess.run([BINARY, "train", recipe, "train.launcher=mpi", "train.workers=2"],
                               capture_output=True, text=True)
    return "built with MPI" not in alone.stderr


def ranks_of(mpirun):
    """The process ids of the ranks that mpirun started, by their numbers."""
    ranks = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
            environment = (status.parent / "environ").read_bytes()
        except OSError:
            continue
        name, parent = (re.search(rf"^{key}:\s*(\S+)", text, re.M).group(1) for key in ("Name", "PPid"))
        rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", environment)
        if int(parent) == mpirun and name.startswith("thinwire") and rank:
            ranks.append((int(rank.group(1)), int(status.parent.name)))
    assert ranks, "mpirun has no rank"
    return [process for _, process in sorted(ranks)]
