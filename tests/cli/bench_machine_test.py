"""thinwire bench machine: the limits of this machine; the instructions that it uses."""

import json
import os
import subprocess
import unittest

BINARY = os.environ["THINWIRE_BINARY"]


class BenchMachine(unittest.TestCase):
    def set_used(self, *limit):
        done = subprocess.run([BINARY, *limit, "--version"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()[-1].removeprefix("instruction set").strip()

    def test_uses_no_newer_instructions_than_it_is_told(self):
        if not self.set_used().startswith(("AVX-512", "AVX3", "AVX2")):
            self.skipTest(f"this processor has only {self.set_used()}")
        self.assertEqual(self.set_used("--instructions", "avx2"), "AVX2")
        self.assertNotIn("bf16", self.set_used("--instructions", "avx512"))

    def test_refuses_other_instructions(self):
        done = subprocess.run([BINARY, "--instructions", "mmx", "--version"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("instructions must be one of avx2, avx512, got \"mmx\"", done.stderr)

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
