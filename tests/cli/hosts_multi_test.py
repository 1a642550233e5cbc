"""`thinwire serve` and `thinwire join` on loopback: the same bits as `thinwire train`, members that join and leave, and
processes that are killed."""

import json
import os
import signal
import subprocess
import unittest
from pathlib import Path

from hosts_case import BINARY, PATIENCE, HostsCase


class Hosts(HostsCase):
    def run_of(self, workers, *fields):
        server = self.serve(f"train.workers={workers}", *fields)
        return server, {f"member{i}": self.join(f"member{i}") for i in range(workers)}

    def test_gives_the_same_bits_as_threads(self):
        for workers, method in ((2, "allreduce"), (2, "diloco"), (4, "distro")):
            with self.subTest(method=method):
                base, self.folder = self.folder, self.folder / method
                self.folder.mkdir()
                fields = (f"sync.method={method}", "diloco.sync_every=4", "train.steps=12")
                server, members = self.run_of(workers, *fields)
                digest = self.assert_complete(server, **members)
                self.assertEqual(digest, self.trained_digest(f"train.workers={workers}", *fields))
                self.folder = base

    def test_a_member_joins_in_the_middle_of_the_run(self):
        server, members = self.run_of(2, "sync.method=distro", "train.steps=4000")
        server.wait_for("member 1")
        while self.status()["step"] < 3:
            pass
        members["late"] = self.join("late")
        server.wait_for("member 2")
        server.wait_for("is active", server.messages.index("member 2"))
        self.assertEqual(len(self.status()["members"]), 3)
        for one in members.values():
            one.signal(signal.SIGINT)
        for one in members.values():
            self.assertEqual(one.finish(), -signal.SIGINT, one.messages)
            self.assertRegex(one.messages, "left the run after step [1-9]")
        server.signal(signal.SIGINT)
        self.assertEqual(server.finish(), -signal.SIGINT, server.messages)
        self.assertIn("the same command resumes", server.messages)

    def test_status_lists_the_members(self):
        server = self.serve("train.workers=2", "train.steps=3")
        self.join("member0")
        server.wait_for("member 0")
        status = self.status()
        self.assertEqual(status["round"], 0)
        self.assertEqual(status["steps"], 3)
        self.assertEqual([member["id"] for member in status["members"]], [0])
        self.assertIn("1 of the 2 that the run begins with are present", status["waits_for"])
        shown = subprocess.run([BINARY, "status", self.ready["address"], "--token", self.ready["token"]],
                               capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        self.assertIn("tiny: allreduce, round 0 of 3", shown)

    def test_the_doctor_says_what_the_run_asks(self):
        self.serve("train.workers=2", "sync.method=distro")
        done = subprocess.run([BINARY, "doctor", self.ready["address"], "--token", self.ready["token"]],
                              capture_output=True, text=True, check=True, timeout=PATIENCE)
        for what in ("link: ", "round trip", "memory: about", "a step takes", "of distro among 2 workers"):
            self.assertIn(what, done.stdout)

    def test_a_served_run_that_was_killed_goes_on_at_the_same_address(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=1000")
        server = self.serve(*fields)
        members = {name: self.join(name) for name in ("member0", "member1")}
        before = self.ready
        server.wait_for("is active")
        server.kill()
        server = self.serve(*fields)
        self.assertEqual(self.ready, before)
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
        server = self.serve(*fields)
        members = {name: self.join(name) for name in ("member0", "member1")}
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

    def test_a_member_that_left_goes_on_from_its_checkpoint(self):
        server, members = self.run_of(2, "sync.method=distro", "train.steps=4000")
        while self.status()["step"] < 5:
            pass
        members["member1"].signal(signal.SIGINT)
        self.assertEqual(members["member1"].finish(), -signal.SIGINT, members["member1"].messages)
        self.join("member1").wait_for("continues from its checkpoint after step ")
        server.wait_for("is left")
        server.wait_for("is active", server.messages.index("is left"))
        self.assertEqual(len(self.status()["members"]), 2)


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


class Doors(HostsCase):
    """Who is admitted, and what a member may send."""

    def keys(self, *arguments):
        done = subprocess.run([BINARY, "keys", *arguments[:1], f"{self.folder}/serve", *arguments[1:]],
                              capture_output=True, text=True, check=True, timeout=PATIENCE)
        return done.stdout.strip()

    def test_fields_of_the_run_cannot_be_set_by_members(self):
        self.serve("train.workers=2")
        self.assert_refused(self.join("member0", "optim.lr=1"), 2, "optim.lr belongs to the run", "train.threads")
        self.assertFalse((self.folder / "member0").exists())

    def test_wrong_tokens_are_refused(self):
        self.serve("train.workers=2")
        self.assert_refused(self.join("cut", token=self.ready["token"][:-5]), 2, "--token")
        good = self.ready
        base, self.folder = self.folder, self.folder / "other"
        self.folder.mkdir()
        self.serve("train.workers=2")
        other, self.folder, self.ready = self.ready["token"], base, good
        self.assert_refused(self.join("member0", token=other), 1, self.ready["address"])
        self.assertFalse((self.folder / "member0").exists())

    def test_an_address_that_nobody_answers_ends_a_join(self):
        self.serve("train.workers=2").kill()
        self.assert_refused(self.join("named", address="no..host:1"), 1,
                            "cannot reach the run at no..host:1", "no machine has this name")
        self.assert_refused(self.join("hasty", "--wait", "0"), 1, f"cannot reach the run at {self.ready['address']}")
        self.assertFalse((self.folder / "hasty").exists())

    def test_tokens_are_issued_used_up_and_revoked_while_the_run_is_served(self):
        server = self.serve("train.workers=3")
        token = self.keys("issue", "--single-use")
        self.join("member0", token=token)
        server.wait_for("member 0")
        self.assert_refused(self.join("member1", token=token), 1, "the token has been used")
        issued = self.keys("issue")
        token_id = [line.split()[0] for line in self.keys("list").splitlines() if "used by 0 keys" in line][-1]
        self.keys("revoke", token_id)
        self.assert_refused(self.join("member2", token=issued), 1, "revoked")
        self.assertIn("revoked", self.keys("list"))

    def test_an_auditor_follows_the_run_without_being_a_member(self):
        server = self.serve("train.workers=4", "train.steps=2000", "train.batch=32")
        token = self.keys("issue", "--role", "auditor").strip()
        auditor = self.join("auditor", "--audit", token=token)
        for i in range(4):
            self.join(f"member{i}")
        auditor.wait_for("a step sends 0 B")
        auditor.wait_for("audited 1 contribution so far")
        self.assert_refused(self.join("as_member", token=token), 1, "its key is an auditor's")
        self.assert_refused(self.join("unadmitted", "--audit"), 1, "its key is not an auditor's")
        while min(member["audits"] for member in self.status()["members"]) < 3:
            pass
        status = self.status()
        self.assertNotIn("does not compute what it is assigned", server.messages)
        self.assertEqual(len(status["members"]), 4, "an auditor is no member")
        for member in status["members"]:
            self.assertGreater(member["effect"], 0)
        shown = subprocess.run([BINARY, "status", self.ready["address"], "--token", self.ready["token"]],
                               capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        self.assertRegex(shown, "offences +audits +effect")
        auditor.signal(signal.SIGINT)
        self.assertEqual(auditor.finish(), -signal.SIGINT, auditor.messages)

    def test_an_expired_token_admits_nobody(self):
        server = self.serve("train.workers=2", options=("--token-days", "1e-9"))
        self.assert_refused(self.join("member0"), 1, "expired")
        self.assertNotIn("member 0", server.messages)

    def test_a_run_folder_of_something_else_is_not_touched(self):
        self.serve("train.workers=2")
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "letter.txt").write_text("dear")
        self.assert_refused(self.join("mine"), 2, "holds something that is not a run")
        self.assertEqual([file.name for file in (self.folder / "mine").iterdir()], ["letter.txt"])

    def test_a_run_with_more_members_than_its_records_have_room_for_is_refused(self):
        served = self.start("serve", "recipe.toml", *self.fields, "train.workers=40000", "train.batch=40000",
                            "sync.method=streaming", "streaming.slices=8",
                            f"run.dir={self.folder}/serve", "--listen", "127.0.0.1:0")
        self.assert_refused(served, 2, "[train] workers must be at most 30407", "got 40000")
        self.assertFalse((self.folder / "serve").exists())

    def test_another_recipe_does_not_go_on_with_the_run(self):
        server = self.serve("train.workers=2")
        server.signal(signal.SIGINT)
        server.finish()
        again = self.start("serve", "recipe.toml", *self.fields, "train.workers=2", "optim.lr=0.5",
                           f"run.dir={self.folder}/serve", "--listen", "127.0.0.1:0")
        self.assert_refused(again, 2, "optim.lr was 0.003, is 0.5")

    def test_a_member_uses_its_own_data_only_if_it_is_the_runs(self):
        server = self.serve("train.workers=2", "train.steps=3")
        own = self.join("own", f"data.dir={self.root}/tokens")
        other = self.join("other", f"data.dir={self.folder}/nowhere")
        self.assert_complete(server, own=own, other=other)
        self.assertFalse((self.folder / "own" / "data").exists())
        self.assertIn("nowhere does not exist; the run's data is received into", other.messages)
        recorded = json.loads((self.folder / "other" / "data" / "prepare.json").read_text())
        self.assertEqual(recorded["inputs"], [])


if __name__ == "__main__":
    unittest.main()
