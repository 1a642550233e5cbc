#!/usr/bin/env python3
"""Runs clang-tidy on the sources that changed since it last found nothing in them.

A source counts as changed when its own text, a header of the project it includes (directly or
not), its compile command, a .clang-tidy above it or clang-tidy itself changed. What was clean is remembered
in .cache/tidy/, one stamp a source.

Sources that are compiled alike but for macros and folders of headers are checked many at a time
(source_groups.py), as one source that includes them and has the macros and folders of all. If such a
source has any finding, it is halved until the one with the finding is known.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import needs
from needs import VENV_PYTHON
from source_groups import grouped
from sources import ROOT

CLANG_TIDY = VENV_PYTHON.with_name("clang-tidy")  # since 22 it leaves out what stands in system headers
BATCH = 6000  # lines; most of the time of few goes to the headers that they share
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


def rules_of(source, root):
    """The .clang-tidy files of the folders above a source."""
    above = (folder / ".clang-tidy" for folder in source.parents if folder.is_relative_to(root))
    return [rules for rules in above if rules.is_file()]


def key_of(entry, root, tool):
    """Digest of everything that decides what clang-tidy says about one compile command."""
    digest = hashlib.sha256(tool.encode())
    digest.update(entry.get("command", "").encode())
    source = Path(entry["file"])
    for path in [*rules_of(source, root), *closure(source, root)]:
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


def words_of(entry):
    """What a compile command says of macros and folders of headers, and all else but paths and -O."""
    macros_and_folders, others = [], []
    words = iter(shlex.split(entry["command"]))
    for word in words:
        if word == "-isystem":
            macros_and_folders.append((word, next(words)))
        elif word.startswith(("-D", "-I")):
            macros_and_folders.append((word,))
        elif word == "-o":
            next(words)
        elif word not in ("-c", entry["file"]) and not word.startswith("-O"):
            others.append(word)
    return macros_and_folders, others


def batches(entries, root):
    """Lists of entries that may be checked as one source, in a fixed order."""
    alike = {}
    for entry in entries:
        source = Path(entry["file"])
        key = (*rules_of(source, root), *words_of(entry)[1])
        alike.setdefault(key, {})[source] = entry
    return [[of_source[source] for source in group]
            for of_source in alike.values() for group in grouped(of_source, root, BATCH)]


def batch_is_clean(batch, root, build):
    """Whether clang-tidy finds nothing in a source that includes those of the batch."""
    with tempfile.TemporaryDirectory(dir=build) as name:
        place = Path(name)
        for rules in rules_of(Path(batch[0]["file"]), root):
            copy = place / rules.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(rules, copy)
        source = place / Path(batch[0]["file"]).relative_to(root).with_name("batch.cpp")
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("".join(f'#include "{one["file"]}"  // NOLINT\n' for one in batch))
        macros_and_folders = dict.fromkeys(words for one in batch for words in words_of(one)[0])
        command = words_of(batch[0])[1] + [word for words in macros_and_folders for word in words]
        (place / "compile_commands.json").write_text(json.dumps([{
            "directory": batch[0]["directory"],
            "file": str(source),
            "arguments": [*command, "-c", str(source)],
        }]))
        return not tidy(source, place)


def tidy(source, build):
    """Runs clang-tidy on one source; returns its findings, empty when there are none."""
    done = subprocess.run(
        # libstdc++ 12 calls functions of its own that are deprecated.
        [CLANG_TIDY, "--quiet", "--extra-arg=-Wno-deprecated-declarations", "-p", build, source],
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

    needs.installed(CLANG_TIDY)
    build = args.build
    if build is None:
        needs.program("cmake")
        build = args.root / "build/tidy"
        subprocess.run(["cmake", "--preset", "tidy", "--log-level=ERROR"], cwd=args.root,
                       check=True, stdout=subprocess.DEVNULL)
    stamps = args.root / ".cache/tidy"
    stamps.mkdir(parents=True, exist_ok=True)
    tool = subprocess.run([CLANG_TIDY, "--version"], check=True, capture_output=True, text=True)

    def stamp_of(entry):
        return stamps / str(Path(entry["file"]).relative_to(args.root)).replace("/", "__")

    def check(batch):
        """What clang-tidy says about each source of a batch."""
        if len(batch) > 1:
            if not batch_is_clean(batch, args.root, build):
                half = len(batch) // 2
                return check(batch[:half]) + check(batch[half:])
            findings = ""
        else:
            findings = tidy(batch[0]["file"], build)
        if findings:
            print(findings, end="", flush=True)
        else:
            for entry in batch:
                stamp_of(entry).write_text(keys[entry["file"]])
        return [findings] * len(batch)

    entries = compile_commands(build, args.root)
    keys = {entry["file"]: key_of(entry, args.root, tool.stdout) for entry in entries}
    changed = [entry for entry in entries
               if not stamp_of(entry).is_file() or stamp_of(entry).read_text() != keys[entry["file"]]]
    with ThreadPoolExecutor(args.jobs) as pool:
        results = [found for batch in pool.map(check, batches(changed, args.root)) for found in batch]
    failed = [findings for findings in results if findings]
    print(f"clang-tidy: {len(entries)} sources, {len(results)} changed, {len(failed)} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
