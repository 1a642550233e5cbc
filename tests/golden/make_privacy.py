"""Prints the figures of Opacus in tests/method/accountant_test.cpp. Needs, beside what tools/setup.sh installs, scipy and the
files of opacus 1.6.0 (`.venv/bin/pip install scipy && .venv/bin/pip install --no-deps opacus==1.6.0`), of which the accountant's
arithmetic alone is loaded."""

import importlib.util
import sys
from pathlib import Path

import golden_packages  # noqa: F401

CASES = [(1, 1, 1, 1e-5), (1, 4, 50, 1e-5), (1, 1.1, 100, 1e-6), (0.01, 1.1, 10000, 1e-5), (0.1, 0.8, 300, 1e-5),
         (0.5, 2, 40, 1e-5), (0.25, 0.5, 10, 1e-3), (0.001, 4, 100000, 1e-7), (0.9, 8, 500, 1e-5), (0.004, 0.6, 1000, 1e-5)]


def load():
    file = next(Path(path) / "opacus/accountants/analysis/rdp.py" for path in sys.path
                if (Path(path) / "opacus/accountants/analysis/rdp.py").exists())
    spec = importlib.util.spec_from_file_location("rdp", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    rdp = load()
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
    for q, noise, times, delta in CASES:
        spent = rdp.compute_rdp(q=q, noise_multiplier=noise, steps=times, orders=orders)
        epsilon, _ = rdp.get_privacy_spent(orders=orders, rdp=spent, delta=delta)
        print(f"{{{q}, {noise}, {times}, {delta}, {epsilon:.12g}}},")
    for order in (1.1, 2.5, 10.9, 3, 63):
        for q, noise in ((0.01, 1.1), (0.1, 0.8), (0.5, 2.0)):
            print(f"{{{q}, {noise}, {order}, {rdp._compute_rdp(q, noise, order)!r}}},")


if __name__ == "__main__":
    main()
