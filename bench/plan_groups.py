#!/usr/bin/env python3
"""How often `thinwire plan` finds the best choice among groups of members that it does not try in every way.

Draws groups of one to four members with speeds of 0.1 to 100 TFLOP/s and lines of 1 to 1000 Mbit/s. The best choice of seven
groups is the best of all seven and of every six of them, of which the planner tries every choice. Prints one JSON line: how many
plans were as fast as the best choice, within the 5 % below which nobody is left out, and the worst one's time over the best.
"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROUPS = 7  # one more than the planner tries in every way


def group(chance, name):
    return (f'[[member]]\nname = "{name}"\ncount = {chance.randint(1, 4)}\nflops = {10 ** chance.uniform(11, 14):.0f}\n'
            f'up_bit_s = {10 ** chance.uniform(6, 9):.0f}\ndown_bit_s = {10 ** chance.uniform(6, 9):.0f}\n')


def seconds(arguments, file, groups):
    file.write_text("".join(groups))
    done = subprocess.run([arguments.thinwire, "plan", *arguments.recipe, "--tolerance", "1000", "--members", file, "--json"],
                          check=True, capture_output=True, text=True)
    plan = json.loads(done.stdout)
    named = plan["recommended"]
    return next(one["seconds"] for one in plan["methods"]
                if one["method"] == named["method"] and one["setting"] == named["setting"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--thinwire", type=pathlib.Path, default=ROOT / "build/release/bin/thinwire")
    parser.add_argument("recipe", nargs="*", default=["model.vocab=512", "train.batch=64"])
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "members.toml"
        for _ in range(arguments.draws):
            groups = [group(chance, f"group{i}") for i in range(GROUPS)]
            chosen = seconds(arguments, file, groups)
            sixes = (seconds(arguments, file, groups[:i] + groups[i + 1:]) for i in range(GROUPS))
            ratios.append(chosen / min(chosen, *sixes))
    print(json.dumps({"draws": arguments.draws, "best": sum(ratio <= 1 / 0.95 for ratio in ratios),
                      "exactly_best": sum(ratio <= 1.011 for ratio in ratios), "worst": max(ratios)}))


if __name__ == "__main__":
    main()
