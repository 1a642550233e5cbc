"""Members that leave their machine to somebody else for a while: `thinwire join --hours`, `--pause-when`."""

import os
import signal
import subprocess
import time
import unittest

from hosts_case import HostsCase


class Pauses(HostsCase):
    def power(self, online):
        for name, text in (("AC/type", "Mains"), ("AC/online", str(int(online))), ("BAT0/type", "Battery"),
                           ("BAT0/status", "Charging" if online else "Discharging")):
            file = self.folder / "power" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")

    def place(self):
        """Where the files of power() are those of the machine."""
        if os.geteuid() != 0 or not os.path.isdir("/sys/class/power_supply"):
            self.skipTest("only root can show a program another power supply")
        command = 'mount --bind "$0" /sys/class/power_supply && exec "$@"'
        place = ("unshare", "--mount", "sh", "-c", command, str(self.folder / "power"))
        self.power(online=True)
        if subprocess.run([*place, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("mounting is not allowed here")
        return place

    def test_a_member_without_power_leaves_and_returns(self):
        place = self.place()
        server = self.serve("train.workers=2", "train.steps=100000", "sync.method=distro")
        self.join("member0")
        pausing = self.join("member1", "--pause-when", "battery", place=place)
        while self.status()["step"] < 3:
            pass
        self.power(online=False)
        pausing.wait_for("pauses, because the machine runs on its battery; returns by itself")
        server.wait_for("is left")
        before = self.status()["step"]
        while self.status()["step"] < before + 3:
            pass  # the others go on
        self.power(online=True)
        pausing.wait_for("goes on")
        server.wait_for("is active", server.messages.index("is left"))
        pausing.signal(signal.SIGINT)
        self.assertEqual(pausing.finish(), -signal.SIGINT, pausing.messages)
        self.assertIn("the same command returns to it", pausing.messages)

    def test_a_member_outside_of_its_hours_waits(self):
        server = self.serve("train.workers=1", "train.steps=3")
        hour = time.localtime().tm_hour
        later = self.join("member0", "--hours", f"{(hour + 3) % 24}-{(hour + 4) % 24}")
        later.wait_for(f"pauses, because it is not to compute before {(hour + 3) % 24}:00; returns by itself")
        later.signal(signal.SIGINT)
        self.assertEqual(later.finish(), -signal.SIGINT, later.messages)
        self.assertIn("left the run before its first step", later.messages)
        now = self.join("member0", "--hours", f"{hour}-{(hour + 2) % 24}")
        self.assertEqual(now.finish(), 0, now.messages)
        server.finish()

    def test_a_member_lets_others_go_first(self):
        server = self.serve("train.workers=1", "train.steps=100000", "sync.method=distro")
        member = self.start("join", self.ready["address"], "--token", self.ready["token"], "--cpus", "0.001", "--nice", "7",
                            f"run.dir={self.folder}/member0")
        member.wait_for("1 thread computes")
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, member.process.pid), 7)
        member.signal(signal.SIGINT)
        member.finish()
        server.signal(signal.SIGINT)
        server.finish()

    def test_what_cannot_be_followed_is_refused(self):
        self.serve("train.workers=1")
        for options, text in ((("--hours", "night"), '--hours must be two different times of day'),
                              (("--pause-when", "tired"), "--pause-when must be busy, battery, metered"),
                              (("--cpus", "0"), "--cpus must be > 0 and <= 1"),
                              (("--cpus", "0.5"), "--cpus and train.threads=1 exclude each other")):
            with self.subTest(options=options):
                self.assert_refused(self.join("member0", *options), 2, text)


if __name__ == "__main__":
    unittest.main()
