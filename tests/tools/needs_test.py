import os
import shutil
import subprocess
import sys
from pathlib import Path

import unittest

from tool_case import TOOLS, ToolCase

SOURCE = TOOLS.parent
SETUP = "tools/setup.sh test"
RELEASE = "cmake --build --preset release --target "


class Needs(ToolCase):
    """Runs the scripts of a copy of the tree, whose Python has no packages and PATH no programs."""

    def setUp(self):
        super().setUp()
        for folder in ("bench", "tools", "tests/golden"):
            shutil.copytree(SOURCE / folder, self.root / folder,
                            ignore=shutil.ignore_patterns("results", "*.safetensors", "*.cpp"))
        self.python = self.write(".venv/bin/python",
                                 f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        self.python.chmod(0o755)
        (self.root / "thinwire").mkdir()
        (self.root / "thinwire/a.cpp").write_text("")

    def run_script(self, name, *arguments):
        return subprocess.run([sys.executable, "-S", self.root / name, *arguments], text=True,
                              capture_output=True, env={**os.environ, "PATH": str(self.root)})

    def assert_names(self, command, name, *arguments):
        done = self.run_script(name, *arguments)
        self.assertEqual(done.returncode, 1, name)
        self.assertIn(command, done.stderr)
        self.assertTrue(done.stderr.startswith(Path(name).name + ": "), done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_benchmarks_name_the_command_that_installs_their_packages(self):
        self.assert_names(SETUP, "bench/step_vs_pytorch")
        self.assert_names(SETUP, "bench/distro_step")
        self.assert_names(SETUP, "bench/memory")
        self.python.unlink()
        self.assert_names(SETUP, "bench/step_vs_pytorch")

    def test_golden_scripts_name_the_command_that_installs_their_packages(self):
        scripts = [*(self.root / "tests/golden").glob("make_*.py"),
                   self.root / "tests/golden/stories260k_to_hf.py"]
        # These need no package.
        without = ("make_aggregation.py", "make_maths.py", "make_nkeys.py", "make_schedule.py", "make_shares.py")
        self.assertGreater(len(scripts), len(without))
        for script in scripts:
            if script.name not in without:
                with self.subTest(script=script.name):
                    self.assert_names(SETUP, script.relative_to(self.root))

    def test_names_only_what_is_missing(self):
        site = self.root / "site/safetensors"
        site.mkdir(parents=True)
        (site / "__init__.py").write_text("")
        self.python.write_text(f'#!/bin/sh\nPYTHONPATH={site.parent} exec {sys.executable} -S "$@"\n')
        done = self.run_script("bench/step_vs_pytorch")
        self.assertIn("no Python package torch, numpy in .venv", done.stderr)

    def test_checks_name_the_command_that_installs_their_programs(self):
        self.assert_names(SETUP, "tools/check_format.py")
        self.assert_names(SETUP, "tools/run_tidy.py")
        self.assert_names(SETUP, "tools/tables_to_jsonl.py", "a.parquet", "--out", "a.jsonl")

    def test_benchmarks_name_the_command_that_builds_their_program(self):
        self.python.write_text("#!/bin/sh\n")  # misses no package
        self.assert_names(RELEASE + "thinwire", "bench/step_vs_pytorch")
        self.assert_names(RELEASE + "sync_bench", "bench/distro_step")
        self.assert_names("tools/setup.sh build", "bench/plan_against_runs")
        self.write("mpirun", "").chmod(0o755)
        self.assert_names(RELEASE + "thinwire", "bench/plan_against_runs")
        self.assert_names(RELEASE + "thinwire", "bench/memory")
        self.assert_names(RELEASE + "thinwire", "bench/soak")
        self.assert_names(RELEASE + "thinwire", "bench/links")


if __name__ == "__main__":
    unittest.main()
