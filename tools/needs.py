"""What a script needs besides Python itself. A script checks this at its start, so that if something
is missing it ends with the command that installs it instead of a traceback."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV_PYTHON = ROOT / ".venv/bin/python"


def packages(*names, python=None):
    """Ends the script unless the Python that runs it, or else the program `python`, has all these
    packages."""
    missing = [name for name in names if not find_spec(name)] if python is None else (
        missing_for(python, names))
    if not missing:
        return
    what = f"no Python package {', '.join(missing)}"
    if python is None and Path(sys.executable) != VENV_PYTHON:
        fail(f"{what} for {sys.executable}",
             "tools/setup.sh test    # then run the script with .venv/bin/python")
    fail(f"{what} in .venv", "tools/setup.sh test")


def missing_for(python, names):
    """The packages among `names` that the program `python` does not find."""
    installed(python)
    find = ("import sys; from importlib.util import find_spec; "
            "print(*(name for name in sys.argv[1:] if not find_spec(name)))")
    done = subprocess.run([python, "-c", find, *names], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        fail(f"{python} does not run", "tools/setup.sh test")
    return done.stdout.split()


def program(name, setup="test"):
    """Ends the script unless the program `name` of a Debian package that tools/setup.sh installs,
    as `tools/setup.sh <setup>`, is there."""
    if shutil.which(name) is None:
        fail(f"no program {name} in PATH", f"tools/setup.sh {setup}")


def installed(path):
    """Ends the script unless .venv has this program of a Python package."""
    if not path.exists():
        fail(f"{path} is missing", "tools/setup.sh test")


def built(path):
    """Ends the script unless this program of Thinwire's own is there."""
    if not path.exists():
        fail(f"{path} is missing", "tools/setup.sh && cmake --preset release && "
             f"cmake --build --preset release --target {path.name}")


def fail(what, command):
    name = Path(sys.argv[0]).name
    sys.exit(f"{name}: {what}. To install it, in {ROOT}:\n  {command}")
