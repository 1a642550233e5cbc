"""tools/count_sources.py on a small tree, and on what it was a commit earlier."""

import subprocess
import unittest

from tool_case import ToolCase


class CountSources(ToolCase):
    def setUp(self):
        super().setUp()
        self.put("thinwire/base/a.h", 10)
        self.put("thinwire/base/a.cpp", 600, '#include "thinwire/base/a.h"')
        self.put("thinwire/methods/one/one_spec.h", 40)
        self.put("thinwire/sync/use.cpp", 35, '#include "thinwire/methods/one/one_spec.h"')

    def put(self, name, lines, first="//"):
        self.write(name, f"{first}\n" + "//\n" * (lines - 1))

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words], cwd=self.root, check=True)

    def count(self, *options):
        done = self.run_tool("count_sources.py", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_counts_lines_headers_and_who_includes_them(self):
        said = self.count("--list")
        self.assertIn("lines 685, files 4, median 38, headers 2", said)
        self.assertIn("files below 30 lines: 1", said)
        self.assertIn("  thinwire/base/a.h (10)", said)
        self.assertIn("files above 500 lines: 1", said)
        self.assertIn("headers with one includer: 1", said)
        self.assertIn("  thinwire/methods/one/one_spec.h (40) <- thinwire/sync/use.cpp", said)
        self.assertIn("files of thinwire/ that include methods/one: 1", said)

    def test_compares_with_an_earlier_commit(self):
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "x")
        self.put("thinwire/base/a.cpp", 100)
        self.put("thinwire/new/b.cpp", 50)
        now = [line.split() for line in self.count("--since", "HEAD")]
        self.assertIn(["base", "110", "610", "-500"], now)
        self.assertIn(["new", "50", "0", "+50"], now)
        self.assertIn(["sync", "35", "35", "+0"], now)
        self.assertEqual(self.count("--at", "HEAD")[0], "lines 685, files 4, median 38, headers 2")


if __name__ == "__main__":
    unittest.main()
