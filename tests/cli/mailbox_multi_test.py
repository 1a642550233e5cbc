"""`thinwire serve --mailbox` and `thinwire join FOLDER`: members and coordinator exchange files, in one folder or in
several that are synchronised with a delay."""

import base64
import hashlib
import os
import shutil
import signal
import subprocess
import threading
import time
import unittest
from pathlib import Path

from hosts_case import BINARY, PATIENCE, HostsCase


class Synchroniser:
    """Copies what each participant writes in one folder to the others, as Syncthing does."""

    def __init__(self, *folders):
        self.folders = folders
        self.homes = {}  # of participants, by name: the folder where they appeared first
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.05):
            for folder in self.folders:
                for run in filter(Path.is_dir, folder.iterdir()):
                    for participant in run.iterdir():
                        home = self.homes.setdefault(participant.name, folder)
                        if home == folder:
                            for other in self.folders:
                                if other != folder:
                                    self.mirror(participant, other / run.name / participant.name)

    def mirror(self, source, target):
        """Files may go while they are copied."""
        target.mkdir(parents=True, exist_ok=True)
        try:
            names = {entry.name: entry.is_dir() for entry in os.scandir(source)}
        except FileNotFoundError:
            return
        for name in os.listdir(target):
            if name not in names:
                remove(target / name)
        for name, is_folder in names.items():
            if is_folder:
                self.mirror(source / name, target / name)
            elif not (target / name).exists() and not name.endswith(".partial"):
                try:
                    shutil.copyfile(source / name, target / f".syncthing.{name}.tmp")
                    os.rename(target / f".syncthing.{name}.tmp", target / name)
                except FileNotFoundError:
                    pass

    def end(self):
        self.ended.set()
        self.thread.join()


def remove(path):
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def token_of(run):
    """A token of this run with a secret of our own."""
    key = base64.b32decode(run)[1:33]  # between its kind and its check
    content = os.urandom(16) + key
    number = int.from_bytes(content + hashlib.sha256(content).digest()[:4], "big")
    text = ""
    for _ in range(72):
        number, digit = divmod(number, 58)
        text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[digit] + text
    return "TW6" + text


