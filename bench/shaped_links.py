"""A server and members in network namespaces of this machine, each member with a link of its own whose
rates are shaped, and counters of what went over these links. For benchmarks; needs root, `ip` and `tc`.

The server's namespace has a bridge. Each member's namespace is joined to it by a pair of virtual Ethernet
devices; what the member sends is shaped at its end of the pair, what it receives at the bridge's end, by
tc's token bucket. Packets have the length that they have on a wire (no segmentation offload), so byte
counters include the headers of Ethernet, IP and TCP. There is no delay but that of the queues.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ADDRESS = "10.77.0"  # of the server, .1, and the members
BURST = 16_000  # bytes that go at once after a pause
QUEUE = 0.1  # seconds that a packet waits at most in a link's queue; beyond that it is dropped
SAMPLE = 0.01  # seconds between looks at the counters
GAP = 0.15  # a transfer usually ends when its link has been idle for so many seconds
BUSY = 0.4  # a link is idle if less than this share of it is used; acknowledgements use up to 0.15

# Runs in the server's namespace, whose devices it sees; prints time, then received and sent of each device.
SAMPLER = """
import sys, time
files = [open(f"/sys/class/net/{name}/statistics/{side}_bytes") for name in sys.argv[2:] for side in ("rx", "tx")]
while True:
    row = [time.time()]
    for file in files:
        file.seek(0)
        row.append(int(file.read()))
    print(*row, flush=True)
    time.sleep(float(sys.argv[1]))
"""


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


class Network:
    """Namespaces from `with` on until its end. `up` and `down` in bit/s; None: not shaped."""

    def __init__(self, members, up=None, down=None):
        self.up, self.down = up, down
        self.prefix = f"thinwire-{os.getpid()}-"
        self.server = self.prefix + "server"
        self.members = [f"{self.prefix}member{i + 1}" for i in range(members)]
        self.links = [f"link{i + 1}" for i in range(members)]  # the devices at the bridge

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def build(self):
        self.add(self.server)
        self.of(self.server, "ip", "link", "add", "bridge", "type", "bridge")
        self.of(self.server, "ip", "link", "set", "bridge", "up", "gso_max_segs", 1)
        self.of(self.server, "ip", "address", "add", f"{ADDRESS}.1/24", "dev", "bridge")
        for number, (member, link) in enumerate(zip(self.members, self.links)):
            self.add(member)
            run("ip", "link", "add", link, "netns", self.server, "type", "veth", "peer", "name", "line", "netns",
                member)
            self.of(self.server, "ip", "link", "set", link, "master", "bridge", "up", "gso_max_segs", 1)
            self.of(member, "ip", "link", "set", "line", "up", "gso_max_segs", 1)
            self.of(member, "ip", "address", "add", f"{ADDRESS}.{number + 2}/24", "dev", "line")
            self.shape(member, "line", self.up)
            self.shape(self.server, link, self.down)

    def add(self, name):
        run("ip", "netns", "add", name)
        self.of(name, "ip", "link", "set", "lo", "up")

    def shape(self, namespace, device, bit_s):
        if bit_s is None:
            return
        limit = int(bit_s / 8 * QUEUE) + BURST
        self.of(namespace, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{int(bit_s)}bit",
                "burst", BURST, "limit", limit)

    def of(self, namespace, *command):
        run(*self.place(namespace), *command)

    def place(self, namespace):
        """The command under which another one runs there."""
        return ["ip", "netns", "exec", namespace]

    def remove(self):
        for name in [*self.members, self.server]:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


class Counters:
    """Samples of a network's links from `with` on until its end."""

    def __init__(self, network):
        self.network = network

    def __enter__(self):
        self.file = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen(
            [*self.network.place(self.network.server), sys.executable, "-c", SAMPLER, str(SAMPLE),
             *self.network.links], stdout=self.file)
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        self.file.seek(0)
        rows = [[float(word) for word in line.split()] for line in self.file]
        rows = [row for row in rows if len(row) == len(rows[0])]  # the last may be cut off
        self.links = [Link([(row[0], row[1 + 2 * i], row[2 + 2 * i]) for row in rows],
                           (self.network.up, self.network.down)) for i in range(len(self.network.links))]


class Link:
    """Samples of one member's link: (time, bytes up so far, bytes down so far)."""

    UP, DOWN = 1, 2

    def __init__(self, samples, rates):
        self.samples, self.rates = samples, rates

    def bytes(self, side, begin, end):
        """The bytes that went in one direction from one time to another."""
        within = [row[side] for row in self.samples if begin <= row[0] <= end]
        return within[-1] - within[0] if within else 0

    def transfers(self, side, gap=GAP):
        """[(begin, end, bytes)]: whenever a direction is busy, with pauses shorter than `gap`."""
        least = BUSY * self.rates[side - 1] / 8
        found = []
        for (begin, *before), (end, *after) in zip(self.samples, self.samples[1:]):
            moved = after[side - 1] - before[side - 1]
            if moved < least * (end - begin):
                continue
            if found and begin - found[-1][1] < gap:
                found[-1] = (found[-1][0], end)
            else:
                found.append((begin, end))
        return [(begin, end, self.bytes(side, begin, end)) for begin, end in found]

    def share(self, side, transfer):
        """The share of the line that a transfer uses from its begin to its end."""
        begin, end, moved = transfer
        return 8 * moved / (self.rates[side - 1] * (end - begin))


def why_not():
    """Why this machine cannot do it; nothing if it can."""
    if os.geteuid() != 0:
        return "namespaces and shaped links need root: run it as root"
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    return f"no program {missing[0]} in PATH: install the package iproute2" if missing else None


def congestion_control():
    """The way in which this machine's TCP finds the rate of a link."""
    return pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
