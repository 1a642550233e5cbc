"""thinwire bench codec: size and speed of DisTrO's payloads."""

import json
import math
import os
import subprocess
import unittest

BINARY = os.environ["THINWIRE_BINARY"]


def codec(*arguments):
    return subprocess.run([BINARY, "bench", "codec", "--rounds", "1", *arguments],
                          capture_output=True, text=True)


def cases(*arguments):
    done = codec("--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def bound(k, value_bits):
    """Bytes of the model of 51.7 M parameters, with tiles of 64 x 64 slots."""
    def tiles(count, slots, kept):
        return count * (math.log2(math.comb(slots, kept)) + kept * value_bits)
    share = max((k * 43 + 32) // 64, 1)
    vectors = tiles(13 * 8, 64, max((k * 64 + 2048) // 4096, 1))
    squares = tiles(2 * 4000 + 6 * 4 * 64, 4096, k)
    return (vectors + squares + tiles(6 * 3 * 256, 64 * 43, share)) / 8


class BenchCodec(unittest.TestCase):
    def test_payloads_are_within_three_percent_of_the_entropy_bound(self):
        results = cases()
        self.assertEqual([case["k"] for case in results], [1, 2, 4, 6, 16, 32, 64])
        for case in results:
            self.assertAlmostEqual(case["bound_bytes"] / bound(case["k"], 1), 1, delta=1e-6)
            self.assertAlmostEqual(case["ratio"], case["bytes"] / case["bound_bytes"], delta=1e-9)
            self.assertLess(case["ratio"], 1.03, case)
            self.assertGreater(case["ratio"], 1, case)
            self.assertGreater(case["encode_mb_s"], 0)
            self.assertGreater(case["decode_mb_s"], 0)

    def test_every_coding_of_values_has_its_bytes(self):
        results = cases("--values", "fp32,bf16,int8,1bit", "--k", "8", "--layers", "1")
        fp32, bf16, int8, one_bit = (case["bytes"] for case in results)
        self.assertAlmostEqual((fp32 - bf16) / (bf16 - int8), 2, delta=0.01)
        self.assertLess(one_bit, int8)

    def test_threads_do_not_change_the_bytes(self):
        self.assertEqual(cases("--k", "32", "--threads", "3")[0]["bytes"],
                         cases("--k", "32", "--threads", "1")[0]["bytes"])

    def test_prints_a_table_for_people(self):
        done = codec("--k", "4,32", "--layers", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ratio", done.stdout)
        self.assertIn("1bit", done.stdout)

    def test_names_what_is_wrong(self):
        done = codec("--chunk", "4", "--k", "17")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--k must be <= chunk * chunk = 16, got 17", done.stderr)


if __name__ == "__main__":
    unittest.main()
