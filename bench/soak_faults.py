"""What is done to a run in bench/soak, and when."""

import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time

import hosts_run

STRANGERS = 300  # bare connections at once
GONE = 30  # seconds in which a member that was revoked must have ended
AHEAD = (3600, 86400)  # seconds by which a clock is ahead
AHEAD_FOR = (5, 60)  # seconds
COPIES = (20, 300)  # seconds after which the copy of a folder is replaced by a newer one
STANDS = 0.05  # seconds after which a process that was stopped has finished its last write
SERVER_AWAY = (1, 30)  # seconds for which one of a cluster's servers is killed or stopped
POWER = "/sys/class/power_supply"
MEMBER_FAULTS = ("member killed", "short stop", "long stop", "member pauses", "member leaves", "newcomer",
                 "member rolled back")
COORDINATOR_FAULTS = ("coordinator killed", "coordinator stopped", "both killed", "coordinator rolled back")
SERVER_FAULTS = ("nats-server killed", "nats-server stopped")
CLUSTER_FAULTS = ("one of 3 killed", "one of 3 stopped")
CLOCK_FAULTS = ("member's clock", "coordinator's clock")
OTHER_FAULTS = ("member revoked", "strangers", "disk full")
FAULTS = (*MEMBER_FAULTS, *COORDINATOR_FAULTS, *SERVER_FAULTS, *CLUSTER_FAULTS, *CLOCK_FAULTS, *OTHER_FAULTS)


class Disk:
    """A small file system in memory for a folder, if one can be mounted here."""

    def __init__(self, folder, megabytes):
        folder.mkdir(parents=True)
        self.folder, self.filler = folder, folder / "filler"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder],
                              capture_output=True, text=True)
        self.mounted = done.returncode == 0

    def fill(self):
        with self.filler.open("wb", buffering=0) as filler:
            try:
                while filler.write(bytes(1 << 16)):
                    pass
            except OSError:
                pass

    def make_room(self):
        self.filler.unlink()

    def end(self):
        """Keeps what is there."""
        if not self.mounted:
            return
        kept = self.folder.with_suffix(".kept")
        shutil.copytree(self.folder, kept)
        subprocess.run(["umount", self.folder], check=True)
        self.folder.rmdir()
        kept.rename(self.folder)


class Clocks:
    """The clocks that the processes of a run see, if libfaketime is here. What they start in turn, such as
    nats-server, which asks the kernel by itself, has the machine's clock."""

    def __init__(self, folder):
        self.folder, self.begun = folder, time.time()
        self.library = None
        if shutil.which("faketime"):
            self.library = subprocess.run(["faketime", "-m", "-f", "+0", "printenv", "LD_PRELOAD"], check=True,
                                          capture_output=True, text=True).stdout.strip()

    def place(self, name):
        """The command under which a process has a clock of its own; it is right at first."""
        if self.library is None:
            return ()
        file = self.folder / f"{name}.clock"
        if not file.exists():
            self.set(name, 0)
        return ("env", f"LD_PRELOAD={self.library}", f"FAKETIME_TIMESTAMP_FILE={file}", "FAKETIME_CACHE_DURATION=1",
                "FAKETIME_DONT_FAKE_MONOTONIC=1")

    def set(self, name, seconds):
        """It is that far ahead, at the latest in a second."""
        file = self.folder / f"{name}.clock"
        partial = file.with_suffix(".new")
        partial.write_text(f"+{seconds}\n")
        partial.replace(file)

    def end(self):
        """Removes what libfaketime leaves of processes that were killed."""
        for one in pathlib.Path("/dev/shm").glob("*faketime_*_*"):
            ended = not pathlib.Path("/proc", one.name.rsplit("_", 1)[1]).exists()
            if ended and one.stat().st_mtime >= self.begun:
                one.unlink()


class Batteries:
    """Power supplies that members see instead of the machine's, if a file system can be mounted here. Members pause while
    theirs discharges."""

    def __init__(self, folder):
        self.folder = folder
        tried = subprocess.run(["unshare", "-m", "mount", "--bind", folder, POWER], capture_output=True)
        self.mounted = tried.returncode == 0

    def place(self, name):
        """The command under which a process has a battery of its own; it is charged at first."""
        if not self.mounted:
            return ()
        self.set(name, "Full")
        return ("unshare", "-m", "sh", "-c", f'mount --bind "$0" {POWER} && exec "$@"', self.supplies(name))

    def supplies(self, name):
        return self.folder / f"{name}.power"

    def set(self, name, status):
        battery = self.supplies(name) / "battery"
        battery.mkdir(parents=True, exist_ok=True)
        (battery / "type").write_text("Battery\n")
        (battery / "status").write_text(f"{status}\n")


