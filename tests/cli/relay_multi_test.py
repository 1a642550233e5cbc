"""`thinwire relay`: members behind a relay end with the bits of `thinwire train`, also when the relay is killed, and
each payload crosses the line of their site once."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from cluster_case import ClusterCase
from hosts_case import BINARY, PATIENCE, HostsCase

sys.path.append(str(Path(os.environ["THINWIRE_SOURCE_DIR"]) / "bench"))

import shaped_links  # noqa: E402


class Relays:
    """Beside HostsCase or a class that extends it."""

    def relay(self, name="relay", listen="127.0.0.1:0", place=(), options=()):
        """Starts or goes on with a relay before this test's run, and returns once members may join."""
        ready = self.folder / f"{name}.json"
        ready.unlink(missing_ok=True)
        one = self.start("relay", self.ready["address"], "--token", self.ready["token"], "--listen", listen, "--dir",
                         self.folder / name, "--ready-file", ready, *options, place=place)
        one.wait_for("thinwire join")
        self.site = json.loads(ready.read_text())
        return one

    def join_behind(self, name, *fields, place=()):
        return self.join(name, *fields, token=self.site["token"], address=self.site["address"], place=place)

    def end(self, relay):
        relay.signal(signal.SIGINT)
        self.assertEqual(relay.finish(), 0, relay.messages)
        return relay.process.stdout.read()


