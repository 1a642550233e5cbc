"""Shared by tests of runs on a NATS cluster: three clustered nats-servers, configured as docs/operations.md says."""

import json
import shutil
import signal
import socket
import subprocess
import time
import unittest
import urllib.request
from pathlib import Path

from hosts_case import BINARY, PATIENCE, HostsCase

SERVERS = 3
HOSTS = [f"127.0.0.{number + 1}" for number in range(SERVERS)]
STARTS = 5  # somebody else may take a port that was free


def free_ports(count):
    """Ports that are free now on all hosts, all different."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("0.0.0.0", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Three servers in a folder, with an operator and an account that `thinwire keys account` made. Each has a host of
    its own and could be a site's."""

    def __init__(self, folder):
        self.folder = folder
        made = subprocess.run([BINARY, "keys", "account", folder / "keys", "runs"], check=True, capture_output=True,
                              text=True).stdout
        assert "accounts.conf: include it" in made, made
        self.key = folder / "keys" / "runs.key"
        self.ca = folder / "server.pem"  # which has signed itself
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", "/CN=nats", "-addext",
                        "subjectAltName=" + ",".join(f"IP:{host}" for host in HOSTS),
                        "-keyout", folder / "server.key", "-out", self.ca], check=True, capture_output=True)
        self.processes = {}
        for _ in range(STARTS):
            self.ports, self.routes, self.monitors = (free_ports(3 * SERVERS)[i::3] for i in range(3))
            for number in range(SERVERS):
                self.start(number)
            if self.comes_up():
                return
            self.end()
        raise AssertionError("the cluster does not start: " + (folder / "s0.log").read_text())

    def urls(self):
        return ",".join(f"tls://{self.address(number)}" for number in range(SERVERS))

    def address(self, number):
        return f"{HOSTS[number]}:{self.ports[number]}"

    def start(self, number):
        file = self.folder / f"s{number}.conf"
        routes = ", ".join(f'"tls://{host}:{port}"' for host, port in zip(HOSTS, self.routes))
        certificate = f'cert_file: "{self.folder}/server.pem", key_file: "{self.folder}/server.key"'
        file.write_text(f"""
listen: "{self.address(number)}"
server_name: s{number}
server_tags: [ "{HOSTS[number]}" ]
include "./keys/accounts.conf"
tls {{ {certificate} }}
jetstream {{ store_dir: "{self.folder}/s{number}" }}
ping_interval: "10s"
ping_max: 2
cluster {{
  name: runs
  listen: "{HOSTS[number]}:{self.routes[number]}"
  routes: [ {routes} ]
  tls {{ {certificate}, ca_file: "{self.ca}" }}
}}
http: "{HOSTS[number]}:{self.monitors[number]}"
""")
        self.processes[number] = subprocess.Popen(["nats-server", "-c", file, "-l", self.folder / f"s{number}.log"])

    def ask(self, number, what):
        url = f"http://{HOSTS[number]}:{self.monitors[number]}/{what}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return json.load(answer)

    def comes_up(self):
        """Once every server knows all of them and one leads; False: one has ended."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in self.processes.values()):
                return False
            try:
                metas = [self.ask(number, "jsz").get("meta_cluster", {}) for number in self.processes]
            except OSError:
                continue
            if all(meta.get("leader") and meta.get("cluster_size") == SERVERS for meta in metas):
                return True
        return False

    def kill(self, number):
        self.processes[number].kill()
        self.processes.pop(number).wait()

    def stop(self, number):
        """As if it hung: its connections stay."""
        self.processes[number].send_signal(signal.SIGSTOP)

    def leader(self, stream):
        """The number of the server that leads the first stream whose name ends so."""
        streams = self.streams(next(iter(self.processes)))
        for one in streams:
            if one["name"].endswith(stream):
                return int(one["cluster"]["leader"][1:])
        raise AssertionError(f"there is no stream {stream}: {streams}")

    def streams(self, number):
        """What a server keeps."""
        accounts = self.ask(number, "jsz?streams=true").get("account_details", [])
        return [one for account in accounts for one in account.get("stream_detail", [])]

    def end(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.processes.clear()


class ClusterCase(HostsCase):
    """Every test has a cluster of its own if `own_cluster`, else they share one and differ in their run.name."""

    own_cluster = False

    @classmethod
    def setUpClass(cls):
        if not shutil.which("openssl"):
            raise unittest.SkipTest("there is no openssl here to make certificates")
        super().setUpClass()
        if not cls.own_cluster:
            cls.cluster = cls.make_cluster(cls.root / "cluster")
            cls.addClassCleanup(cls.cluster.end)

    @staticmethod
    def make_cluster(folder):
        Path(folder).mkdir()
        return Cluster(folder)

    def setUp(self):
        super().setUp()
        if self.own_cluster:
            self.cluster = self.make_cluster(self.folder / "cluster")
            self.addCleanup(self.cluster.end)

    def wait_for_step(self, step):
        while self.status()["step"] < step:
            pass

    def serve(self, *fields, options=(), name="serve"):
        """Starts or goes on with a coordinator of this test's run, in a folder of its own."""
        ready = self.folder / f"{name}.json"
        ready.unlink(missing_ok=True)
        server = self.start("serve", "recipe.toml", *self.fields, *fields, f"run.name={self.folder.name}",
                            f"run.dir={self.folder}/{name}", "--nats", self.cluster.urls(), "--creds",
                            self.cluster.key, "--ca", self.cluster.ca, "--ready-file", ready, *options)
        server.wait_for("thinwire join")
        self.ready = json.loads(ready.read_text())
        return server