class Copies:
    """Copies of the folders of a run's processes, of different ages."""

    def __init__(self, run, chance):
        self.run, self.random, self.folder = run, chance, run.folder / "copies"
        self.due = {}  # when a copy is replaced, by name

    def renew(self, names):
        for name in names:
            if self.due.get(name, 0) <= time.monotonic():
                self.take(name)

    def take(self, name):
        """While the processes stand still, so that all files are of the same moment."""
        pids = self.run.processes_of(name)
        if not pids or not (self.run.folder / name).exists():
            return
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(STANDS)
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self.run.folder / name, self.folder / name)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        self.due[name] = time.monotonic() + self.random.uniform(*COPIES)

    def put_back(self, name):
        """Once the processes have ended."""
        folder = self.run.folder / name  # may be a file system of its own
        for one in folder.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        shutil.copytree(self.folder / name, folder, dirs_exist_ok=True)


class Faults:
    """What is done to a run, and when. Each fault begins at once and has an end that comes later."""

    def __init__(self, run, arguments, disk, round_s):
        """`round_s`: seconds that all members together take for a round."""
        self.run, self.disk, self.random, self.round_s = run, disk, random.Random(arguments.seed), round_s
        self.away_since = None  # when the coordinator, its server or its disk was last put out of order, if it still is
        self.every, self.lost = arguments.every, arguments.timeout / 4  # seconds until a silent member is lost
        # So many always go on, so that rounds have somebody to close them with.
        self.kept = 1 if arguments.members < 4 else 2
        self.kinds = [kind for kind in FAULTS if kind not in arguments.without]
        for kind in self.impossible():
            if kind in self.kinds:
                self.kinds.remove(kind)
        self.copies = Copies(run, self.random)
        self.next = time.monotonic() + self.gap()
        self.ends = []  # (time, what to do, name of whom is away until then)
        self.begun = []  # (time, kind)
        self.revoked = []  # (time, process)
        self.ahead = set()  # names of those whose clocks are

    def impossible(self):
        if not self.disk.mounted:
            yield "disk full"
        if self.run.clocks.library is None:
            yield from CLOCK_FAULTS
        if not self.run.batteries.mounted:
            yield "member pauses"
        yield from SERVER_FAULTS if self.run.cluster else CLUSTER_FAULTS

    def gap(self):
        return self.random.expovariate(1 / self.every)

    def later(self, seconds, end, name):
        """`name`: of whom is away until then, if somebody is."""
        self.ends.append((time.monotonic() + seconds, end, name))

    def act(self, more):
        """Ends what is over, and begins what is due if there is to be more."""
        now = time.monotonic()
        for one in sorted((one for one in self.ends if one[0] <= now), key=lambda one: one[0]):
            one[1]()
            self.ends.remove(one)  # only now: what begins meanwhile sees who is still away
        self.check_revoked(now)
        self.copies.renew({"serve", *self.run.members} - self.busy())
        if not more or now < self.next:
            return
        self.next = now + self.gap()
        kind = self.random.choice(self.kinds)
        if self.begin(kind):
            self.begun.append((now, kind))
            with (self.run.folder / "faults.log").open("a") as log:
                log.write(f"{time.strftime('%H:%M:%S')} {kind}\n")

    def busy(self):
        return {name for _, _, name in self.ends}

    def present(self):
        """The share of the members that are there with somebody to decide. Without, they can still compute the
        round that they are in."""
        busy, now = self.busy(), time.monotonic()
        if "serve" not in busy:
            self.away_since = None
        elif self.away_since is None:
            self.away_since = now
        if self.away_since is not None and now - self.away_since > self.round_s:
            return 0
        return 1 - len(busy & self.run.members.keys()) / len(self.run.members)

    def begin(self, kind):
        busy = self.busy()
        if kind == "strangers":
            return self.connect_as_strangers()
        if kind in CLOCK_FAULTS:
            return self.set_clock(kind)
        if kind in CLUSTER_FAULTS:
            return self.hurt_cluster(kind)
        if kind == "member revoked":
            return "serve" not in busy and self.admit_for_a_while()
        if kind not in MEMBER_FAULTS and "serve" in busy:
            return False
        free = self.free()
        if (kind in MEMBER_FAULTS or kind == "both killed") and not free:
            return False
        if kind in MEMBER_FAULTS:
            return self.hurt_member(kind, self.random.choice(free))
        if kind in COORDINATOR_FAULTS:
            return self.hurt_coordinator(kind, free)
        if kind == "disk full":
            self.disk.fill()
            self.later(self.random.uniform(1, 2 * self.lost), self.disk.make_room, "serve")
            return True
        return self.hurt_server(kind)

    def free(self):
        """The members of whom one may go."""
        free = sorted(self.run.members.keys() - self.busy())
        return free if len(free) > self.kept else []

    def hurt_coordinator(self, kind, free):
        serve = self.run.server
        if kind == "coordinator stopped":
            serve.child.send_signal(signal.SIGSTOP)
            self.later(self.random.uniform(0.5, 2 * self.lost),
                       lambda: serve.child.send_signal(signal.SIGCONT), "serve")
        elif kind == "coordinator killed":
            self.kill_coordinator()
        elif kind == "coordinator rolled back":
            return self.roll_coordinator_back()
        else:
            name = self.random.choice(free)
            self.run.members[name].kill()
            gone = self.random.uniform(1.3, 2) * self.lost
            self.later(gone + self.random.uniform(5, 10), lambda: self.run.join(name), name)
            self.later(gone, self.kill_coordinator_unless_busy, name)
        return True

    def roll_coordinator_back(self):
        if self.guests() or "serve" not in self.copies.due:  # the copy lacks the token of a guest
            return False
        pids = self.run.processes_of("serve")
        self.kill_coordinator()
        hosts_run.wait_for(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids),
                           "nats-server does not end with the coordinator")
        self.copies.put_back("serve")
        return True

    def set_clock(self, kind):
        """The clock goes ahead, and back again later; then the process goes on, or another takes its place."""
        name = "serve" if kind == "coordinator's clock" else self.random.choice(sorted(self.run.members))
        if name in self.ahead:
            return False
        self.ahead.add(name)
        self.run.clocks.set(name, self.random.choice(AHEAD))
        self.later(self.random.uniform(*AHEAD_FOR), lambda: self.set_clock_back(name), None)
        return True

    def set_clock_back(self, name):
        self.ahead.remove(name)
        self.run.clocks.set(name, 0)
        if self.random.random() < 0.5:
            if name == "serve":
                self.kill_coordinator_unless_busy()
            elif name in self.free():
                self.hurt_member("member killed", name)

    def hurt_cluster(self, kind):
        if "cluster" in self.busy():
            return False
        cluster, number = self.run.cluster, self.random.randrange(len(self.run.cluster.processes))
        if kind == "one of 3 killed":
            cluster.kill(number)
            end = lambda: cluster.start(number)  # noqa: E731
        else:
            cluster.stop(number)
            end = lambda: cluster.processes[number].send_signal(signal.SIGCONT)  # noqa: E731
        self.later(self.random.uniform(*SERVER_AWAY), end, "cluster")
        return True

    def kill_coordinator(self):
        self.run.server.kill()
        self.later(self.random.uniform(0.2, 3), self.run.serve, "serve")

    def kill_coordinator_unless_busy(self):
        if "serve" not in self.busy():
            self.kill_coordinator()

    def hurt_server(self, kind):
        number = self.run.server_child()
        if number is None:
            return False
        if kind == "nats-server killed":  # `serve` starts another one
            os.kill(number, signal.SIGKILL)
            return True
        os.kill(number, signal.SIGSTOP)
        self.later(self.random.uniform(0.5, 2 * self.lost), lambda: os.kill(number, signal.SIGCONT), "serve")
        return True

    def hurt_member(self, kind, name):
        member = self.run.members[name].child
        if kind == "member killed":
            self.run.members[name].kill()
            self.later(self.random.uniform(0.2, self.lost), lambda: self.run.join(name), name)
        elif kind in ("short stop", "long stop"):
            member.send_signal(signal.SIGSTOP)
            share = self.random.uniform(0.1, 0.6) if kind == "short stop" else self.random.uniform(1.3, 2)
            self.later(share * self.lost, lambda: member.send_signal(signal.SIGCONT), name)
        elif kind == "member pauses":
            self.run.batteries.set(name, "Discharging")
            self.later(self.random.uniform(2, 2 * self.lost), lambda: self.run.batteries.set(name, "Full"), name)
        elif kind == "member rolled back":
            if name not in self.copies.due:
                return False
            self.run.members[name].kill()
            self.copies.put_back(name)
            self.later(self.random.uniform(0.2, self.lost), lambda: self.run.join(name), name)
        else:
            member.send_signal(signal.SIGINT)
            self.later(self.random.uniform(2, self.lost), lambda: self.come_back(name, kind), name)
        return True

    def come_back(self, name, kind):
        self.run.members[name].child.wait(hosts_run.AGES)
        if kind == "member leaves":
            return self.run.join(name)
        del self.run.members[name]
        self.run.join_new()

    def guests(self):
        return self.busy() - self.run.members.keys() - {"serve", "cluster", None}

    def admit_for_a_while(self):
        """Somebody comes with a token of its own, and is shown out."""
        token = self.run.keys("issue")
        known = self.run.tokens()
        guest = self.run.start_guest(token)
        self.later(self.random.uniform(3, 3 + 2 * self.lost), lambda: self.show_out(known[-1], guest), guest.name)
        return True

    def show_out(self, token, guest):
        self.run.keys("revoke", token)
        self.revoked.append((time.monotonic(), guest))

    def check_revoked(self, now):
        for when, guest in self.revoked:
            if guest.child.poll() is None and now - when > GONE:
                self.run.wrong.append(f"{guest.name} was revoked and goes on; {guest.stuck()}")
                guest.kill()
            elif guest.child.poll() == 0:
                self.run.wrong.append(f"{guest.name} was revoked and ended with status 0")
        self.revoked = [one for one in self.revoked if one[1].child.poll() is None]

    def connect_as_strangers(self):
        host, port = self.run.address().rsplit(":", 1)
        for _ in range(STRANGERS):
            try:
                with socket.create_connection((host, int(port)), timeout=1) as one:
                    one.sendall(b"GET / HTTP/1.0\r\n\r\n")
            except OSError:
                continue  # the server is away, or has enough of them
        return True
