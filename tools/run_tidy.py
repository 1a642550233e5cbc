#!/usr/bin/env python3
"""Runs clang-tidy on the sources that changed since it last found nothing in them.

A source counts as changed when its own text, a header of the project it includes (directly or
not), its compile command, a .clang-tidy above it or clang-tidy itself changed. What was clean is remembered
in .cache/tidy/, one stamp a source.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import needs
from sources import ROOT

CLANG_TIDY = "clang-tidy-16"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def closure(source, root):
    """The source and all headers of the project that it includes, directly or not."""
    found, pending = set(), [source]
    while pending:
        path = pending.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for header in INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
            pending += [root / header, path.parent / header]
    return sorted(found)


def key_of(entry, root, tool):
    """Digest of everything that decides what clang-tidy says about one compile command."""
    digest = hashlib.sha256(tool.encode())
    digest.update(entry.get("command", "").encode())
    source = Path(entry["file"])
    rules = [folder / ".clang-tidy" for folder in source.parents if folder.is_relative_to(root)]
    for path in [*filter(Path.is_file, rules), *closure(source, root)]:
        text = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()


def compile_commands(build, root):
    """Entries of the compile database, each source of the project once, without generated ones."""
    entries = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if source.is_relative_to(root) and not source.is_relative_to(build.resolve()):
            entries.setdefault(entry["file"], entry)
    return [entries[file] for file in sorted(entries)]


def tidy(source, build):
    """Runs clang-tidy on one source; returns its findings, empty when there are none."""
    done = subprocess.run(
        [CLANG_TIDY, "--quiet", "-p", build, source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, help="folder with compile_commands.json; by default "
                        "the preset tidy is configured and used")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    parser.add_argument("--root", type=Path, default=ROOT, help="source tree to check")
    args = parser.parse_args()

    needs.program(CLANG_TIDY)
    build = args.build
    if build is None:
        needs.program("cmake")
        build = args.root / "build/tidy"
        subprocess.run(["cmake", "--preset", "tidy", "--log-level=ERROR"], cwd=args.root,
                       check=True, stdout=subprocess.DEVNULL)
    stamps = args.root / ".cache/tidy"
    stamps.mkdir(parents=True, exist_ok=True)
    tool = subprocess.run([CLANG_TIDY, "--version"], check=True, capture_output=True, text=True)

    def check(entry):
        """Findings for one entry, or None when it is known to be clean."""
        source = Path(entry["file"])
        stamp = stamps / str(source.relative_to(args.root)).replace("/", "__")
        key = key_of(entry, args.root, tool.stdout)
        if stamp.is_file() and stamp.read_text() == key:
            return None
        findings = tidy(source, build)
        if findings:
            print(findings, end="", flush=True)
        else:
            stamp.write_text(key)
        return findings

    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(check, compile_commands(build, args.root)))
    checked = [findings for findings in results if findings is not None]
    failed = [findings for findings in checked if findings]
    print(f"clang-tidy: {len(results)} sources, {len(checked)} changed, {len(failed)} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
