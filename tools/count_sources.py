#!/usr/bin/env python3
"""Counts what tells whether thinwire/ is cut too finely or too coarsely.

Prints the lines and files, the median file, headers, headers that only one file besides their own
source includes (tests and benchmarks count), files below 30 and above 500 lines; and, of each method,
optimizer and architecture, the files outside its folder that include one of its headers. `--list`
names those files.
"""

import argparse
import collections
import re
import statistics

from sources import ROOT

INCLUDE = re.compile(r'^#include "(thinwire/[^"]+)"', re.MULTILINE)
SHORT, LONG = 30, 500
ROOMS = ("methods", "optimizers", "architectures")


def files(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".h", ".cpp", ".cu")]


def includers():
    """Of each header, the files that include it, but the source of the same name."""
    found = collections.defaultdict(list)
    for path in files("include", "thinwire", "tests", "bench"):
        for header in INCLUDE.findall(path.read_text()):
            if path.with_suffix(".h") != ROOT / header:
                found[header].append(path)
    return found


def users_of(folder, found):
    """The files outside of a folder that include a header of it."""
    own = f"{folder.relative_to(ROOT)}/"
    paths = {path for header, users in found.items() if header.startswith(own) for path in users}
    return sorted(str(path.relative_to(ROOT)) for path in paths if folder not in path.parents)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the files, too")
    arguments = parser.parse_args()

    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in files("thinwire")}
    public = files("include")
    found = includers()
    headers = [name for name in lines if name.endswith(".h")]
    kinds = {
        f"files below {SHORT} lines": [name for name, count in lines.items() if count < SHORT],
        f"files above {LONG} lines": [name for name, count in lines.items() if count > LONG],
        "headers with one includer": [name for name in headers if len(found[name]) == 1],
    }
    print(f"lines {sum(lines.values())}, files {len(lines)}, median {statistics.median(lines.values()):.0f}, headers {len(headers)}")
    print(f"public headers {len(public)}, lines {sum(path.read_text().count(chr(10)) for path in public)}")
    for kind, names in kinds.items():
        print(f"{kind}: {len(names)}")
        for name in names if arguments.list else []:
            users = [str(user.relative_to(ROOT)) for user in found[name]]
            print(f"  {name} ({lines[name]})" + (f" <- {users[0]}" if len(users) == 1 else ""))
    for folder in [path for room in ROOMS for path in sorted((ROOT / "thinwire" / room).glob("*/"))]:
        names = [name for name in users_of(folder, found) if name.startswith("thinwire/")]
        print(f"files of thinwire/ that include {folder.parent.name}/{folder.name}: {len(names)}")
        for name in names if arguments.list else []:
            print(f"  {name}")


if __name__ == "__main__":
    main()
