"""A member's disk and the server's that are full for a while: small file systems in memory, which need root."""

import subprocess
import unittest

from hosts_case import HostsCase

FIELDS = ("train.workers=2", "sync.method=distro", "train.steps=600", "sync.timeout_s=20")
FULL = "No space left on device"


class SmallDisk:
    """A file system of its own at a folder."""

    def __init__(self, folder, size):
        self.folder, self.filler = folder, folder / "filler"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise unittest.SkipTest(f"no file system can be mounted here: {done.stderr.strip()}")

    def fill(self):
        with self.filler.open("ab", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def empty(self):
        self.filler.unlink()

    def remove(self):
        subprocess.run(["umount", "--lazy", self.folder], check=True)


class FullDisk(HostsCase):
    def small_disk(self, name, size="16m"):
        disk = SmallDisk(self.folder / name, size)
        self.addCleanup(disk.remove)
        return disk

    def test_a_member_whose_disk_is_full_says_so_and_returns(self):
        disk = self.small_disk("member1")
        server = self.serve(*FIELDS)
        members = {name: self.join(name) for name in ("member0", "member1")}
        while self.status()["step"] < 3:
            pass
        disk.fill()
        self.assert_refused(members["member1"], 1, FULL, str(disk.folder))
        before = self.status()["step"]
        while self.status()["step"] < before + 3:  # the other one goes on
            pass
        disk.empty()
        members["member1"] = self.join("member1")
        self.assert_complete(server, **members)
        self.assertEqual(server.messages.count("member 2"), 0, server.messages)

    def test_a_server_whose_disk_is_full_goes_on_when_there_is_room(self):
        disk = self.small_disk("serve", "64m")
        server = self.serve(*FIELDS)
        members = {name: self.join(name) for name in ("member0", "member1")}
        while self.status()["step"] < 3:
            pass
        disk.fill()
        server.wait_for(f"the disk of {disk.folder}/server is full; nats-server is stopped and the run waits")
        server.wait_for("waits for room on the coordinator's disk")
        for member in members.values():
            member.wait_for("waits until the run can be reached again")
        asked = self.start("status", self.ready["address"], "--token", self.ready["token"])
        self.assert_refused(asked, 1, f"cannot reach the run at {self.ready['address']}: nobody answers")
        disk.empty()
        server.wait_for("there is room on the disk again")
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*FIELDS))

    def test_a_disk_that_cannot_hold_the_store_is_refused_before_the_run_begins(self):
        disk = self.small_disk("serve", "256k")
        server = self.start("serve", "recipe.toml", *self.fields, *FIELDS, "model.hidden=64",
                            f"run.dir={disk.folder}", "--listen", "127.0.0.1:0")
        self.assert_refused(server, 2, "the run's store takes up to", f"but the disk of {disk.folder}/server has only")

    def test_a_disk_that_cannot_hold_a_checkpoint_is_refused_before_training(self):
        disk = self.small_disk("train", "256k")
        run = self.start("train", "recipe.toml", *self.fields, *FIELDS, "model.hidden=64", f"run.dir={disk.folder}/run")
        self.assert_refused(run, 2, "[run] dir must be on a disk with room for a checkpoint, which takes about")

    def test_a_mailbox_whose_disk_is_full_says_so_and_goes_on(self):
        disk = self.small_disk("mailbox", "64m")
        fields = (*FIELDS[:2], "train.steps=60", "sync.timeout_s=20")
        ready = self.folder / "ready.json"
        server = self.start("serve", "recipe.toml", *self.fields, *fields, f"run.dir={self.folder}/serve",
                            "--mailbox", disk.folder, "--ready-file", ready)
        self.wait_until_ready(server, ready)
        members = {name: self.join(name) for name in ("member0", "member1")}
        server.wait_for("is active")
        disk.fill()
        for one in (server, *members.values()):
            one.wait_for(f"the mailbox {disk.folder} cannot be written to (")
            self.assertIn(FULL, one.messages)
        disk.empty()
        self.assert_complete(server, **members)
        self.assertIn(f"the mailbox {disk.folder} can be written to again", server.messages)


if __name__ == "__main__":
    unittest.main()
