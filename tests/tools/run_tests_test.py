import os
import re
import shutil
import subprocess
import unittest

from tool_case import TOOLS, ToolCase

SOURCE = TOOLS.parent
# Stands in for tools/setup.sh, cmake and ctest: records how it was called.
RECORD = '#!/bin/sh\necho "$(basename "$0") $*" >>"$RECORD"\n'


class RunTests(ToolCase):
    def setUp(self):
        super().setUp()
        for name in ("run-tests", ".ci/run"):
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(SOURCE / name, self.root / name)
        for name in ("tools/setup.sh", "bin/cmake", "bin/ctest"):
            self.write(name, RECORD).chmod(0o755)

    def calls(self, script, *arguments):
        """The commands that a script runs, without the number of parallel tests."""
        record = self.root / "calls"
        record.write_text("")
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        subprocess.run(["bash", self.root / script, *arguments], check=True,
                       env={**os.environ, "PATH": path, "RECORD": str(record)})
        return re.sub(r" --parallel \d+", "", record.read_text()).splitlines()

    def assert_ctest_gets(self, expected, script, *arguments):
        calls = self.calls(script, *arguments)
        self.assertEqual(calls[0], "setup.sh test")
        self.assertEqual(calls[-1], f"ctest --preset dev{expected}")

    def test_quick_tests_alone_without_arguments(self):
        self.assert_ctest_gets(" -L ^(unit|multi)$", "run-tests")

    def test_all_tests_by_choice_and_in_ci(self):
        self.assert_ctest_gets("", "run-tests", "--all")
        self.assert_ctest_gets(" -j 1", "run-tests", "--all", "-j", "1")
        self.assert_ctest_gets("", ".ci/run")

    def test_other_arguments_go_to_ctest(self):
        self.assert_ctest_gets(" -L slow", "run-tests", "-L", "slow")
        self.assert_ctest_gets(" -R codec", "run-tests", "-R", "codec")


if __name__ == "__main__":
    unittest.main()
