"""`thinwire serve --sites`: each site has a server of its own, which keeps what its members store, and the others fetch
it straight from there."""

import base64
import subprocess
import time
import unittest

from cluster_case import HOSTS, SERVERS, ClusterCase
from hosts_case import BINARY, PATIENCE
from relay_multi_test import Relays


class Sites(Relays, ClusterCase):
    fields_of_run = ("train.workers=3", "train.batch=6", "sync.method=distro")

    def serve_sites(self, *fields, **more):
        return self.serve(*self.fields_of_run, *fields, options=("--sites",), **more)

    def join_at(self, number, *options, name=None, **more):
        return self.join(name or f"member{number}", *options, address=self.cluster.address(number), **more)

    def holders(self, number):
        """Who stores on this server in this test's run, and how many chunks of each."""
        run = self.run_name()
        return {one["name"].removeprefix(f"{run}-blobs-"): one["state"]["messages"]
                for one in self.cluster.streams(number) if one["name"].startswith(f"{run}-blobs")}

    def holders_once(self, condition):
        """The holders of every server, once the condition is met: a busy server leaves streams out of its list at times."""
        deadline = time.monotonic() + PATIENCE
        while True:
            at = [self.holders(number) for number in range(SERVERS)]
            if condition(at):
                return at
            self.assertLess(time.monotonic(), deadline, at)

    def run_name(self):
        """As it is in the token: after the secret and an address, each of the two with its length before it."""
        letters = self.ready["token"][len("TW4"):]
        bytes = base64.b32decode(letters + "=" * (-len(letters) % 8))[32:]
        for _ in range(2):
            length = int.from_bytes(bytes[:4], "little")
            text, bytes = bytes[4:4 + length], bytes[4 + length:]
        return text.decode()

    def test_payloads_stay_at_their_members_sites(self):
        fields = (*self.fields_of_run, "train.steps=20")
        server = self.serve_sites("train.steps=20")
        server.wait_for(f"{', '.join(map(self.cluster.address, range(SERVERS)))}; members join with")
        members = {}
        holders = []
        for number in range(SERVERS):
            before = set(self.holders(number))
            members[f"member{number}"] = self.join_at(number)
            server.wait_for(f"member {number}")
            holders += set(self.holders_once(lambda at: set(at[number]) - before)[number]) - before
        digest = self.assert_complete(server, **members)
        self.assertEqual(digest, self.trained_digest(*fields))
        at = self.holders_once(lambda at: [len(one) for one in at] == [2, 1, 1])  # the coordinator's are with the first
        for number, holder in enumerate(holders):
            self.assertGreaterEqual(at[number].pop(holder), 20)
            self.assertNotIn(holder, set().union(*at))
        for number in range(SERVERS):
            self.assertTrue(any(one["name"].endswith("-log-ledger") for one in self.cluster.streams(number)))

    def test_a_member_joins_at_another_site_while_the_run_goes_on(self):
        fields = ("train.steps=600", "sync.timeout_s=40")
        server = self.serve(*fields, "train.workers=2", "sync.method=distro", options=("--sites",))
        members = {"member0": self.join_at(0), "member1": self.join_at(1)}
        self.wait_for_step(5)
        before = len(server.messages)
        members["member2"] = self.join_at(2)
        server.wait_for("is active", after=before)
        self.assert_complete(server, **members)
        self.assertEqual(len(self.holders(2)), 1)

    def test_a_site_without_a_server_is_named(self):
        self.serve_sites("train.steps=20")
        stray = self.join_at(1, "--site", "attic.example.org")
        self.assert_refused(stray, 1, "no server with room is at the site attic.example.org", *HOSTS)
        self.assertEqual(self.holders(1), {})

    def test_only_members_are_given_a_store(self):
        self.serve_sites("train.steps=20")
        token = subprocess.run([BINARY, "keys", "issue", f"{self.folder}/serve", "--role", "auditor"], check=True,
                               capture_output=True, text=True, timeout=PATIENCE).stdout.strip()
        self.assert_refused(self.join_at(1, token=token), 1, "is an auditor's: it checks what members send, with `thinwire join --audit`")
        self.assertEqual(self.holders(1), {})

    def test_members_behind_a_relay_name_their_site(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=20")
        server = self.serve(*fields, options=("--sites",))
        relay = self.relay()
        members = {name: self.join_behind(name, "--site", HOSTS[0]) for name in ("near1", "near2")}
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))
        self.assertEqual([len(self.holders(number)) for number in range(SERVERS)], [3, 0, 0])
        self.assertRegex(self.end(relay), "passed on .*B to this site's machines")

    def test_a_member_stays_at_its_site(self):
        self.serve_sites("train.steps=20")
        member = self.join_at(1)
        member.wait_for("the run waits for members")
        member.kill()
        self.assert_refused(self.join_at(2, name="member1"), 1, f'kept at the site "{HOSTS[1]}", not at {HOSTS[2]}')

    def test_sites_are_for_good(self):
        server = self.serve_sites("train.steps=20")
        server.kill()
        other = self.start("serve", "recipe.toml", *self.fields, *self.fields_of_run, "train.steps=20",
                           f"run.name={self.folder.name}", f"run.dir={self.folder}/serve", "--nats",
                           self.cluster.urls(), "--creds", self.cluster.key, "--ca", self.cluster.ca)
        self.assert_refused(other, 1, "the cluster keeps the run's payloads apart for each site; serve it with --sites")


if __name__ == "__main__":
    unittest.main()
