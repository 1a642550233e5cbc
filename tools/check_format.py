#!/usr/bin/env python3
"""Checks that all C++ files are formatted as .clang-format says; --fix formats them."""

import argparse
import subprocess
import sys
from pathlib import Path

import needs
from sources import ROOT, cpp_files


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="format the files in place")
    parser.add_argument("--root", type=Path, default=ROOT, help="source tree to check")
    args = parser.parse_args()

    files = cpp_files(args.root)
    if not files:
        return 0
    needs.program("clang-format-16")
    mode = ["-i"] if args.fix else ["--dry-run", "--Werror"]
    style = f"--style=file:{ROOT / '.clang-format'}"
    done = subprocess.run(["clang-format-16", style, *mode, *files], check=False)
    if done.returncode != 0:
        print("Run tools/check_format.py --fix", file=sys.stderr)
    return 1 if done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
