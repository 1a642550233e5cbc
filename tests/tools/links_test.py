import os
import shutil
import subprocess
import sys
import unittest

from tool_case import TOOLS, ToolCase

BENCH = TOOLS.parent / "bench"
sys.path += [str(BENCH), str(TOOLS)]

import links_cases  # noqa: E402
import shaped_links  # noqa: E402


def link(*rates, rate_s=0.01, up=10e6, down=100e6):
    """A link whose bytes up and down grow by these shares of its rates in each sample."""
    samples, sent, received = [(0.0, 0, 0)], 0, 0
    for number, (share_up, share_down) in enumerate(rates):
        sent += share_up * up / 8 * rate_s
        received += share_down * down / 8 * rate_s
        samples.append(((number + 1) * rate_s, sent, received))
    return shaped_links.Link(samples, (up, down))


class Transfers(unittest.TestCase):
    def test_short_pauses_do_not_end_a_transfer(self):
        one = link(*[(0, 0)] * 5, *[(1, 0.1)] * 20, *[(0, 0)] * 10, *[(1, 0)] * 20, *[(0, 0)] * 30, *[(0.9, 0)] * 10)
        first, second = one.transfers(one.UP)
        self.assertAlmostEqual(first[0], 0.05)
        self.assertAlmostEqual(first[1], 0.55)
        self.assertAlmostEqual(first[2], 0.4 * 10e6 / 8)
        self.assertAlmostEqual(one.share(one.UP, first), 0.4 / 0.5)
        self.assertAlmostEqual(second[1] - second[0], 0.1)
        self.assertEqual(len(one.transfers(one.UP, gap=1)), 1)

    def test_acknowledgements_are_no_transfer(self):
        one = link(*[(0.14, 1)] * 30)
        self.assertEqual(one.transfers(one.UP), [])
        self.assertEqual(len(one.transfers(one.DOWN)), 1)

    def test_bytes_between_two_times(self):
        one = link(*[(1, 0)] * 10)
        self.assertAlmostEqual(one.bytes(one.UP, 0.0199, 0.0501), 0.03 * 10e6 / 8)
        self.assertEqual(one.bytes(one.UP, 5, 6), 0)


class Median(unittest.TestCase):
    def test_of_odd_and_even_numbers(self):
        self.assertEqual(links_cases.median([3, 1, 2]), 2)
        self.assertEqual(links_cases.median([4, 1, 2, 3]), 2.5)


class Links(ToolCase):
    def run_links(self, *arguments):
        path = os.pathsep.join([str(self.root), str(self.root / "none")])
        return subprocess.run([sys.executable, BENCH / "links", "--program", self.write("thinwire", ""), *arguments],
                              text=True, capture_output=True, env={**os.environ, "PATH": path})

    def test_says_what_is_missing(self):
        self.write("nats-server", "").chmod(0o755)
        done = self.run_links()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^links: (no program ip in PATH|.* need root)")

    def test_refuses_numbers_that_make_no_sense(self):
        for wrong in ("--members=1", "--members=9", "--up=0", "--row-seconds=-1", "--steps=3"):
            done = self.run_links(wrong)
            self.assertEqual(done.returncode, 1)
            self.assertIn("links: --members must be 2 to 8", done.stderr)


@unittest.skipIf(shaped_links.why_not(), "needs root, ip and tc")
class Namespaces(unittest.TestCase):
    def test_are_removed_when_something_fails(self):
        try:
            with shaped_links.Network(2, 10e6, 100e6) as network:
                place = network.place(network.members[0])
                done = subprocess.run([*place, "ping", "-c1", "-W2", f"{shaped_links.ADDRESS}.1"], capture_output=True) \
                    if shutil.which("ping") else None
                shaped = subprocess.run([*place, "tc", "qdisc", "show", "dev", "line"], capture_output=True, text=True)
                raise KeyError
        except KeyError:
            pass
        except OSError as error:
            self.skipTest(f"no namespaces here: {error}")
        self.assertIn("rate 10Mbit", shaped.stdout)
        if done is not None:
            self.assertEqual(done.returncode, 0)
        left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        self.assertNotIn(network.prefix, left)


if __name__ == "__main__":
    unittest.main()
