"""`thinwire serve` and `thinwire join` on loopback: the same bits as `thinwire train`, members that join and leave, folders,
what those who wait are told, and who may take part. hosts_faults_multi_test.py has what goes wrong."""

import json
import os
import signal
import subprocess
import unittest

from hf_commands_test import write_tiny_model
from hosts_case import BINARY, PATIENCE, HostsCase


class Hosts(HostsCase):
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

    def test_weights_and_state_in_few_bits_travel_as_they_are(self):
        fields = ("train.workers=2", "train.weights=bf16", "train.precision=bf16", "optim.state=8bit", "train.steps=12")
        server, members = self.run_of(2, *fields)
        digest = self.assert_complete(server, **members)
        self.assertEqual(digest, self.trained_digest(*fields))
        self.assert_same_weights("serve", *members)

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

    def test_a_slow_member_takes_fewer_rows_also_where_every_step_is_synchronised(self):
        for method in ("distro", "allreduce"):
            with self.subTest(method=method):
                base, self.folder = self.folder, self.folder / method
                self.folder.mkdir()
                server = self.serve("train.workers=2", "train.batch=10", "train.steps=60", f"sync.method={method}",
                                    "sync.shares=speed")
                fast = self.join("fast", "--row-seconds", "0.01")
                slow = self.join("slow", "--row-seconds", "0.04")
                self.assert_complete(server, fast=fast, slow=slow)
                few, many = sorted(one["rows"] for one in self.summary("serve")["members"])
                self.assertEqual(few + many, 600)
                self.assertGreater(many, 2.5 * few)
                self.folder = base

    def test_members_say_the_energy_and_co2_of_what_they_contribute(self):
        server = self.serve("train.workers=2")
        members = [self.join("member0", "--watts", "1.8k", "--grid", "500"), self.join("member1", "--watts", "360W")]
        self.assert_complete(server, member0=members[0], member1=members[1])
        both = sorted(self.summary("serve")["members"], key=lambda one: -one["co2_kg"])
        for one, kilowatts in zip(both, (1.8, 0.36)):
            self.assertGreater(one["hours"], 0)
            self.assertAlmostEqual(one["kilowatt_hours"] / one["hours"], kilowatts)
        self.assertAlmostEqual(both[0]["co2_kg"] / both[0]["kilowatt_hours"], 0.5)
        self.assertEqual(both[1]["co2_kg"], 0)
        self.assertRegex(server.messages, r"contributed \d+ rows in .*, with [\d.]+ Wh and [\d.]+ g of CO2")
        self.assertIn("energy: 360 W while it computes", members[1].messages)

    def test_members_are_called_what_their_machines_are(self):
        server = self.serve("train.workers=2", "train.steps=100000", "sync.method=distro")
        self.join("member0", "--name", "my other laptop")
        self.join("member1")
        server.wait_for(", my other laptop)")
        while len(self.status()["members"]) < 2:
            pass
        names = {member["machine"] for member in self.status()["members"]}
        self.assertEqual(names, {"my other laptop", os.uname().nodename[:32]})
        self.assertRegex(server.messages, r"member \d \(\w+, my other laptop\) is ")
        self.assert_refused(self.join("member2", "--name", "line\nbreak"), 2, "it has other characters than those of ASCII that print")

    def test_a_finished_member_needs_no_server(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=4")
        server, members = self.run_of(2, *fields)
        digest = self.assert_complete(server, **members)
        again = self.join("member0")
        self.assertEqual(again.finish(), 0, again.messages)
        self.assertIn("the run is complete: this member has finished it, and", again.messages)
        self.assertRegex(again.process.stdout.read(), f", losses over this member's rows, .*, digest {digest}")
        self.assertIn("step 4: validation loss ", members["member0"].messages)
        self.assertIn(" over this member's rows\n", members["member0"].messages)
        newcomer = self.join("member2", "--wait", "0")
        self.assert_refused(newcomer, 1, "cannot reach the run")

    def test_quiet_serving_prints_what_members_need(self):
        server = self.start("serve", "recipe.toml", *self.fields, "train.workers=2", f"run.dir={self.folder}/serve",
                            "--listen", "127.0.0.1:0", "-q")
        server.wait_for("\n")
        self.assertRegex(server.messages, r"^  thinwire join 127.0.0.1:\d+ --token \w+\n$")
        server.signal(signal.SIGINT)
        self.assertEqual(server.finish(), -signal.SIGINT)

    def test_a_port_in_use_is_refused_in_a_sentence(self):
        self.serve("train.workers=2")
        port = self.ready["address"].rpartition(":")[2]
        other = self.start("serve", "recipe.toml", *self.fields, "train.workers=2", f"run.dir={self.folder}/other",
                           "adamw.beta1=0.9", "adamw.beta2=0.95", "--listen", f"127.0.0.1:{port}")
        self.assert_refused(other, 1, f"thinwire: --listen: cannot listen at 127.0.0.1:{port}: another program uses "
                                      f"port {port}; end that program or give another port (0: a free one)\n")
        room, _ = other.messages.splitlines()
        self.assertTrue(room.startswith("the run's store takes up to"), room)

    def test_members_checkpoints_hold_what_an_export_needs(self):
        write_tiny_model(self.folder / "hf")
        config = json.loads((self.folder / "hf" / "config.json").read_text()) | {"pad_token_id": 5}
        (self.folder / "hf" / "config.json").write_text(json.dumps(config))
        (self.folder / "hf" / "chat_template.jinja").write_text("{{ messages }}")
        self.fields = ["train.batch=4", "train.sequence=16", "log.tensorboard=false", "sync.timeout_s=600",
                       f"train.init={self.folder}/hf"]
        server, members = self.run_of(2, "train.steps=3")
        self.assert_complete(server, **members)
        self.assertIn(f"the final weights are in {self.folder}/serve\n", server.messages)
        weights = set()
        for name in (*members, "serve"):  # a member has given its own to the coordinator
            out = self.folder / f"{name}.out"
            subprocess.run([BINARY, "export", self.folder / name, out], check=True, capture_output=True)
            weights.add((out / "model.safetensors").read_bytes())
            exported = json.loads((out / "config.json").read_text())
            self.assertEqual((exported["max_position_embeddings"], exported["pad_token_id"]), (64, 5))
            self.assertEqual((out / "chat_template.jinja").read_text(), "{{ messages }}")
        self.assertEqual(len(weights), 1)

    def test_the_final_weights_stay_with_the_members_if_that_is_asked_for(self):
        server = self.serve("train.workers=1", "train.steps=3", options=("--no-weights",))
        self.assert_complete(server, member=self.join("member"))
        self.assertNotIn("final weights", server.messages)
        self.assertFalse((self.folder / "serve" / "checkpoints").exists())

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


class Folders(HostsCase):
    """Which folders a run of many hosts uses, and who may use them."""

    def serve_in_default_folder(self, *fields):
        ready = self.folder / "ready.json"
        server = self.start("serve", "recipe.toml", *self.fields, *fields, "--listen", "127.0.0.1:0",
                            "--ready-file", ready)
        self.wait_until_ready(server, ready)
        return server

    def train(self, *fields):
        return self.start("train", "recipe.toml", *self.fields, *fields)

    def test_a_recipe_is_trained_and_served_in_folders_of_their_own(self):
        fields = ("run.name=apart", "train.workers=1", "train.steps=3")
        self.assertEqual(self.train(*fields).finish(), 0)
        server = self.serve_in_default_folder(*fields)
        self.assert_refused(self.train(*fields, "run.dir=runs/apart-served"), 2,
                            "[run] dir runs/apart-served holds what `thinwire serve` keeps there")
        member = self.join("member0")
        for one in (member, server):
            self.assertEqual(one.finish(), 0, one.messages)
        self.assertNotIn("already finished", server.messages)
        digests = {json.loads((folder / "summary.json").read_text())["digest"]
                   for folder in (self.root / "runs/apart", self.root / "runs/apart-served", self.folder / "member0")}
        self.assertEqual(len(digests), 1)
        self.assert_refused(self.train(*fields, f"run.dir={self.folder}/member0"), 2,
                            "holds what `thinwire join` keeps there")

    def test_a_run_that_was_served_in_the_folder_of_training_goes_on_there(self):
        fields = ("run.name=earlier", "train.workers=1", "train.steps=3")
        self.serve_in_default_folder(*fields, "run.dir=runs/earlier").kill()
        before = self.ready
        self.serve_in_default_folder(*fields)
        self.assertEqual(self.ready, before)
        self.assertFalse((self.root / "runs/earlier-served").exists())

    def test_a_summary_of_training_does_not_end_a_served_run(self):
        fields = ("run.name=mixed", "train.workers=1", "train.steps=3")
        self.assertEqual(self.train(*fields).finish(), 0)
        self.serve_in_default_folder(*fields).kill()
        for one in ("events.jsonl", "summary.json"):
            (self.root / "runs/mixed" / one).rename(self.root / "runs/mixed-served" / one)
        again = self.start("serve", "recipe.toml", *self.fields, *fields, "--listen", "127.0.0.1:0")
        self.assert_refused(again, 2, "holds what `thinwire train` keeps there")


class Waiting(HostsCase):
    """What those who wait are told."""

    fields = (*HostsCase.fields, "sync.timeout_s=20", "train.steps=4000", "train.workers=2")

    def test_members_that_the_run_needs_to_begin_are_named_everywhere(self):
        server = self.serve()
        server.wait_for("the run's store takes up to ")
        server.wait_for("waits for members: 0 of the 2 that the run begins with are present")
        member = self.join("member0")
        for one in (server, member):
            one.wait_for("waits for members: 1 of the 2 that the run begins with are present")
        member.signal(signal.SIGINT)
        self.assertEqual(member.finish(), -signal.SIGINT, member.messages)
        self.assertIn("left the run before its first step", member.messages)

    def test_members_that_lack_the_final_weights_fetch_them_when_the_run_is_served_again(self):
        fields = ("train.steps=200", "sync.method=distro")
        server = self.serve(*fields)
        members = [self.join(name) for name in ("member0", "member1")]
        while self.status()["step"] < 3:
            pass
        members[1].signal(signal.SIGSTOP)
        server.wait_for("the run is complete; it is still served")
        server.signal(signal.SIGINT)
        self.assertEqual(server.finish(), 0, server.messages)
        self.assertRegex(server.messages, "member [01] lacks the final weights")
        again = self.serve(*fields, listen=self.ready["address"])
        members[1].signal(signal.SIGCONT)
        self.assert_complete(again, member0=members[0], member1=members[1])
        self.assertNotIn("lacks the final weights", again.messages)

    def test_members_whose_connections_ended_are_named(self):
        server = self.serve("sync.timeout_s=60")  # they are lost after 15 s
        members = [self.join(name) for name in ("member0", "member1")]
        while self.status()["step"] < 3:
            pass
        for one in members:
            one.kill()
        # A member that had contributed to the open round is not waited for.
        server.wait_for("no longer connected")
        self.assertRegex(self.status()["waits_for"], "member.* (no longer connected|silent for more than|lost)")

    def test_a_coordinator_that_fell_silent_is_named(self):
        server = self.serve()
        members = [self.join(name) for name in ("member0", "member1")]
        while self.status()["step"] < 3:
            pass
        server.signal(signal.SIGSTOP)
        members[0].wait_for("waits for the coordinator, which has fallen silent")
        server.signal(signal.SIGCONT)
        step = self.status()["step"]
        while self.status()["step"] == step:
            pass


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

    def test_a_token_is_short_and_need_not_be_on_the_command_line(self):
        self.serve("train.workers=2")
        token = self.ready["token"]
        self.assertLessEqual(len(token), 100)
        (self.folder / "token").write_text(token[:50] + "\n" + token[50:] + "\n")

        def status(*arguments, token=None, stdin=None):
            environment = {**os.environ, **({} if token is None else {"THINWIRE_TOKEN": token})}
            return subprocess.run([BINARY, "status", self.ready["address"], *arguments], capture_output=True,
                                  text=True, timeout=PATIENCE, env=environment, input=stdin)

        for done in (status("--token-file", self.folder / "token"), status("--token-file", "-", stdin=token),
                     status(token=token), status("--token", token, token="TW5wrong")):
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("allreduce, round 0 of", done.stdout)
        for done, text in ((status(), "a token is needed"), (status("--token-file", "nowhere"), "nowhere"),
                           (status("--token", token, "--token-file", "-"), "--token-file")):
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)

    def test_an_address_that_nobody_answers_ends_a_join(self):
        self.serve("train.workers=2").kill()
        self.assert_refused(self.join("named", "--wait", "0", address="no..host:1"), 1,
                            "cannot reach the run at no..host:1", "no machine has this name")
        self.assert_refused(self.join("hasty", "--wait", "0"), 1,
                            f"cannot reach the run at {self.ready['address']}: nobody answers; check the address, that "
                            "`thinwire serve` runs there, and that the port is open from here\n")
        self.assertFalse((self.folder / "hasty").exists())

    def test_tokens_are_issued_used_up_and_revoked_while_the_run_is_served(self):
        server = self.serve("train.workers=3")
        token = self.keys("issue", "--single-use")
        self.join("member0", token=token)
        server.wait_for("member 0")
        self.assert_refused(self.join("member1", token=token), 1, "the token has been used")
        issued = self.keys("issue")
        token_id = [line.split()[0] for line in self.keys("list").splitlines() if "used by 0 keys" in line][-1]
        self.assert_refused(self.start("keys", "revoke", f"{self.folder}/serve", token_id[:3]), 2,
                            f"'{token_id[:3]}' is too short")
        self.assertEqual(self.keys("revoke", token_id[:4]), f"revoked token {token_id}")
        self.assert_refused(self.join("member2", token=issued), 1, "revoked")
        self.assertIn("revoked", self.keys("list"))

    def test_what_cannot_take_part_is_refused_before_anything_is_received(self):
        self.serve("train.workers=2")
        observer = self.join("observer", token=self.keys("issue", "--role", "observer"))
        self.assert_refused(observer, 1, "is an observer's: it only shows the run, with `thinwire status`")
        small = self.join("small", "--memory", "1MB")
        self.assert_refused(small, 2, "--memory: ", "more than the 1.00 MB allowed here")
        for one in (observer, small):
            self.assertNotIn("of data into", one.messages)

    def test_a_member_whose_key_is_revoked_ends_and_says_why(self):
        server = self.serve("train.workers=2", "sync.method=distro", "train.steps=4000")
        self.join("member0")
        server.wait_for("member 0")
        revoked = self.join("member1")
        while self.status()["step"] < 3:
            pass
        key = self.status()["members"][1]["key"]
        self.assertEqual(self.keys("revoke", key), f"revoked key {key} (member 1)")
        self.assert_refused(revoked, 1, "key was revoked")  # says the ledger or, if it came later, the coordinator
        step = self.status()["step"]
        while self.status()["step"] < step + 3:
            pass
        self.assertIsNone(server.process.poll())

    def test_an_auditor_follows_the_run_without_being_a_member(self):
        server = self.serve("train.workers=4", "train.steps=2000", "train.batch=32")
        token = self.keys("issue", "--role", "auditor").strip()
        auditor = self.join("auditor", "--audit", token=token)
        for i in range(4):
            self.join(f"member{i}")
        auditor.wait_for("a step sends 0 B")
        auditor.wait_for("audited 1 contribution so far")
        self.assert_refused(self.join("as_member", token=token), 1, "is an auditor's: it checks what members send")
        self.assert_refused(self.join("unadmitted", "--audit"), 1, "is a member's: it trains with `thinwire join`")
        while min(member["audits"] for member in self.status()["members"]) < 3:
            pass
        status = self.status()
        self.assertNotIn("does not compute what it is assigned", server.messages)
        self.assertEqual(len(status["members"]), 4, "an auditor is no member")
        # One member's mean over few audits can be below zero by chance; that of all of them is not.
        audits = sum(member["audits"] for member in status["members"])
        effect = sum(member["audits"] * member["effect"] for member in status["members"]) / audits
        self.assertGreater(effect, 0, status["members"])
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

    def test_rows_may_be_received_as_they_are_needed(self):
        fields = ("train.workers=2", "train.steps=20", "sync.method=distro", "eval.every=10")
        server = self.serve(*fields)
        whole = self.join("whole")
        needed = self.join("needed", "data.fetch=needed")
        digest = self.assert_complete(server, whole=whole, needed=needed)
        self.assertEqual(digest, self.trained_digest(*fields))
        self.assertRegex(needed.messages, "fetches rows of the run's .*B of data as it needs them")
        self.assertFalse((self.folder / "needed" / "data").exists())
        shards = list((self.folder / "needed" / "data-needed").rglob("*.tws"))
        self.assertTrue(shards)
        self.assertEqual({shard.stat().st_size for shard in shards}, {64}, "only headers")

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
