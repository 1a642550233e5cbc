"""Federated learning: three members on one machine, each with records of its own that it shows to nobody, learn together what
tells two kinds apart, by logistic regression in NumPy. What they send is clipped and has noise ([privacy]), so that it says
little of their records; how little is the (epsilon, delta) that each prints at the end.

    python train.py [NOISE …]

NOISE is privacy.noise, 0 for none; without it, the run is once without noise and once with.

Members elsewhere are started by themselves: what `member` does is all that they need, besides the address and the token.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Mapping

import numpy as np
from numpy.typing import NDArray

import thinwire

Floats = NDArray[np.float32]

MEMBERS, RECORDS, MEASURES = 3, 400, 6
TRUTH = np.array([3, -2, 1.5, 0, 0, -1], dtype=np.float32)
FIELDS: dict[str, object] = {
    "run.name": "federated", "model.architecture": "external", "external.tensors": [f"slopes {MEASURES}", "offset 1"],
    "train.sequence": 1, "train.workers": MEMBERS, "train.batch": 32 * MEMBERS, "train.steps": 400, "optim.lr": 0.03,
    "schedule.warmup": 0, "sync.method": "local_sgd", "local_sgd.sync_every": 20, "log.tensorboard": False}


def records(of: int) -> tuple[Floats, Floats]:
    """Measures and kinds, 0 or 1, of whoever has this number; each sees other values more often than the rest."""
    draw = np.random.default_rng(of)
    measures = (draw.normal(size=(RECORDS, MEASURES)) + draw.normal(size=MEASURES)).astype(np.float32)
    kinds = measures @ TRUTH + draw.logistic(size=RECORDS) > 0
    return measures, kinds.astype(np.float32)


def chances(measures: Floats, slopes: Floats, offset: Floats) -> Floats:
    return np.asarray((1 + np.tanh((measures @ slopes + offset) / 2)) / 2, dtype=np.float32)


def member(number: int, address: str, token: str, folder: Path) -> thinwire.Result:
    measures, kinds = records(number)

    def loss(weights: Mapping[str, Floats], gradients: Mapping[str, Floats], step: thinwire.Step) -> float:
        rows = step.rows % len(kinds)
        found = chances(measures[rows], weights["slopes"], weights["offset"])
        wrong = found - kinds[rows]
        gradients["slopes"] += measures[rows].T @ wrong / len(rows)
        gradients["offset"] += np.mean(wrong)
        right = np.where(kinds[rows] > 0, found, 1 - found)
        return float(-np.mean(np.log(np.maximum(right, 1e-7))))

    return thinwire.join(address, token, folder, model=loss, quiet=True)


def main() -> None:
    measures, kinds = records(MEMBERS)  # of somebody who takes no part
    for noise in [float(word) for word in sys.argv[1:]] or [0.0, 1.0]:
        runs = Path(f"runs/federated-{noise:g}")
        fields = {**FIELDS, "run.dir": str(runs / "served"), "privacy.clip": 0.5, "privacy.noise": noise}
        with thinwire.serve(fields) as server, ThreadPoolExecutor(MEMBERS) as threads:
            ends = [threads.submit(member, number, server.address, server.token, runs / f"member{number}")
                    for number in range(MEMBERS)]
            digests = {end.result().digest for end in ends}
            server.wait()
        assert len(digests) == 1
        weights = thinwire.load(runs / "member0")
        right = np.mean((chances(measures, weights["slopes"], weights["offset"]) > 0.5) == kinds)
        print(f"noise {noise:g}: {right:.1%} of another's records are told apart")
        for number in range(MEMBERS if noise > 0 else 0):
            said = json.loads((runs / f"member{number}" / "privacy.json").read_text())
            print(f"  member {number}: epsilon {said['epsilon']:.2f} at delta {said['delta']:g} "
                  f"after {said['contributions']} contributions")


if __name__ == "__main__":
    main()
