"""Golden values of the formats in which sums are sent: writes wire.safetensors beside itself.

    python tests/golden/make_wire.py

Definitions: wire_reference.py. They leave nothing to rounding but the sum behind int2's scale, which is far from a bf16
tie here, so a codec must give these very values.

File contents (float32; C = case):
    values.C         a buffer
    F.C              what its receivers see, F = bf16, fp8, fp4, int2, int1
Cases:
    wide             1000 values over 12 powers of 2: three blocks and a short one
    one, line, over  1, 255 and 257 values
    sparse           700 values, nearly all 0 of either sign, the second block wholly
    fp8_steps        every E4M3 value, every midpoint of two and their neighbours in float32, behind a 448 (scale 1)
    fp4_steps        the same for E3M0 with scale 1
    int2_steps       values around 1.25 times their mean, which is 1
    low_scale        largest values that bf16 rounds down, so that they lie above the scale
"""

import json
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np

from golden_file import write_golden
from inputs import F32, bf16, hashed
from wire_reference import BLOCK, WIRES, Margins, as_received

HERE = Path(__file__).resolve().parent


def with_neighbours(x):
    x = np.asarray(x, F32)
    return np.concatenate([np.nextafter(x, F32(-np.inf)), x, np.nextafter(x, F32(np.inf))])


def behind(first, x):
    """Blocks that begin with `first`, which sets their scale, and hold x and -x."""
    x = np.concatenate([x, -x]).astype(F32)
    x = x[np.abs(x) <= first]
    return np.concatenate([np.concatenate([[F32(first)], x[at: at + BLOCK - 1]]) for at in range(0, x.size, BLOCK - 1)])


def steps_of(values):
    values = np.unique(np.abs(values))
    return with_neighbours(np.concatenate([values, (values[1:] + values[:-1]) / 2]))


def cases():
    import torch
    e4m3 = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    sparse = np.zeros(700, F32)
    sparse[[3, 77, 255, 512, 699]] = [0.5, -0.25, 2.0**-7, -3, 1.5]
    sparse[1::2] *= F32(-1)
    ones = np.array([0.5, 1.5, -0.75, -1.25, 1.25 - 2.0**-20, 0.75 + 2.0**-20, 1.25 + 2.0**-20, 0.75 - 2.0**-20], F32)
    return {
        "wide": hashed(3, 0, 0, 0, (1000,)) * np.exp2(hashed(3, 0, 0, 1, (1000,)) * 6).astype(F32),
        "one": np.array([-0.3], F32),
        "line": hashed(3, 0, 0, 2, (255,)),
        "over": hashed(3, 0, 0, 3, (257,)) * F32(1e-6),
        "sparse": sparse,
        "fp8_steps": behind(448, steps_of(e4m3)),
        "fp4_steps": behind(1, steps_of([0] + [2.0 ** (e - 7) for e in range(1, 8)])),
        "int2_steps": ones,
        "low_scale": behind(1 + 2.0**-9, with_neighbours([1, 1 + 2.0**-9, 0.75, 0.5, 1e-3])),
    }


def check(values):
    """PyTorch's own E4M3 on the buffer whose scale is 1; margins of int2's scale."""
    import torch
    steps = values["fp8_steps"]
    expected = torch.from_numpy(steps).to(torch.float8_e4m3fn).float().numpy()
    assert np.array_equal(as_received(steps, "fp8", Margins()), expected)
    assert bf16(values["low_scale"].max()) < values["low_scale"].max()
    for case, x in values.items():
        margins = Margins()
        as_received(x, "int2", margins)
        assert np.float64(np.abs(x[:BLOCK]).mean()) == 1 or case != "int2_steps"
        assert min(margins.scale) > 1e-5, case


if __name__ == "__main__":
    values = cases()
    check(values)
    out = {f"values.{case}": x for case, x in values.items()}
    out |= {f"{wire}.{case}": as_received(x, wire, Margins()) for case, x in values.items() for wire in WIRES[1:]}
    assert all(x.dtype == F32 and np.isfinite(x).all() for x in out.values())
    write_golden(HERE / "wire.safetensors", out, {"cases": json.dumps(list(values)), "made_by": "make_wire.py"})
    print({case: x.size for case, x in values.items()})
