import base64
import hashlib
import json
import os
import subprocess
import sys
import unittest
import zipfile

from tool_case import TOOLS, ToolCase


# Prints help as thinwire does, of two commands, one of which has a command of its own.
PROGRAM = """#!/bin/sh
case "$*" in
  --version) echo "thinwire 0.1.0 (commit unknown)" ;;
  --help) printf '%s\\n' 'Trains models' 'Usage: thinwire SUBCOMMAND' '' 'Options:' '  -h,--help    Print this' '' \\
    'Train a model:' '  train        Trains' '' 'Plan and set up:' '  plan         Plans' '' 'Examples:' \\
    '  thinwire train mine.toml    train' '' 'Exit status: 0 done' ;;
  'train --help') printf '%s\\n' 'Trains, as' '.json says, it-self' 'Usage: thinwire train recipe' '' 'Options:' \\
    '  --markdown Needs: --plot' '                              Print a table' '' 'Exit status: 0 done' ;;
  'plan --help') printf '%s\\n' 'Plans' 'Usage: thinwire plan SUBCOMMAND' '' 'Subcommands:' '  loss       Predicts' ;;
  'plan loss --help') printf '%s\\n' 'Predicts' 'Usage: thinwire plan loss' ;;
  *) exit 2 ;;
esac
"""


class Package(ToolCase):
    """What tools/package.sh makes of a folder with programs."""

    def run_packer(self, name, *arguments):
        return subprocess.run([sys.executable, TOOLS / "package" / name, *arguments], text=True, check=True,
                              capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}).stdout

    def setUp(self):
        super().setUp()
        for name in ("bin/thinwire", "bin/nats-server", "recipes/tiny.toml", "completion/thinwire.bash",
                     "man/man1/thinwire.1", "licenses/zlib1g-dev", "LICENSE", "README.md"):
            self.write(f"package/{name}", f"this is {name}\n")

    def wheel(self):
        out = self.root / "out"
        out.mkdir(exist_ok=True)
        self.run_packer("make_wheel.py", self.root / "package", "0.1.0", "x86_64", out)
        return out / "thinwire-0.1.0-py3-none-manylinux_2_31_x86_64.whl"

    def test_wheel_records_each_of_its_files(self):
        with zipfile.ZipFile(self.wheel()) as wheel:
            names = wheel.namelist()
            record = wheel.read("thinwire-0.1.0.dist-info/RECORD").decode().splitlines()
            self.assertEqual(record[-1], "thinwire-0.1.0.dist-info/RECORD,,")
            self.assertEqual([line.split(",")[0] for line in record], names)
            for line in record[:-1]:
                name, digest, size = line.split(",")
                content = wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), (f"sha256={expected}", len(content)), name)

    def test_wheel_has_programs_that_may_be_run_and_all_licences(self):
        with zipfile.ZipFile(self.wheel()) as wheel:
            rights = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in wheel.infolist()}
        self.assertEqual(rights["thinwire-0.1.0.data/scripts/thinwire"], 0o755)
        self.assertEqual(rights["thinwire-0.1.0.data/scripts/nats-server"], 0o755)
        self.assertEqual(rights["thinwire-0.1.0.data/data/share/thinwire/recipes/tiny.toml"], 0o644)
        self.assertEqual(rights["thinwire-0.1.0.data/data/share/man/man1/thinwire.1"], 0o644)
        self.assertIn("thinwire-0.1.0.dist-info/licenses/zlib1g-dev", rights)
        self.assertIn("thinwire-0.1.0.dist-info/licenses/LICENSE", rights)

    def test_wheel_has_the_python_package(self):
        with zipfile.ZipFile(self.wheel()) as wheel:
            names = wheel.namelist()
            metadata = wheel.read("thinwire-0.1.0.dist-info/METADATA").decode()
        self.assertIn("thinwire/__init__.py", names)
        self.assertIn("thinwire/torch.py", names)
        self.assertIn("thinwire/py.typed", names)
        self.assertFalse([name for name in names if "__pycache__" in name])
        self.assertIn("Requires-Python: >=3.9\n", metadata)

    def test_same_folder_gives_the_same_wheel(self):
        first = self.wheel().read_bytes()
        for file in (self.root / "package").rglob("*"):
            os.utime(file, (1, 1))
        self.assertEqual(self.wheel().read_bytes(), first)

    def test_manual_has_each_command_of_the_help(self):
        program = self.write("program", PROGRAM)
        program.chmod(0o755)
        page = self.run_packer("make_man.py", program).splitlines()
        self.assertIn('.TH THINWIRE 1 "2023-11-14" "thinwire 0.1.0"', page)
        self.assertEqual([line for line in page if line.startswith(".SH")], [
            ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", '.SH "THINWIRE TRAIN"', '.SH "THINWIRE PLAN"',
            '.SH "THINWIRE PLAN LOSS"'])
        self.assertIn(r"""\&.json says, it\-self""", page)
        option = page.index(r".B \-\-markdown Needs: \-\-plot")
        self.assertEqual(page[option - 1:option + 2], [".TP", r".B \-\-markdown Needs: \-\-plot", "Print a table"])
        self.assertNotIn("Exit status: 0 done", "\n".join(page[page.index('.SH "THINWIRE TRAIN"'):]))

    def test_bill_of_materials_names_what_is_linked(self):
        linked = self.write("linked", "libstdc++-12-dev 12.2.0-14\nzlib1g-dev 1:1.2.13\n")
        bill = json.loads(self.run_packer("make_sbom.py", "thinwire-0.1.0-x86_64-linux", "0.1.0", linked))
        self.assertEqual([(one["name"], one["versionInfo"]) for one in bill["packages"]],
                         [("thinwire", "0.1.0"), ("libstdc++-12-dev", "12.2.0-14"), ("zlib1g-dev", "1:1.2.13")])
        self.assertEqual(bill["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        identifiers = {one["SPDXID"] for one in bill["packages"]}
        for identifier in identifiers:
            self.assertRegex(identifier, r"^SPDXRef-[A-Za-z0-9.-]+$")
        related = [one["relatedSpdxElement"] for one in bill["relationships"]]
        self.assertEqual(set(related), identifiers)


if __name__ == "__main__":
    unittest.main()
