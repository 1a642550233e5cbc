"""How a step's rows are divided among workers of unequal speed: writes shares.json beside itself.

    python tests/golden/make_shares.py

Definition: each active worker takes at least one row, and together they take the batch. Wanted is a division whose last
worker to finish (rows / speed) finishes as early as possible. A speed of 0 is unknown, and the mean of the known ones is used
instead; if none is known, shares are as even as possible (worker i of n begins at floor(batch * i / n)).

The search here tries every division. Several can be best; the file has all of them.
"""

import json
from fractions import Fraction
from pathlib import Path

CASES = [
    (16, [4, 4], [1, 1]), (16, [3, 1], [1, 1]), (16, [5, 3, 2], [1, 1, 1]), (7, [100, 1, 1], [1, 1, 1]),
    (12, [0, 6, 3], [1, 1, 1]), (12, [0, 0, 0], [1, 1, 1]), (11, [2.5, 7, 3, 1.5], [1, 1, 0, 1]),
    (9, [0, 8, 0, 2], [0, 1, 1, 1]), (4, [9, 1, 1, 1], [1, 1, 1, 1]), (13, [0.1, 0.2, 0.4], [1, 1, 1]),
    (10, [], [1, 1, 1]), (10, [], [1, 0, 1]), (20, [1, 1000], [1, 1]), (5, [3, 3, 3], [0, 1, 0]),
]


def divisions(rows, workers):
    if workers == 1:
        yield (rows,)
        return
    for first in range(1, rows - workers + 2):
        for rest in divisions(rows - first, workers - 1):
            yield (first, *rest)


def best(batch, speeds, present):
    there = [m for m, p in enumerate(present) if p]
    known = [Fraction(s) for s, p in zip(speeds, present) if s and p]
    if not known:
        n = len(there)
        return [[batch * (i + 1) // n - batch * i // n for i in range(n)]]
    filled = [Fraction(speeds[m]) or sum(known) / len(known) for m in there]
    last = {d: max(r / s for r, s in zip(d, filled)) for d in divisions(batch, len(there))}
    return [list(d) for d, time in last.items() if time == min(last.values())]


cases = []
for batch, speeds, present in CASES:
    spread = []
    for division in best(batch, speeds, present):
        rows, left = [], list(division)
        for p in present:
            rows.append(left.pop(0) if p else 0)
        spread.append(rows)
    assert all(sum(rows) == batch for rows in spread)
    cases.append({"batch": batch, "speeds": speeds, "present": present, "best": spread})
path = Path(__file__).resolve().parent / "shares.json"
path.write_text(json.dumps({"cases": cases}, indent=1) + "\n")
print(f"{len(cases)} cases, {sum(len(c['best']) == 1 for c in cases)} of them with one best division")
