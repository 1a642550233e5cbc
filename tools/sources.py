"""Where the project's C++ sources are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cpp_files(root, folders=("include", "thinwire", "tests", "bench", "examples")):
    """All headers and sources below the given folders of `root`, sorted."""
    return sorted(
        path
        for folder in folders
        for path in (root / folder).rglob("*")
        if path.suffix in (".h", ".cpp")
    )