class Relay(Relays, HostsCase):
    def test_members_behind_it_end_with_the_same_bits(self):
        fields = ("train.workers=3", "train.batch=6", "sync.method=distro", "train.steps=30")
        server = self.serve(*fields)
        relay = self.relay()
        members = {"far": self.join("far"), "near1": self.join_behind("near1"), "near2": self.join_behind("near2")}
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))
        self.assertRegex(self.end(relay), "passed on .*B to this site's machines; .*B came from the run")

    def test_a_relay_that_was_killed_goes_on_at_the_same_address(self):
        fields = ("train.workers=3", "train.batch=6", "sync.method=distro", "train.steps=600")
        server = self.serve(*fields)
        relay = self.relay()
        members = {"far": self.join("far"), "near1": self.join_behind("near1"), "near2": self.join_behind("near2")}
        before = self.site
        while self.status()["step"] < 5:
            pass
        relay.kill()
        relay = self.relay()
        self.assertEqual(self.site, before)
        digest = self.assert_complete(server, **members)
        for name in members:
            self.assertEqual(self.summary(name)["steps"], 600)
        self.assertEqual(len(digest), 16)
        self.end(relay)

    def test_a_member_may_leave_it_for_the_run_itself(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=600", "sync.timeout_s=40")
        server = self.serve(*fields)
        relay = self.relay()
        members = {"far": self.join("far"), "near": self.join_behind("near")}
        while self.status()["step"] < 5:
            pass
        members["near"].kill()
        relay.kill()
        members["near"] = self.join("near")  # in the same folder, with the run's own token
        self.assert_complete(server, **members)
        self.assertNotIn("member 2", server.messages)

    def test_every_command_works_behind_it(self):
        self.serve("train.workers=2", "sync.method=distro")
        self.relay()
        access = (self.site["address"], "--token", self.site["token"])
        for command, expected in (("status", "tiny: distro, round 0"), ("doctor", "round trip")):
            done = subprocess.run([BINARY, command, *access], capture_output=True, text=True, check=True,
                                  timeout=PATIENCE)
            self.assertIn(expected, done.stdout)
        own = ("--token", self.ready["token"], "--ca", self.site["ca"])  # any token of the run will do
        done = subprocess.run([BINARY, "status", self.site["address"], *own], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_it_says_when_the_run_cannot_be_reached(self):
        fields = ("train.workers=1", "sync.method=distro", "train.steps=20")
        server = self.serve(*fields)
        relay = self.relay()
        server.kill()
        member = self.join_behind("near")
        relay.wait_for(f"{self.ready['address']} cannot be reached (Connection refused); members try again")
        member.wait_for(f"nobody answers at {self.site['address']}; waits for the run's server")
        server = self.serve(*fields)
        relay.wait_for(f"{self.ready['address']} can be reached again")
        self.assert_complete(server, near=member)

    def test_refuses_what_it_cannot_use(self):
        self.serve("train.workers=1")
        token = ("--token", self.ready["token"])
        folder = ("--dir", self.folder / "relay")
        refused = self.start("relay", self.ready["address"], *token, *folder, "--listen", "nowhere")
        self.assert_refused(refused, 2, "--listen must be HOST:PORT", "got 'nowhere'")
        refused = self.start("relay", self.ready["address"], *token, *folder, "--address", "nowhere:x")
        self.assert_refused(refused, 2, "--address must be HOST:PORT", "got 'nowhere:x'")
        refused = self.start("relay", self.ready["address"], "--token", "TW5ABC", *folder)
        self.assert_refused(refused, 2, "this is not a join token")
        refused = self.start("relay", "127.0.0.1:1", *token, *folder, "--wait", "0")
        self.assert_refused(refused, 1, "cannot reach the run at 127.0.0.1:1")
        self.assertFalse((self.folder / "relay").exists())
        self.relay()
        second = self.start("relay", self.ready["address"], *token, *folder)
        self.assert_refused(second, 1, "another process is using")

    def test_comes_back_although_its_token_was_revoked(self):
        fields = ("train.workers=2", "train.batch=4", "sync.method=distro", "train.steps=300")
        server = self.serve(*fields)
        own = self.ready["token"]
        self.ready["token"] = self.keys("issue")
        relay = self.relay()
        members = {"far": self.join("far", token=own),
                   "near": self.join("near", "--ca", self.site["ca"], token=own, address=self.site["address"])}
        members["near"].wait_for("step")
        relay.kill()
        unused = [line.split()[0] for line in self.keys("list").splitlines() if "used by 0 keys" in line]
        self.assertEqual(len(unused), 1)
        self.keys("revoke", unused[0])
        self.wait_until_refused(self.ready["token"])
        relay = self.relay()
        self.assertIn("no longer accepts the token", relay.messages)
        other = self.start("relay", self.ready["address"], "--token", self.ready["token"], "--dir",
                           self.folder / "other")
        self.assert_refused(other, 1, "does not accept the token")
        self.assert_complete(server, **members)

    def test_a_relay_that_finds_another_runs_server_ends(self):
        self.serve("train.workers=2")
        relay = self.relay()
        relay.kill()
        base, token = self.folder, self.ready["token"]
        self.folder = self.folder / "other"
        self.folder.mkdir()
        self.serve("train.workers=2")
        self.folder = base
        other = self.start("relay", self.ready["address"], "--token", token, "--dir", self.folder / "relay")
        self.assert_refused(other, 1, f"the server at {self.ready['address']} is not of the token's run")

    def wait_until_refused(self, token):
        """Returns once the run's server has taken in that the token was revoked, which happens a moment later."""
        command = [BINARY, "status", self.ready["address"], "--token", token]
        deadline = time.monotonic() + PATIENCE
        while subprocess.run(command, capture_output=True, timeout=PATIENCE).returncode == 0:
            self.assertLess(time.monotonic(), deadline, "the server still accepts the token")

    def keys(self, *arguments):
        done = subprocess.run([BINARY, "keys", *arguments[:1], f"{self.folder}/serve", *arguments[1:]],
                              capture_output=True, text=True, check=True, timeout=PATIENCE)
        return done.stdout.strip()


class OfACluster(Relays, ClusterCase):
    own_cluster = True

    def test_it_goes_on_when_a_server_of_the_cluster_is_killed(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=600", "sync.timeout_s=120")
        server = self.serve(*fields)
        relay = self.relay()
        members = {"far": self.join("far"), "near": self.join_behind("near")}
        self.wait_for_step(5)
        self.cluster.kill(0)  # the one that the relay connects to first
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))
        self.end(relay)


@unittest.skipIf(shaped_links.why_not(), shaped_links.why_not())
class Line(Relays, HostsCase):
    """Two members at one site, in a network namespace with one line, and a member elsewhere."""

    def setUp(self):
        super().setUp()
        self.network = self.enterContext(shaped_links.Network(members=2))
        self.addCleanup(self.end_all)  # before the network goes
        self.server_place = self.network.place(self.network.server)
        self.site_place, self.far_place = map(self.network.place, self.network.members)

    def received(self):
        """Bytes that have come over the site's line."""
        name = f"/sys/class/net/{self.network.links[0]}/statistics/tx_bytes"
        done = subprocess.run([*self.server_place, "cat", name], capture_output=True, text=True, check=True)
        return int(done.stdout)

    def run_at_site(self, server, join):
        """The run's digest, and the bytes that came over the line once both members had checked it and were admitted."""
        members = {f"near{i}": join(f"near{i}", place=self.site_place) for i in (1, 2)}
        server.wait_for("member 1")
        before = self.received()
        members["far"] = self.join("far", place=self.far_place)
        return self.assert_complete(server, **members), self.received() - before

    def test_each_payload_comes_over_the_line_once(self):
        fields = ("train.workers=3", "train.batch=6", "sync.method=allreduce", "train.steps=10", "model.hidden=128",
                  "llama.intermediate=256", "model.layers=2")
        listen = f"{shaped_links.ADDRESS}.1:0"
        digest, without = self.run_at_site(self.serve(*fields, listen=listen), self.join)
        for name in ("serve", "near1", "near2", "far"):
            shutil.rmtree(self.folder / name)
        server = self.serve(*fields, listen=listen)
        relay = self.relay(place=self.site_place)
        same, behind = self.run_at_site(server, self.join_behind)
        self.end(relay)
        self.assertEqual(same, digest)
        # Both received the far member's payload and each other's without it; with it the former comes once, the latter not at all.
        self.assertLess(behind, 0.3 * without, f"{behind} B with a relay, {without} B without")


if __name__ == "__main__":
    unittest.main()
