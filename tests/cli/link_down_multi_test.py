"""A member's link that is down for a while: `thinwire serve` and `thinwire join` in network namespaces, which need
root."""

import os
import sys
import unittest
from pathlib import Path

from hosts_case import HostsCase

sys.path.append(str(Path(os.environ["THINWIRE_SOURCE_DIR"]) / "bench"))

import shaped_links  # noqa: E402

STEPS = 150
FIELDS = ("train.workers=3", "train.batch=6", "sync.method=distro", f"train.steps={STEPS}")
ROW_SECONDS = 0.05  # so that the run outlasts what is done to it


@unittest.skipIf(shaped_links.why_not(), shaped_links.why_not())
class LinkDown(HostsCase):
    def setUp(self):
        super().setUp()
        self.network = self.enterContext(shaped_links.Network(members=3))
        self.addCleanup(self.end_all)  # before the network goes
        self.server_place = self.network.place(self.network.server)

    def begin(self, *fields):
        server = self.serve(*FIELDS, *fields, listen=f"{shaped_links.ADDRESS}.1:0")
        members = {f"member{i}": self.join(f"member{i}", "--row-seconds", ROW_SECONDS, place=self.network.place(name))
                   for i, name in enumerate(self.network.members)}
        self.wait_for_step(3)
        return server, members

    def wait_for_step(self, step):
        while self.status()["step"] < step:
            pass

    def set_link(self, number, state):
        """Sets the link of the member of that number, at the server's end."""
        self.network.of(self.network.server, "ip", "link", "set", self.network.links[number], state)

    def assert_whole(self, server, members):
        """Nothing was lost: one digest, all steps, one history."""
        self.assert_complete(server, **members)
        for name, one in members.items():
            self.assertEqual(self.summary(name)["steps"], STEPS)
            self.assertNotIn("history changed", one.messages)
        self.assertNotIn("member 3", server.messages)

    def test_a_member_whose_link_was_down_for_less_than_the_time_out_goes_on(self):
        server, members = self.begin("sync.timeout_s=40")  # lost after 10 s, absent after 2
        self.set_link(2, "down")
        self.wait_for_step(self.status()["step"] + 5)  # the others go on without it
        self.set_link(2, "up")
        server.wait_for("is late")
        server.wait_for("is active", server.messages.index("is late"))
        self.assert_whole(server, members)
        self.assertNotIn("is lost", server.messages)

    def test_a_member_whose_link_was_down_for_longer_comes_back(self):
        server, members = self.begin("sync.timeout_s=12")  # lost after 3 s
        self.set_link(2, "down")
        server.wait_for("is lost")
        self.set_link(2, "up")
        server.wait_for("is active", server.messages.index("is lost"))
        self.assert_whole(server, members)


if __name__ == "__main__":
    unittest.main()
