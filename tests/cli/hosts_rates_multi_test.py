"""The rates within which a member keeps its traffic, `join --up RATE --down RATE`, measured on its connection."""

import bisect
import itertools
import socket
import threading
import time
import unittest

from hosts_case import HostsCase

CHUNK = 256 << 10  # that may go at once


class CountingProxy:
    """Passes connections on, and notes when how many bytes went each way."""

    def __init__(self, port):
        self.server = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.moved = {"up": [], "down": []}
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                member, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.server)
            except OSError:  # the run is over
                member.close()
                continue
            for way, source, target in (("up", member, server), ("down", server, member)):
                threading.Thread(target=self.pass_on, args=(way, source, target), daemon=True).start()

    def pass_on(self, way, source, target):
        try:
            while data := source.recv(1 << 16):
                self.moved[way].append((time.monotonic(), len(data)))
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()  # the other thread closes the other one

    def totals(self, way):
        """Times, and how many bytes had gone by then."""
        moved = sorted(self.moved[way])
        return [at for at, _ in moved], list(itertools.accumulate(count for _, count in moved))


class HostsRates(HostsCase):
    # 3 M parameters, 13 MB: the member receives them first, and gives them to the coordinator in the end.
    fields = [*HostsCase.fields, "model.hidden=256", "model.layers=4", "model.heads=4", "llama.intermediate=512",
              "train.steps=1", "train.workers=1", "train.batch=1", "schedule.warmup=1", "sync.method=distro"]
    rate = 16e6 / 8  # bytes a second

    def join_through_proxy(self, *options):
        server = self.serve()
        proxy = CountingProxy(int(self.ready["address"].rsplit(":", 1)[1]))
        self.addCleanup(proxy.listener.close)
        member = self.join("member", *options, address=proxy.address)
        self.assert_complete(server, member=member)
        return proxy

    def assert_within(self, proxy, way, first, last):
        """What went this way between these shares of the whole kept within the rate."""
        times, totals = proxy.totals(way)
        self.assertGreater(totals[-1], 10e6)
        begin, end = (bisect.bisect_left(totals, share * totals[-1]) for share in (first, last))
        rate = (totals[end] - totals[begin]) / (times[end] - times[begin])
        self.assertLess(rate, 1.05 * self.rate, way)
        self.assertGreater(rate, 0.85 * self.rate, f"{way}: this machine may be slow, but not by so much")
        for i, start in enumerate(times[:-1]):
            j = bisect.bisect_right(times, start + 4) - 1
            if times[j] - start < 3:
                continue
            allowed = 1.05 * self.rate * (times[j] - start) + 2 * CHUNK
            self.assertLess(totals[j] - totals[i], allowed, f"{way}, {times[j] - start:.1f} s")

    def test_a_member_keeps_its_traffic_within_the_rates(self):
        proxy = self.join_through_proxy("--up", "16Mbps", "--down", "16 Mbit/s")
        self.assert_within(proxy, "down", 0.15, 0.9)
        self.assert_within(proxy, "up", 0.3, 0.9)

    def test_without_rates_it_does_not(self):
        proxy = self.join_through_proxy()
        with self.assertRaises(AssertionError):
            self.assert_within(proxy, "down", 0.15, 0.9)

    def test_a_rate_needs_a_unit_and_a_server(self):
        nobody = "127.0.0.1:9"
        member = self.start("join", nobody, "--token", "TW5", "--up", "5")
        self.assert_refused(member, 2, "--up")


if __name__ == "__main__":
    unittest.main()
