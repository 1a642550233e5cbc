"""Golden learning rates of every schedule: writes schedule.json beside itself.

    python tests/golden/make_schedule.py

Definitions; steps t = 0 .. steps-1, final = peak * final_ratio, all in float64, every operation rounded in the order
written, and cos(pi*p) the function cos_pi of make_maths.py, so that the values are to be met exactly:

    t < warmup         lr = peak * (t+1) / warmup          so the last warmup step already has the peak
    afterwards, with   p  = (t - warmup) / (steps - warmup)            in [0, 1): final is approached, not reached
    cosine             lr = final + (peak - final) * (1 + cos(pi*p)) / 2
    linear             lr = peak + (final - peak) * p
    constant           lr = peak
    wsd                lr = peak while t < steps - decay, then with q = (t - (steps - decay) + 1) / decay:
                       lr = peak + (final - peak) * q      warmup-stable-decay; the last step has final

Sources: cosine: Loshchilov & Hutter, "SGDR" (arXiv 1608.03983) without restarts; wsd: Hu et al., "MiniCPM"
(arXiv 2404.06395), with a linear decay.

File: {"cases": [{"kind", "steps", "warmup", "peak", "final_ratio", "decay" (wsd only), "lr": [steps numbers]}]},
numbers with all digits of a float64.
"""

import json
import math
from pathlib import Path

from make_maths import cos_pi

HERE = Path(__file__).resolve().parent


def learning_rate(t, kind, steps, warmup, peak, final_ratio, decay=0):
    final = peak * final_ratio
    if t < warmup:
        return peak * (t + 1) / warmup
    p = (t - warmup) / (steps - warmup)
    if kind == "cosine":
        return final + (peak - final) * (1 + cos_pi(p)) / 2
    if kind == "linear":
        return peak + (final - peak) * p
    if kind == "constant" or t < steps - decay:
        return peak
    return peak + (final - peak) * (t - (steps - decay) + 1) / decay


CASES = [
    dict(kind="cosine", steps=50, warmup=5, peak=4e-4, final_ratio=0.1),
    dict(kind="cosine", steps=50, warmup=0, peak=1e-3, final_ratio=0.0),
    dict(kind="linear", steps=50, warmup=5, peak=4e-4, final_ratio=0.1),
    dict(kind="linear", steps=50, warmup=0, peak=1e-3, final_ratio=0.0),
    dict(kind="constant", steps=50, warmup=5, peak=4e-4, final_ratio=0.1),
    dict(kind="wsd", steps=50, warmup=5, peak=4e-4, final_ratio=0.1, decay=10),
    dict(kind="wsd", steps=50, warmup=3, peak=1e-3, final_ratio=0.0, decay=47),   # no stable part
]


def check(case, lr):
    peak, final = case["peak"], case["peak"] * case["final_ratio"]
    assert math.isclose(max(lr), peak) and min(lr[case["warmup"]:]) >= final - 1e-18
    assert all(a <= b for a, b in zip(lr[:case["warmup"]], lr[1:case["warmup"]]))
    assert all(a >= b for a, b in zip(lr[case["warmup"]:], lr[case["warmup"] + 1:]))
    if case["warmup"]:
        assert lr[case["warmup"] - 1] == peak
    if case["kind"] == "wsd":
        assert math.isclose(lr[-1], final, abs_tol=1e-18)


if __name__ == "__main__":
    cases = []
    for case in CASES:
        lr = [learning_rate(t, **case) for t in range(case["steps"])]
        check(case, lr)
        cases.append(case | {"lr": lr})
    (HERE / "schedule.json").write_text('{"cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
    print(len(cases), "cases")
