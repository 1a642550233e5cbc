"""Runs of many hosts whose members hide what they contribute in sums (privacy.secure_sums)."""

import time
import unittest

from hosts_case import PATIENCE, HostsCase

SECURE = ("data.own=true", "train.steps=16", "sync.method=diloco", "diloco.sync_every=4", "diloco.wire=fp32",
          "privacy.secure_sums=true")


class HostsSecureSums(HostsCase):
    def text(self, name):
        folder = self.folder / f"{name}-text"
        folder.mkdir()
        (folder / "text.txt").write_text("\n\n".join(f"what {name} wrote, number {i}" for i in range(300)))
        return folder

    def joins(self, name, *fields):
        return self.join(name, "--data", self.text(name) if not fields else fields[0], *fields[1:])

    def test_members_hide_what_they_contribute_and_agree(self):
        server = self.serve("train.workers=3", *SECURE)
        members = {name: self.joins(name) for name in ("one", "two", "three")}
        self.assert_complete(server, **members)
        self.assert_same_weights(*members, "serve")
        for member in members.values():
            self.assertIn("others see the sum of all members' contributions, and not this member's own", member.messages)
            self.assertNotIn("the secure sum cannot be known", member.messages)

    def test_a_member_that_is_killed_costs_the_others_nothing_and_may_return(self):
        server = self.serve("train.workers=4", *SECURE, "train.steps=160", "checkpoint.every=4", "sync.timeout_s=20")
        texts = {name: self.text(name) for name in ("one", "two", "three", "four", "late")}
        slow = ("--row-seconds", "0.02")
        members = {name: self.joins(name, texts[name], *slow) for name in ("one", "two", "three", "four")}
        deadline = time.monotonic() + PATIENCE
        while self.status()["round"] < 6:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        members["four"].kill()
        members["late"] = self.joins("late", texts["late"], *slow)
        server.wait_for("member 4")
        members["four"] = self.joins("four", texts["four"], *slow)
        self.assert_complete(server, **members)
        self.assert_same_weights(*members, "serve")
        for name in ("one", "two", "three"):
            self.assertNotIn("the secure sum cannot be known", members[name].messages, name)

    def test_one_member_alone_learns_nothing_and_says_so(self):
        server = self.serve("train.workers=1", *SECURE)
        member = self.joins("alone")
        self.assert_complete(server, alone=member)
        self.assertIn("step 4: the secure sum cannot be known, because only one member began it", member.messages)


if __name__ == "__main__":
    unittest.main()
