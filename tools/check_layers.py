#!/usr/bin/env python3
"""Checks that includes between the folders of thinwire/ point one way only.

Headers in include/thinwire are public: they include only each other and the standard library, and every
layer may include them. Examples include only them.

The table below is the architecture. A folder is a layer, but in the folders of ROOMS the end of a
file's name says in which layer it is. It is compared with every #include in thinwire/, in both ways,
and with the DEPENDS lists of thinwire/CMakeLists.txt. LibTorch may be included by *_torch.cpp files
of the folders tensor and model only.

JSON and TOML are parsed in one place each, which limits how deeply they may be nested.

Also checks that a type's name stands for one type in each program (the one-definition rule): in thinwire/
with each folder of tests/ and bench/.
"""

import argparse
import re
import sys
from pathlib import Path

from sources import ROOT, cpp_files

MAY_INCLUDE = {
    "base": "",
    "config": "base",
    "events": "base",
    "page": "events base",
    "schedule": "config base",
    "links": "config base",
    "method": "schedule config base",
    "membership": "method schedule config base",
    "data": "config base",
    "transport": "links base",
    "tensor": "base",
    "model": "tensor method base",
    "eval": "model data config base",
    "optim": "tensor method base",
    "codec": "method tensor base",
    "sync": "codec optim method schedule transport tensor config base",
    "plan": "method schedule links config base",
    "checkpoint": "method tensor events config base",
    "convert": "checkpoint data method tensor config base",
    "report": "checkpoint method links events config base",
    "train": "report convert checkpoint sync codec eval model optim data method transport schedule tensor events"
    " config base",
    "launch": "train report checkpoint data method transport links events config base",
    "serve": "membership sync codec method transport tensor config base",
    "member": "train report checkpoint membership sync method data transport tensor events"
    " config base",
    "bench": "train sync model data method transport tensor events config base",
    "hosts": "bench member serve train report checkpoint page data method membership transport links events"
    " config base",
    "face_spec": "plan method config base",
    "face_core": "face_spec eval model convert checkpoint data method config base",
    "face_run": "face_spec hosts launch train report tensor events base",
    "cli": "face_core face_spec hosts bench launch train plan report convert checkpoint sync eval model optim codec page data"
    " method transport links schedule tensor events config base",
}
# Folders whose subfolders each hold all of one thing, in several layers.
ROOMS = {
    "methods": {"_spec": "method", ".inc": "method", "_plan": "plan", "": "sync"},
    "optimizers": {"_spec": "method", ".inc": "method", "": "optim"},
    "architectures": {"_spec": "method", ".inc": "method", "_hf": "convert", "": "model"},
}
TORCH_FOLDERS = ("tensor", "model")
# The only file that may call a library's parser.
PARSERS = {
    "thinwire/base/json.cpp": re.compile(r"\b(?:json|Json|HfJson|Value)::(?:parse|accept|sax_parse)\("),
    "thinwire/config/toml_document.cpp": re.compile(r"\btoml::parse(?:_file)?\("),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH_HEADER = re.compile(r"^(torch|ATen|c10)/")
NAMESPACE = re.compile(r"^namespace (?:([\w:]+) )?\{$")
TYPE = re.compile(r"^(?:struct|class|union|enum class|enum) (\w+)(?: final)?(?: [:{].*)?$")
LAYER = re.compile(r"^thinwire_layer\((\w+)([^)]*)\)", re.MULTILINE)
PART = re.compile(r"\b(ROOM|ENDING) (\w+)")


def layer_of(path):
    """The layer of a file, from its path below thinwire/."""
    ends = ROOMS.get(path.parts[0])
    if ends is None:
        return path.parts[0]
    name = path.name if path.suffix == ".inc" else path.stem
    return next(layer for end, layer in ends.items() if name.endswith(end))


def include_problem(path, folder, quote, header):
    """What is wrong with one #include of a file in the layer `folder`, or None."""
    if TORCH_HEADER.match(header):
        if folder in TORCH_FOLDERS and path.name.endswith("_torch.cpp"):
            return None
        return f"LibTorch's {header} belongs in a *_torch.cpp of {' or '.join(TORCH_FOLDERS)}"
    if not header.startswith("thinwire/"):
        if quote == '"':
            return f'"{header}" should be named from the root of the repository, "thinwire/..."'
        return None
    if quote == "<":
        return f"<{header}> is ours and takes quotes"
    if is_public(header):
        return None
    other = layer_of(Path(header).relative_to("thinwire"))
    if other != folder and other not in MAY_INCLUDE[folder].split():
        return f"{folder} may not include {other} ({header})"
    return None


def is_public(header):
    """Whether an included header is one of include/thinwire."""
    return header.startswith("thinwire/") and header.count("/") == 1


def check_public(root):
    """Public headers hide what is in thinwire/, and examples use nothing but them."""
    problems = []
    for path in cpp_files(root, ["include", "examples"]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if match and not is_public(match[2]) and ("/" in match[2] or "." in match[2]):
                problems.append(
                    f"{path.relative_to(root)}:{number}: {match[2]} is neither public nor the standard library's"
                )
    return problems


def check_includes(root):
    problems = []
    # cli may include everything and everything may include base, used or not.
    arrows = {(folder, other) for folder, all in MAY_INCLUDE.items() for other in all.split()}
    unused = {arrow for arrow in arrows if arrow[0] != "cli" and arrow[1] != "base"}
    for path in cpp_files(root, ["thinwire"]):
        relative = path.relative_to(root)
        folder = layer_of(relative.relative_to("thinwire"))
        if folder not in MAY_INCLUDE:
            problems.append(f"{relative}: folder {folder} is not in the table of check_layers.py")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            problem = match and include_problem(path, folder, *match.groups())
            if problem:
                problems.append(f"{relative}:{number}: {problem}")
            for parser, call in PARSERS.items():
                if call.search(line) and relative.as_posix() != parser:
                    problems.append(f"{relative}:{number}: only {parser} parses with this library")
            if match and match[2].startswith("thinwire/") and not is_public(match[2]):
                unused.discard((folder, layer_of(Path(match[2]).relative_to("thinwire"))))
    for folder, other in sorted(unused):
        problems.append(f"check_layers.py: nothing in {folder} includes {other}")
    return problems


def types_in(path):
    """The types a file defines in namespaces that have names: (name, line number)."""
    spaces = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        opened, defined = NAMESPACE.match(line), TYPE.match(line)
        if opened:
            spaces.append(opened[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif defined and None not in spaces:
            yield "::".join([*spaces, defined[1]]), number


def check_types(root):
    problems = []
    own = {}
    programs = ["include", None] + [path for top in ("tests", "bench") for path in sorted((root / top).glob("*/"))]
    for program in programs:
        known = own if program in ("include", None) else dict(own)
        for path in cpp_files(root, ["thinwire" if program is None else program]):
            for name, number in types_in(path):
                place = f"{path.relative_to(root)}:{number}"
                if name in known:
                    problems.append(f"{place}: {name} is another type in {known[name]}")
                known[name] = place
    return problems


def parts_of_rooms():
    """What the layers of CMakeLists.txt have of the rooms: (layer, ROOM or ENDING, name)."""
    parts = set()
    for room, ends in ROOMS.items():
        for end, layer in ends.items():
            if end != ".inc":
                parts.add((layer, "ENDING", end[1:]) if end else (layer, "ROOM", room))
    return parts


def check_cmake(root):
    """Compares the DEPENDS lists of thinwire/CMakeLists.txt with the table."""
    declared = {}
    parts = set()
    for folder, rest in LAYER.findall((root / "thinwire/CMakeLists.txt").read_text()):
        words = re.split(r"\b(?:HOT|LINK|LINK_PRIVATE|PRECOMPILE)\b", rest)[0]
        for kind, name in PART.findall(words):
            parts.add((folder, kind, name))
        declared[folder] = set(PART.sub("", words).split()) - {"COMPUTES", "FREQUENT", "DEPENDS"}
    problems = []
    for folder, kind, name in sorted(parts ^ parts_of_rooms()):
        problems.append(f"{kind} {name} of {folder} is not in both check_layers.py and CMakeLists.txt")
    for folder in sorted(declared.keys() | MAY_INCLUDE.keys()):
        if folder not in declared or folder not in MAY_INCLUDE:
            problems.append(f"layer {folder} is not in both check_layers.py and CMakeLists.txt")
        elif declared[folder] != set(MAY_INCLUDE[folder].split()):
            problems.append(f"DEPENDS of {folder} in CMakeLists.txt differs from check_layers.py")
    return [f"thinwire/CMakeLists.txt: {problem}" for problem in problems]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="source tree to check")
    args = parser.parse_args()
    problems = check_public(args.root) + check_includes(args.root) + check_types(args.root) + check_cmake(args.root)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
