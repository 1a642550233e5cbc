"""A server that comes back at another address, where its name leads the members that are still there."""

import shutil
import signal
import socket
import subprocess
import time
import unittest

from hosts_case import PATIENCE, HostsCase

NAME = "train.thinwire.test"
MOUNTS = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"')


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.2", 0))
        return one.getsockname()[1]


class HostsName(HostsCase):
    def setUp(self):
        super().setUp()
        self.hosts = self.folder / "hosts"
        self.name_stands_for("127.0.0.2")
        if not shutil.which("unshare") or subprocess.run([*MOUNTS, self.hosts, "true"], capture_output=True).returncode != 0:
            self.skipTest("this user cannot mount a file over /etc/hosts, which says what a name stands for")
        self.port = free_port()

    def name_stands_for(self, address):
        self.hosts.write_text(f"127.0.0.1 localhost\n{address} {NAME}\n")

    def serve_at(self, address, *fields):
        return self.serve("train.workers=2", "sync.method=distro", "train.steps=200", *fields,
                          listen=f"{address}:{self.port}")

    def wait_for_step(self, step):
        deadline = time.monotonic() + PATIENCE
        while self.status()["step"] < step:
            self.assertLess(time.monotonic(), deadline, f"the run has not reached step {step}")
            time.sleep(0.05)

    def test_members_go_where_the_name_leads_after_the_server_has_moved(self):
        server = self.serve_at("127.0.0.2")
        members = {name: self.join(name, "--row-seconds", "0.02", address=f"{NAME}:{self.port}",
                                   place=(*MOUNTS, self.hosts)) for name in ("member0", "member1")}
        self.wait_for_step(10)
        server.signal(signal.SIGINT)
        server.finish()
        self.name_stands_for("127.0.0.3")
        server = self.serve_at("127.0.0.3")
        self.wait_for_step(20)
        digest = self.assert_complete(server, **members)
        self.assertEqual(digest, self.trained_digest("train.workers=2", "sync.method=distro", "train.steps=200"))


if __name__ == "__main__":
    unittest.main()