class Mailbox(HostsCase):
    needs_server = False

    def setUp(self):
        super().setUp()
        self.mailbox = self.folder / "mailbox"
        self.mailbox.mkdir()

    def serve(self, *fields, options=()):
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        server = self.start("serve", "recipe.toml", *self.fields, *fields, f"run.dir={self.folder}/serve",
                            "--mailbox", self.mailbox, "--ready-file", ready, *options)
        self.wait_until_ready(server, ready)
        return server

    def keys(self, *arguments):
        done = subprocess.run([BINARY, "keys", *arguments[:1], f"{self.folder}/serve", *arguments[1:]],
                              capture_output=True, text=True, check=True, timeout=PATIENCE)
        return done.stdout.strip()

    def participants(self):
        (run,) = self.mailbox.iterdir()
        return sorted(entry.name for entry in run.iterdir())

    def test_gives_the_same_bits_as_threads(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=12")
        server, members = self.run_of(2, *fields)
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))
        self.assert_same_weights("serve", *members)
        self.assertEqual(len(self.participants()), 3)
        self.assertIn('sums = "members"', (self.folder / "serve/recipe.toml").read_text())

    def test_folders_that_are_synchronised_give_the_same_bits(self):
        fields = ("train.workers=2", "sync.method=diloco", "diloco.sync_every=4", "train.steps=12")
        others = [self.folder / "mailbox0", self.folder / "mailbox1"]
        for one in others:
            one.mkdir()
        synchroniser = Synchroniser(self.mailbox, *others)
        self.addCleanup(synchroniser.end)
        server = self.serve(*fields)
        members = {}
        for number, folder in enumerate(others):
            members[f"member{number}"] = self.join(f"member{number}", address=folder)
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))

    def test_who_asks_a_mailbox_that_nobody_serves_says_that_it_waits(self):
        self.serve("train.workers=2").kill()
        status = self.start("status", self.mailbox, "--token", self.ready["token"])
        status.wait_for("the run's coordinator has not answered yet; waits for it, up to")

    def test_a_member_that_was_killed_returns_under_its_id(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=80", "sync.timeout_s=20")
        server, members = self.run_of(2, *fields)
        server.wait_for("is active")
        members["member1"].kill()
        members["member1"] = self.join("member1")
        self.assert_complete(server, **members)
        self.assertEqual(server.messages.count("member 2"), 0, server.messages)

    def test_a_coordinator_that_was_killed_goes_on(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=60")
        server, members = self.run_of(2, *fields)
        before = self.ready
        server.wait_for("is active")
        server.kill()
        server = self.serve(*fields)
        self.assertEqual(self.ready, before)
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))

    def test_status_and_doctor_ask_without_leaving_anything(self):
        self.serve("train.workers=2", "sync.method=distro")
        before = self.participants()
        self.assertEqual(self.status()["members"], [])
        done = subprocess.run([BINARY, "doctor", self.mailbox, "--token", self.ready["token"]], capture_output=True,
                              text=True, check=True, timeout=PATIENCE)
        self.assertIn("link: not measured; the run has a mailbox", done.stdout)
        self.assertIn("of distro among 2 workers", done.stdout)
        self.assertEqual(self.participants(), before)

    def test_tokens_are_used_up_and_revoked(self):
        server = self.serve("train.workers=3")
        token = self.keys("issue", "--single-use")
        self.join("member0", token=token)
        server.wait_for("member 0")
        self.assert_refused(self.join("member1", token=token), 1, "the token has been used")
        issued = self.keys("issue")
        token_id = [line.split()[0] for line in self.keys("list").splitlines() if "used by 0 keys" in line][-1]
        self.keys("revoke", token_id)
        self.assert_refused(self.join("member2", token=issued), 1, "revoked")
        observer = self.keys("issue", "--role", "observer")
        self.assert_refused(self.join("member3", token=observer), 1, "is an observer's: it only shows the run")

    def test_whoever_made_a_token_up_is_not_admitted(self):
        server = self.serve("train.workers=2")
        self.assert_refused(self.join("member0", token=self.ready["token"][:-5]), 2, "--token")
        self.assertEqual(len(self.participants()), 1)
        self.assert_refused(self.join("member0", token=token_of(self.participants()[0])), 1,
                            "the token does not belong to this run")
        self.assertNotIn("member 0", server.messages)

    def test_a_member_that_fills_the_mailbox_is_excluded_and_shut_out(self):
        server = self.serve("train.workers=2", "sync.timeout_s=20")
        (coordinator,) = self.participants()
        member = self.join("member0")
        server.wait_for("member 0")
        (name,) = [one for one in self.participants() if one != coordinator]
        (run,) = self.mailbox.iterdir()
        for offence in range(3):
            said = len(server.messages)
            for number in range(100 * 2**offence):
                chunk = os.urandom(8)
                blob = hashlib.sha256(chunk).hexdigest()
                place = run / name / "blobs" / blob[:2]
                place.mkdir(parents=True, exist_ok=True)
                (place / f"{blob}-0").write_bytes(chunk)
            server.wait_for("member 0 misuses the store: it has stored", said)
        self.assert_refused(member, 1, "excluded")
        deadline = time.monotonic() + PATIENCE
        while "revoked" not in self.keys("list") and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertIn("revoked", self.keys("list"))
        self.assert_refused(self.join("member0"), 1, "excluded")

    def test_wrong_use_is_named(self):
        self.serve("train.workers=2")
        token = ["--token", self.ready["token"]]
        for arguments, text in (
                (["join", "localhost:1", *token], "'localhost:1' is not a folder"),
                (["join", self.folder / "nowhere", *token], "nowhere' is not a folder"),
                (["join", self.mailbox, *token, "--ca", "recipe.toml"], "--ca is for servers"),
                (["serve", "recipe.toml", "--mailbox", self.folder / "nowhere"], "--mailbox"),
                (["serve", "recipe.toml", "--mailbox", self.mailbox, "--listen", "0.0.0.0:4"], "--listen and --address"),
                (["serve", "recipe.toml", "--mailbox", self.mailbox, "--nats", "a"], "--mailbox and --nats"),
                (["serve", "recipe.toml", *self.fields, f"run.dir={self.folder}/other", "sync.sums=coordinator",
                  "--mailbox", self.mailbox], "[sync] sums must be")):
            done = subprocess.run([BINARY, *arguments], cwd=self.root, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)

    def test_a_served_run_keeps_its_mailbox(self):
        server = self.serve("train.workers=2")
        server.signal(signal.SIGINT)
        self.assertEqual(server.finish(), -signal.SIGINT, server.messages)
        again = self.start("serve", "recipe.toml", *self.fields, "train.workers=2", f"run.dir={self.folder}/serve")
        self.assert_refused(again, 2, "has a mailbox; serve it with --mailbox")


if __name__ == "__main__":
    unittest.main()
