"""thinwire bench machine: the limits of this machine."""

import json
import os
import subprocess
import unittest

BINARY = os.environ["THINWIRE_BINARY"]


class BenchMachine(unittest.TestCase):
    def machine(self, *arguments):
        done = subprocess.run([BINARY, "bench", "machine", "--seconds", "0.01", *arguments],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_measures_one_thread_and_all(self):
        lines = [json.loads(line) for line in self.machine("--threads", "2", "--json").splitlines()]
        self.assertEqual([line["threads"] for line in lines], [1, 2])
        for line in lines:
            for figure in ("gemm_fp32_flop_s", "gemm_bf16_flop_s", "read_byte_s", "copy_byte_s"):
                self.assertGreater(line[figure], 1e8, figure)
                self.assertLess(line[figure], 1e15, figure)

    def test_prints_a_table_for_people(self):
        table = self.machine("--threads", "1")
        self.assertIn("GFLOP/s", table)
        self.assertEqual(len(table.splitlines()), 4)


if __name__ == "__main__":
    unittest.main()
