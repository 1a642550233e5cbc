#!/usr/bin/env python3
"""make_wheel.py FOLDER VERSION MACHINE OUT: packs the programs of a package's folder as a wheel, and the Python
package that calls them (python/ of the clone that this script is in).

That is pure Python, and pip puts the programs where it puts scripts, so one wheel serves every CPython. Times are
those of SOURCE_DATE_EPOCH and the order is fixed, so that the same folder gives the same bytes.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[2] / "python"

METADATA = """\
Metadata-Version: 2.1
Name: thinwire
Version: {version}
Summary: Trains language models on machines in different places
License: Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: thinwire
Root-Is-Purelib: false
Tag: {tag}
"""


def contents(folder, version, tag):
    """Pairs of a name in the wheel and its bytes, the record of all others last."""
    data, info = f"thinwire-{version}.data", f"thinwire-{version}.dist-info"
    files = {}
    for file in sorted((PYTHON / "thinwire").iterdir()):
        if file.is_file():  # no caches
            files[f"thinwire/{file.name}"] = file.read_bytes()
    for place, source in (
        (f"{data}/scripts", "bin"),
        (f"{data}/data/share/thinwire/recipes", "recipes"),
        (f"{data}/data/share/man/man1", "man/man1"),
        (f"{info}/licenses", "licenses"),
    ):
        for file in sorted((folder / source).iterdir()):
            files[f"{place}/{file.name}"] = file.read_bytes()
    completions = f"{data}/data/share/bash-completion/completions"
    files[f"{completions}/thinwire"] = (folder / "completion/thinwire.bash").read_bytes()
    files[f"{info}/licenses/LICENSE"] = (folder / "LICENSE").read_bytes()
    description = (folder / "README.md").read_text()
    files[f"{info}/METADATA"] = METADATA.format(version=version, description=description).encode()
    files[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()
    record = f"{info}/RECORD"
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(text)}\n")
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    return files.items()


def main():
    folder, version, machine, out = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
    tag = f"py3-none-manylinux_2_31_{machine}"
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(out / f"thinwire-{version}-{tag}.whl", "w") as wheel:
        for name, text in contents(folder, version, tag):
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: the rights below count
            entry.external_attr = (0o100755 if ".data/scripts/" in name else 0o100644) << 16
            wheel.writestr(entry, text, compresslevel=9)


main()
