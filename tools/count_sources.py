#!/usr/bin/env python3
"""Counts what tells whether thinwire/ is cut too finely or too coarsely.

Prints the lines and files, the median file, headers, headers that only one file besides their own
source includes (tests and benchmarks count), files below 30 and above 500 lines; the lines of each
folder; and, of each method, optimizer and architecture, the files outside its folder that include one
of its headers. `--list` names those files. `--at` counts an earlier commit, `--since` puts the lines of
one beside those of now.
"""

import argparse
import collections
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from sources import ROOT

INCLUDE = re.compile(r'^#include "(thinwire/[^"]+)"', re.MULTILINE)
SHORT, LONG = 30, 500
ROOMS = ("methods", "optimizers", "architectures")


def lines_of(root, *folders):
    """The lines of each source below these folders, by its path from the root."""
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*"))]
    return {
        str(path.relative_to(root)): path.read_text().count("\n")
        for path in paths
        if path.suffix in (".h", ".cpp", ".cu")
    }


def tree_at(root, commit, folder):
    """Puts the tree of a commit of the clone at `root` into a folder."""
    archive = subprocess.run(["git", "archive", commit], cwd=root, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return Path(folder)


def includers(root):
    """The files that include each header, but for the source of the same name."""
    found = collections.defaultdict(list)
    for name in lines_of(root, "include", "thinwire", "tests", "bench"):
        for header in INCLUDE.findall((root / name).read_text()):
            if Path(name).with_suffix(".h") != Path(header):
                found[header].append(name)
    return found


def users_of(folder, found):
    """The files outside of a folder that include a header of it."""
    names = {name for header, users in found.items() if header.startswith(f"{folder}/") for name in users}
    return sorted(name for name in names if not name.startswith(f"{folder}/"))


def lines_by_folder(lines):
    sums = collections.Counter()
    for name, count in lines.items():
        sums[name.split("/")[1]] += count
    return sums


def print_folders(lines, before):
    """The lines of each folder, and those that it had at an earlier commit, if one is given."""
    now, then = lines_by_folder(lines), lines_by_folder(before)
    for folder in sorted(now.keys() | then.keys(), key=lambda folder: (then[folder] - now[folder], folder)):
        change = f" {then[folder]:7} {now[folder] - then[folder]:+7}" if before else ""
        print(f"{folder:14} {now[folder]:7}{change}")


def print_counts(root, lists):
    lines = lines_of(root, "thinwire")
    public = lines_of(root, "include")
    found = includers(root)
    headers = [name for name in lines if name.endswith(".h")]
    kinds = {
        f"files below {SHORT} lines": [name for name, count in lines.items() if count < SHORT],
        f"files above {LONG} lines": [name for name, count in lines.items() if count > LONG],
        "headers with one includer": [name for name in headers if len(found[name]) == 1],
    }
    print(f"lines {sum(lines.values())}, files {len(lines)}, median {statistics.median(lines.values()):.0f}, headers {len(headers)}")
    print(f"public headers {len(public)}, lines {sum(public.values())}")
    for kind, names in kinds.items():
        print(f"{kind}: {len(names)}")
        for name in names if lists else []:
            users = found[name]
            print(f"  {name} ({lines[name]})" + (f" <- {users[0]}" if len(users) == 1 else ""))
    for folder in sorted({"/".join(name.split("/")[:3]) for name in lines if name.split("/")[1] in ROOMS}):
        if not (root / folder).is_dir():
            continue
        names = [name for name in users_of(folder, found) if name.startswith("thinwire/")]
        print(f"files of thinwire/ that include {folder.removeprefix('thinwire/')}: {len(names)}")
        for name in names if lists else []:
            print(f"  {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="source tree to count")
    parser.add_argument("--list", action="store_true", help="name the files, too")
    parser.add_argument("--at", metavar="COMMIT", help="count this commit instead of the working tree")
    parser.add_argument("--since", metavar="COMMIT", help="print each folder's lines there, too, and the difference")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        root = tree_at(arguments.root, arguments.at, here) if arguments.at else arguments.root
        before = lines_of(tree_at(arguments.root, arguments.since, there), "thinwire") if arguments.since else {}
        print_counts(root, arguments.list)
        print_folders(lines_of(root, "thinwire"), before)


if __name__ == "__main__":
    main()
