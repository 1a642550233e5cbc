"""The rules by which members' contributions become one: writes aggregation.json beside itself.

    python tests/golden/make_aggregation.py

The rules and their definitions: aggregation_reference.py. All of it is in float64 there, from values and weights that
float32 holds.
"""

import json
import random
import struct
from pathlib import Path

from aggregation_reference import RULES, aggregate


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def contributions(rng, members, values, share_sent, loud):
    """Normal values, of which only a share is sent; member `loud` sends 100 times the opposite of the first's."""
    out = [[f32(rng.gauss(0, 1)) if rng.random() < share_sent else 0.0 for _ in range(values)]
           for _ in range(members)]
    if loud is not None:
        out[loud] = [f32(-100 * x) for x in out[0]]
    return out


# members, rows of each, trim, share that is sent, member that sends nonsense
CASES = [
    (8, [1] * 8, 0.1, 1.0, 5), (8, [1] * 8, 0.1, 0.3, 5), (8, [1] * 8, 0.25, 0.5, None),
    (5, [8, 1, 2, 4, 1], 0.2, 1.0, 4), (5, [8, 1, 2, 4, 1], 0.5, 0.4, None), (4, [1] * 4, 0.0, 1.0, None),
    (2, [1, 1], 0.5, 1.0, 1), (1, [1], 0.1, 0.5, None), (3, [1, 1, 1], 0.1, 1.0, 2),
]


def main():
    rng = random.Random(16)
    cases = []
    for members, rows, trim, share_sent, loud in CASES:
        values = contributions(rng, members, 24, share_sent, loud)
        weights = [f32(r / sum(rows)) for r in rows]
        for name in RULES:
            for of_senders in (False, True):
                expected = aggregate(name, values, weights, trim, of_senders)
                cases.append({"rule": name, "trim": trim, "of_senders": of_senders, "weights": weights,
                              "values": values, "aggregate": expected})
    path = Path(__file__).resolve().parent / "aggregation.json"
    path.write_text(json.dumps({"cases": cases}) + "\n")
    print(f"{len(cases)} cases, {path.stat().st_size} bytes")


main()
