"""What goes wrong while a run is served on loopback: processes that are killed and go on, and folders that are put back."""

import os
import re
import shutil
import signal
import time
import unittest
from pathlib import Path

from hosts_case import HostsCase


class Killed(HostsCase):
    """Members and servers that are killed, or start while others are down, and go on."""

    def test_a_served_run_that_was_killed_goes_on_at_the_same_address(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=1000")
        server, members = self.run_of(2, *fields)
        before = self.ready
        server.wait_for("is active")
        server.kill()
        server = self.serve(*fields)
        self.assertEqual(self.ready, before)
        server.wait_for("the run goes on from round ")
        self.assertIn("it had 2 members before: ", server.messages)
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))

    def test_members_that_start_while_the_run_is_down_wait_for_it(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=1000")
        server, members = self.run_of(1, *fields)
        server.wait_for("member 0")
        members["member0"].kill()
        server.kill()
        members = {name: self.join(name) for name in ("member0", "member1")}
        for one in members.values():  # one has been in the run before, one has not
            one.wait_for(f"nobody answers at {self.ready['address']}; waits for the run's server")
        server = self.serve(*fields)
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))

    def test_a_nats_server_that_was_killed_is_started_again(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=1000")
        server, members = self.run_of(2, *fields)
        server.wait_for("is active")
        os.kill(nats_server_of(server.process.pid), signal.SIGKILL)
        server.wait_for("nats-server has ended; it is started again")
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))

    def test_a_member_that_was_killed_returns_under_its_id(self):
        server, members = self.run_of(2, "sync.method=distro", "train.steps=1000", "sync.timeout_s=20")
        server.wait_for("is active")
        members["member1"].kill()
        members["member1"] = self.join("member1")
        self.assert_complete(server, **members)
        self.assertEqual(server.messages.count("member 2"), 0, server.messages)


def nats_server_of(parent):
    """The process id of its child nats-server."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        name, rest = stat[stat.index("(") + 1:].rsplit(")", 1)
        if name == "nats-server" and int(rest.split()[1]) == parent:
            return int(entry.name)
    raise AssertionError("there is no nats-server")


class Unwritable(HostsCase):
    def test_what_the_coordinator_cannot_note_does_not_end_the_run(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=20")
        server = self.serve(*fields)
        server.signal(signal.SIGINT)
        server.finish()
        noted = self.folder / "serve/server/ledger"
        noted.unlink(missing_ok=True)
        in_its_way = noted.with_name("ledger.partial")
        in_its_way.mkdir()
        server = self.serve(*fields)
        keys = self.folder / "serve/keys.json.partial"
        keys.mkdir()
        self.assert_refused(self.join("member0"), 1, f"cannot create {keys}")
        keys.rmdir()
        members = {name: self.join(name) for name in ("member0", "member1")}
        server.wait_for(f"cannot create {in_its_way}")
        self.assertIn("the run goes on without that, and it is tried again", server.messages)
        self.assert_complete(server, **members)


class OlderCopies(HostsCase):
    """Older copies of a run's store or folders are put back while members know better."""

    fields = (*HostsCase.fields, "sync.timeout_s=20", "sync.method=distro", "train.steps=600", "train.workers=2")

    slow = ("--row-seconds", "0.01")  # so that the run is not over before it is stopped, however busy the machine is

    def begin(self, *options):
        server = self.serve()
        return server, {name: self.join(name, *options) for name in ("member0", "member1")}

    def wait_for_step(self, step):
        while self.status()["step"] < step:
            pass

    def stop(self, *running):
        """At the same time: whoever is left goes on with the run alone, and much faster."""
        for one in running:
            one.signal(signal.SIGINT)
        for one in running:
            self.assertEqual(one.finish(), -signal.SIGINT, one.messages)

    def test_a_store_that_vanished_is_filled_by_the_members(self):
        server, members = self.begin(*self.slow)
        self.wait_for_step(5)
        self.stop(server)
        shutil.rmtree(self.folder / "serve/server/store")
        server = self.serve()
        server.wait_for("the store has lost the run's records 1 to ")
        server.wait_for("members gave back the run's records 1 to ")
        self.assert_complete(server, **members)
        given_back = int(re.search("gave back the run's records 1 to (\\d+)", server.messages).group(1))
        self.assertGreaterEqual(given_back, 5)

    def test_a_store_that_vanished_from_everybody_ends_the_run_with_the_reason(self):
        server, members = self.begin(*self.slow)
        self.wait_for_step(2)
        server.kill()
        for one in members.values():
            one.kill()
        shutil.rmtree(self.folder / "serve/server/store")
        self.assert_refused(self.serve(), 1, "The run is not begun anew", "a new run needs another run.dir")

    def test_a_folder_of_the_coordinator_that_is_an_older_copy_gets_what_it_lacks(self):
        server, members = self.begin(*self.slow)
        self.stop(server)
        shutil.copytree(self.folder / "serve", self.folder / "copy")
        server = self.serve()
        self.wait_for_step(20)
        self.stop(*members.values())
        self.stop(server)
        left = {name: re.search(r"left the run after step (\d+)", one.messages).group(1) for name, one in members.items()}
        (self.folder / "serve").rename(self.folder / "earlier")
        (self.folder / "copy").rename(self.folder / "serve")
        server, members = self.begin()
        server.wait_for("is an older copy or lost them; takes them back")
        server.wait_for("members gave back the run's records ")
        for name, one in members.items():
            one.wait_for(f"continues from its checkpoint after step {left[name]}")
        self.assert_complete(server, **members)

    def test_a_newcomer_needs_no_payloads_that_were_lost_with_a_member_that_left(self):
        """It would wait for the next snapshot, and the run is over before there is one."""
        self.fields = [*self.fields, "sync.timeout_s=10", "train.steps=90"]
        server, members = self.begin("--row-seconds", "0.2")
        self.wait_for_step(1)
        server.kill()
        ends = time.monotonic() + 30
        while any(self.folder.glob("serve/server/*.ports")):  # nats-server ends a moment after its parent
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.05)
        shutil.copytree(self.folder / "serve", self.folder / "copy")
        server = self.serve()
        self.wait_for_step(6)
        leaves = members.pop("member1")
        self.stop(leaves)
        server.kill()
        (self.folder / "serve").rename(self.folder / "earlier")
        (self.folder / "copy").rename(self.folder / "serve")
        server = self.serve()
        server.wait_for("members gave back the run's records ")
        members["member2"] = self.join("member2", "--row-seconds", "0.2")
        server.wait_for("member 2 ")
        server.wait_for("is active", after=server.messages.index("member 2 "))
        self.assert_complete(server, **members)

    def test_a_members_folder_of_another_run_is_refused(self):
        server, members = self.begin()
        server.wait_for("member 1")
        for one in (*members.values(), server):
            one.kill()
        (self.folder / "serve").rename(self.folder / "earlier")
        self.serve()
        self.assert_refused(self.join("member0"), 2, "holds a member of another run", "choose another folder")


if __name__ == "__main__":
    unittest.main()
