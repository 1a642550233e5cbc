#!/usr/bin/env python3
"""Thinwire beside torchft, hivemind, PyTorch's DDP and DeMo: the same network, four processes on this machine.

    python3 -m venv scratch && scratch/bin/pip install torch==2.13.0 numpy torchft hivemind einops
    export THINWIRE_BINARY=build/release/bin/thinwire PYTHONPATH=python
    sudo -E scratch/bin/python bench/python/frameworks.py [NAME …] [--demo demo.py]

Each framework has a network namespace of its own, so that what the loopback device has sent are its bytes, headers and
everything, and nobody else's; that needs root. A first run counts steps and bytes between one step and another, from which
what the start costs is left out; in a second one, worker 3 is killed with SIGKILL at half of the steps, and what the others do
is told. Lines of user code are those between the marks in each script, without empty ones. exo gym has no code on PyPI.
demo.py is that of github.com/bloc97/DeMo, which is not on PyPI.
"""

import argparse
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "frameworks"
NAMES = ["thinwire_diloco", "thinwire_distro", "torchft_diloco", "hivemind_optimizer", "torch_ddp"]
PATIENCE = 120  # seconds without a step, after which a run counts as stuck


def own_network():
    """A loopback device that no other process uses."""
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "a network namespace cannot be made here; it needs root")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS, up and running


def sent_bytes():
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[8])
    raise LookupError("there is no loopback device")


class Workers:
    """Four workers of a script, and its coordinator if it has one."""

    def __init__(self, name, steps, folder, more):
        script = str(SCRIPTS / f"{name}.py")
        self.folder, self.begun = folder, time.time()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HIVEMIND_LOGLEVEL": "ERROR"}

        def start(role, log):
            return subprocess.Popen([sys.executable, script, role, str(folder), str(steps), *more], stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log, env=environment, start_new_session=True)

        self.log = open(folder / "log", "w")
        self.server = start("serve", self.log) if "serve FOLDER" in (SCRIPTS / f"{name}.py").read_text() else None
        self.workers = [start(str(worker), self.log) for worker in range(4)]

    def notes(self, worker):
        """(step, time, loss) of each step that it has taken."""
        path = self.folder / f"worker-{worker}"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [(int(step), float(at), float(loss)) for step, at, loss, _ in map(str.split, lines)]

    def wait_for(self, step, of=range(4)):
        """Until all of them have taken a step; False if they are stuck."""
        last, known = time.time(), 0
        while True:
            counts = [len(self.notes(worker)) for worker in of]
            if min(counts) > step:
                return True
            if all(self.workers[worker].poll() is not None for worker in of) or time.time() - last > PATIENCE:
                return False
            if sum(counts) > known:
                last, known = time.time(), sum(counts)
            time.sleep(0.02)

    def end(self):
        for one in [*self.workers, *([self.server] if self.server else [])]:
            try:
                os.killpg(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            one.wait()
        self.log.close()


def user_lines(name):
    counting, count = False, 0
    for line in (SCRIPTS / f"{name}.py").read_text().splitlines():
        if "# user code" in line:
            counting = line.strip() == "# user code begins"
        elif counting and line.strip():
            count += 1
    return count


def speed(name, steps, first, folder, more):
    """Steps a second and bytes of a worker and step, between two steps of the run, and the loss at its end."""
    run = Workers(name, steps, folder, more)
    try:
        if not run.wait_for(first):
            return "did not come to step {}: {}".format(first, last_line(folder)), None, None
        begun, before = time.time(), sent_bytes()
        from_step = min(len(run.notes(worker)) for worker in range(4))
        if not run.wait_for(steps - 1):
            return "stuck: {}".format(last_line(folder)), None, None
        taken = steps - from_step
        losses = [loss for worker in range(4) for _, _, loss in run.notes(worker)[-20:]]
        return taken / (time.time() - begun), (sent_bytes() - before) / taken / 4, statistics.mean(losses)
    finally:
        run.end()


def killed(name, steps, folder, more):
    """What three workers do once the fourth has been killed."""
    run = Workers(name, steps, folder, more)
    try:
        if not run.wait_for(steps // 2):
            return "did not come to half of the steps"
        os.killpg(run.workers[3].pid, signal.SIGKILL)
        at, before = time.time(), [len(run.notes(worker)) for worker in range(3)]
        went_on = run.wait_for(steps - 1, range(3))
        times = [[when for _, when, _ in run.notes(worker) if when > at] for worker in range(3)]
        taken = [len(run.notes(worker)) - had for worker, had in enumerate(before)]
        if not went_on:
            ended = sum(one.poll() is not None for one in run.workers[:3])
            return f"after {max(taken)} more steps {ended} of 3 had ended, {3 - ended} were stuck: {last_line(folder)}"
        if not any(times):
            return "none went on, as the others had taken all of their steps before"
        longest = max(b - a for own in times for a, b in zip([at, *own], own))
        return f"the others take all of their steps; longest wait {longest:.1f} s"
    finally:
        run.end()


def last_line(folder):
    lines = [line for line in (folder / "log").read_text(errors="replace").splitlines() if "rror" in line]
    return lines[-1].strip()[:160] if lines else "no error was printed"


def alone(name, arguments):
    """In a process and a network of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own_network()
            more = [arguments.demo] if name == "demo_optimizer" else []
            base = Path(tempfile.mkdtemp(prefix="frameworks-"))
            for part in ("speed", "killed"):
                (base / part).mkdir()
            rate, sent, loss = speed(name, arguments.steps, arguments.first, base / "speed", more)
            shown = rate if isinstance(rate, str) else f"{rate:8.1f} | {sent:9.0f} | {loss:.3f}"
            os.write(write, f"| {name} | {shown} | {user_lines(name)} | {killed(name, arguments.steps, base / 'killed', more)} |"
                     .encode())
            shutil.rmtree(base)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as said:
        print(said.read() or f"| {name} | failed |", flush=True)
    os.waitpid(child, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--first", type=int, default=60, help="step from which time and bytes count")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--demo", help="demo.py of bloc97/DeMo")
    arguments = parser.parse_args()
    names = arguments.names
    if arguments.demo and "demo_optimizer" not in names:
        names = [*names, "demo_optimizer"]
    print("| framework | steps/s | bytes a step and worker | loss | lines | worker 3 is killed |\n|---|---|---|---|---|---|")
    for _ in range(arguments.rounds):
        for name in names:
            alone(name, arguments)


if __name__ == "__main__":
    main()
