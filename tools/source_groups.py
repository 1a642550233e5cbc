#!/usr/bin/env python3
"""Writes sources that include several others, so that these are compiled as one.

They then read the headers that they share only once, which is where most of the time goes. Sources
that define the same name are kept apart, as far as a look at their text tells, and so are those that
Highway compiles once for each instruction set. Prints what is to be compiled, a path a line: the
sources written, and those that are alone.
"""

import argparse
import re
from pathlib import Path

from sources import ROOT

LINES = 1200  # of a group: compiling one takes seconds, so that an edit is soon tried
TYPE = re.compile(r"^(?:class|struct|union|enum class|enum) (\w+)\b(?!::|;)", re.MULTILINE)
# Not macros, nor members that are defined outside of their class.
OTHER = re.compile(r"^(?!using |namespace |class |struct |union |enum |template |[A-Z_]+\()"
                   r"\w[^;({=]*?(?<!::)\b(\w+) *[;({=]", re.MULTILINE)
ALIAS = re.compile(r"^using (\w+) =", re.MULTILINE)
MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
TEST = re.compile(r"^(?:TEST\w*|RC_GTEST_\w+)\((\w+), *(\w+)", re.MULTILINE)
BORROWED = re.compile(r"^using [\w:]+::(\w+);", re.MULTILINE)
IN_HEADER = re.compile(r"^(?:template <.*>\n|inline |constexpr )[^;({=]*?(?<!::)\b(\w+) *[;({=]",
                       re.MULTILINE)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
COMPILED_REPEATEDLY = "foreach_target.h"


class Group:
    """Sources that can be compiled as one."""

    def __init__(self):
        self.sources = []
        self.lines = 0
        self.defined = set()
        self.borrowed = set()

    def takes(self, defined, borrowed):
        return not (defined & self.defined or defined & self.borrowed or borrowed & self.defined)

    def add(self, source, lines, defined, borrowed):
        self.sources.append(source)
        self.lines += lines
        self.defined |= defined
        self.borrowed |= borrowed


def matches(kinds, text):
    return {name for kind in kinds for name in kind.findall(text)}


def headers_of(source, root):
    """The texts of the project's headers that a source includes, directly or not."""
    found, pending = {}, [source]
    while pending:
        path = pending.pop()
        if path not in found and path.is_file():
            found[path] = path.read_text(encoding="utf-8", errors="replace")
            for name in INCLUDE.findall(found[path]):
                pending += [root / name, path.parent / name]
    del found[source]
    return found.values()


def names_in(source, text, root):
    """Roughly the names that a source defines outside of classes and functions, and those that it
    takes from other namespaces or that the headers which it includes define."""
    defined = matches((TYPE, OTHER, ALIAS, MACRO), text)
    defined |= {f"{suite}_{test}" for suite, test in TEST.findall(text)}
    borrowed = matches((BORROWED,), text)
    for header in headers_of(source, root):
        borrowed |= matches((TYPE, ALIAS, IN_HEADER), header)
    return defined, borrowed


def grouped(sources, root, limit=LINES):
    """Lists of sources, each of which can be compiled as one, in a fixed order. Several sources of a
    list have at most `limit` lines together."""
    groups, alone = [], []
    for source in sources:
        text = source.read_text(encoding="utf-8", errors="replace")
        if COMPILED_REPEATEDLY in text:
            alone.append([source])
            continue
        names, lines = names_in(source, text, root), text.count("\n")
        group = next((group for group in groups
                      if group.lines + lines <= limit and group.takes(*names)), None)
        if group is None:
            group = Group()
            groups.append(group)
        group.add(source, lines, *names)
    return [group.sources for group in groups] + alone


def write_if_new(path, text):
    """Leaves a file that has this text already as old as it is."""
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for what is written")
    parser.add_argument("--name", required=True, help="what the names of written files begin with")
    parser.add_argument("--root", type=Path, default=ROOT, help="source tree they belong to")
    parser.add_argument("sources", type=Path, nargs="+", help="absolute paths")
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    for number, sources in enumerate(grouped(args.sources, args.root)):
        path = sources[0]
        if len(sources) > 1:
            path = args.out / f"{args.name}_{number}.cpp"
            write_if_new(path, "".join(f'#include "{source}"\n' for source in sources))
        print(path)


if __name__ == "__main__":
    main()
