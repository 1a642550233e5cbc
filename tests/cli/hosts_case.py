"""Shared by tests of runs of many hosts: a small text, its recipe, and the processes of a run on loopback."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]
PATIENCE = 120  # seconds; only what hangs takes that long


class Running:
    """A process of the program, whose messages are kept and can be waited for."""

    def __init__(self, *arguments, cwd, place=()):
        """`place` is the command under which it runs, such as `ip netns exec server`."""
        self.process = subprocess.Popen([*place, BINARY, *map(str, arguments)], cwd=cwd, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.messages = ""
        self.ended = False
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.messages += line
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait_for(self, text, after=0):
        """Returns once its messages contain `text`, from their `after`-th character on; fails if it ends before."""
        with self.changed:
            found = self.changed.wait_for(lambda: text in self.messages[after:] or self.ended, PATIENCE)
            assert found and text in self.messages[after:], f"no message contains '{text}':\n{self.messages}"

    def finish(self):
        """Its exit status; a test that waits too long shows its messages."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it does not end:\n{self.messages}") from None
        self.reader.join(PATIENCE)
        return status

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(PATIENCE)

    def signal(self, number):
        self.process.send_signal(number)


class HostsCase(unittest.TestCase):
    """One prepared text for all tests of a class; each test has a folder of its own."""

    fields = ["model.hidden=16", "model.layers=1", "model.heads=1", "llama.intermediate=32", "train.batch=4",
              "train.sequence=16", "optim.lr=0.003", "schedule.warmup=2", "log.tensorboard=false",
              "sync.timeout_s=600"]

    needs_server = True  # of NATS
    server_place = ()  # the command under which serve and status run

    @classmethod
    def setUpClass(cls):
        if cls.needs_server and not shutil.which("nats-server"):
            raise unittest.SkipTest("there is no nats-server here")
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.root = Path(temporary.name)
        text = "\n".join(f"line {i} of a small text about thin wires" for i in range(600))
        (cls.root / "text.txt").write_text(text)
        (cls.root / "recipe.toml").write_text("\n".join([
            'run.name = "tiny"', 'data.dir = "tokens"', 'data.text = ["text.txt"]', 'data.document = "line"',
            'data.vocabulary = "byte"', "data.validation_block = 4"]))
        subprocess.run([BINARY, "prepare", "recipe.toml"], cwd=cls.root, check=True, capture_output=True)

    def setUp(self):
        self.folder = self.root / self.id().split(".")[-1]
        self.folder.mkdir()
        self.running = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for one in self.running:
            if one.process.poll() is None:
                one.kill()
            one.process.stdout.close()
            one.process.stderr.close()

    def start(self, *arguments, place=()):
        one = Running(*arguments, cwd=self.root, place=place)
        self.running.append(one)
        return one

    def serve(self, *fields, options=(), listen="127.0.0.1:0"):
        """Starts or goes on with this test's run, and returns once members may join."""
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        server = self.start("serve", "recipe.toml", *self.fields, *fields, f"run.dir={self.folder}/serve",
                            "--listen", listen, "--ready-file", ready, *options, place=self.server_place)
        self.wait_until_ready(server, ready)
        return server

    def wait_until_ready(self, server, ready):
        server.wait_for("thinwire join")
        self.ready = json.loads(ready.read_text())

    def assert_refused(self, one, status, *texts):
        self.assertEqual(one.finish(), status, one.messages)
        for text in texts:
            self.assertIn(text, one.messages)

    def join(self, name, *fields, token=None, address=None, place=()):
        """With one thread, as trained_digest: more of them round gradients otherwise."""
        return self.start("join", address or self.ready["address"], "--token", token or self.ready["token"],
                          f"run.dir={self.folder}/{name}", "train.threads=1", *fields, place=place)

    def status(self):
        done = subprocess.run([*self.server_place, BINARY, "status", self.ready["address"], "--token",
                               self.ready["token"], "--json"],
                              capture_output=True, text=True, check=True, timeout=PATIENCE)
        return json.loads(done.stdout)

    def run_of(self, workers, *fields):
        """Serves a run and joins with all that it begins with."""
        server = self.serve(f"train.workers={workers}", *fields)
        return server, {f"member{i}": self.join(f"member{i}") for i in range(workers)}

    def trained_digest(self, *fields):
        """The digest of the same run with threads of one process."""
        subprocess.run([BINARY, "train", "recipe.toml", *self.fields, *fields, f"run.dir={self.folder}/train"],
                       cwd=self.root, check=True, capture_output=True)
        return self.summary("train")["digest"]

    def summary(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())

    def assert_complete(self, server, **members):
        """All end well with the same digest, which is returned."""
        return self.assert_agreement(**members, serve=server)

    def assert_same_weights(self, *names):
        """The last checkpoints in these folders hold the same bytes."""
        weights = {max((self.folder / name / "checkpoints").glob("step-*")) / "weights.safetensors" for name in names}
        self.assertEqual(len({file.read_bytes() for file in weights}), 1)

    def assert_agreement(self, **processes):
        """The same of processes by the names of their folders."""
        digests = set()
        for name, one in processes.items():
            self.assertEqual(one.finish(), 0, f"{name}:\n{one.messages}")
            digests.add(self.summary(name)["digest"])
        self.assertEqual(len(digests), 1)
        return digests.pop()
