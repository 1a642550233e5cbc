"""A task of one's own, with NumPy and nothing else: who likes what, from a few of the ratings that people have given.

    python train.py [METHOD …] [TABLE.FIELD=VALUE …]

A rating is what a person and a thing have in common, plus how generous the person is and how good the thing: the model has a
short vector and a number for each of them (matrix factorisation). Its gradient is written by hand. Two workers have the
ratings of different people; the ratings to learn from, and those to test with, are drawn.
"""

import sys
from typing import Mapping

import numpy as np
from numpy.typing import NDArray

import thinwire

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
PEOPLE, THINGS, COMMON = 200, 100, 4
GIVEN = 20  # ratings of a person that are known


def ratings() -> tuple[Floats, Flags]:
    """All of them, [people, things], and which are known."""
    random = np.random.default_rng(0)
    tastes, natures = random.normal(size=(PEOPLE, COMMON)), random.normal(size=(THINGS, COMMON))
    full = tastes @ natures.T / 2 + random.normal(size=(PEOPLE, 1)) + random.normal(size=THINGS)
    known = random.permuted(np.arange(THINGS) < GIVEN + np.zeros((PEOPLE, 1)), axis=1)
    return full.astype(np.float32), known


def predicted(weights: Mapping[str, Floats], people: Numbers, things: Numbers) -> Floats:
    return ((weights["tastes"][people] * weights["natures"][things]).sum(-1) + weights["generosity"][people]
            + weights["quality"][things])


class Loss:
    """What thinwire.train calls in every step: it adds to gradients and returns the mean loss over the rows."""

    def __init__(self, full: Floats, known: Flags) -> None:
        self._full = full
        self._people, self._things = np.nonzero(known)
        # Rows that follow each other belong to one worker: half of them are of the first half of the people.
        self._order = np.random.default_rng(1).permutation(len(self._people) // 2)

    def __call__(self, weights: Mapping[str, Floats], gradients: Mapping[str, Floats], step: thinwire.Step) -> float:
        half = len(self._order)
        place = self._order[step.rows % half] + half * step.worker
        people, things = self._people[place], self._things[place]
        error = predicted(weights, people, things) - self._full[people, things]
        share = 2 * error / len(error)
        np.add.at(gradients["tastes"], people, share[:, None] * weights["natures"][things])
        np.add.at(gradients["natures"], things, share[:, None] * weights["tastes"][people])
        np.add.at(gradients["generosity"], people, share)
        np.add.at(gradients["quality"], things, share)
        return float(np.mean(error**2))


def main() -> None:
    methods = [word for word in sys.argv[1:] if "=" not in word] or ["allreduce", "diloco", "distro"]
    changes = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    full, known = ratings()
    people, things = np.nonzero(~known)
    for method in methods:
        recipe = {
            "model.architecture": "external", "model.init_std": 0.3, "train.sequence": 1, "train.workers": 2, "train.batch": 512,
            "external.tensors": [f"tastes {PEOPLE}x{COMMON}", f"natures {THINGS}x{COMMON}", f"generosity {PEOPLE}",
                                 f"quality {THINGS}"],
            "train.steps": 600, "optim.lr": 0.02, "optim.weight_decay": 0.05, "sync.method": method, "run.dir": f"runs/ratings-{method}",
            "log.tensorboard": False, "diloco.sync_every": 20, **changes}
        result = thinwire.train(recipe, model=Loss(full, known), restart=True, quiet=True)
        weights = thinwire.load(result.folder)
        error = np.sqrt(np.mean((predicted(weights, people, things) - full[people, things])**2))
        print(f"{method:10}  error of unknown ratings {error:.3f} of {full.std():.3f}, {result.bytes_sent_per_step:7.0f} B a step "
              "and worker")


if __name__ == "__main__":
    main()
