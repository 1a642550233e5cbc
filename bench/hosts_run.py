"""A run of many hosts made of real processes: `thinwire serve` and its members, for the benchmarks that
need one. What the processes say goes to files in the run's folder."""

import json
import pathlib
import random
import shutil
import subprocess
import sys
import time

AGES = 600  # seconds; only what hangs takes so long
LOOK = 3  # seconds that a look at the run may take
POLL = 0.05  # seconds


class Process:
    """A command of the program, whose messages go to a file."""

    def __init__(self, run, name, *arguments, place=()):
        self.name, self.log = name, run.folder / f"{name}.txt"
        self.before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.child = subprocess.Popen([*place, run.program, *map(str, arguments)], cwd=run.root,
                                          stdout=log, stderr=log)

    def said(self):
        """By this process; earlier ones of the same name wrote to the same file."""
        with self.log.open("rb") as log:
            log.seek(self.before)
            return log.read().decode(errors="replace")

    def stuck(self):
        """Its last line, for a message; the stacks of its threads go to a file."""
        lines = self.said().strip().splitlines() or ["nothing"]
        stack = self.log.with_suffix(".stack")
        stack.write_text(stacks_of(self.child.pid))
        return f"{self.name} last said '{lines[-1].strip()}'; its stack is in {stack}"

    def kill(self):
        self.child.kill()
        self.child.wait()


class HostsRun:
    """A served run and its members, which somebody else starts with join()."""

    def __init__(self, program, root, name, fields, listen="127.0.0.1:0", place=(), options=()):
        """`root` has recipe.toml and its prepared data; `fields` are set in the recipe. `place` is the
        command under which serve and status run, such as `ip netns exec server`; `options` are serve's, those of a
        cluster instead of `listen` (None) among them."""
        self.program, self.root, self.folder = program.resolve(), root, root / name
        self.fields, self.listen, self.place, self.options = fields, listen, place, options
        self.folder.mkdir(exist_ok=True)
        self.members = {}  # by name
        self.round = 0
        self.wrong = []
        self.serve()

    def serve(self):
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        listen = ["--listen", self.listen] if self.listen else []
        self.server = Process(self, "serve", "serve", "recipe.toml", *self.fields,
                              f"run.dir={self.folder}/serve", *listen, "--ready-file", ready, *self.options,
                              place=self.place)
        wait_for(lambda: ready.exists() or self.server.child.poll() is not None, "the run is not served")
        if not ready.exists():
            fail(f"thinwire serve ended:\n{self.server.said()}")
        self.ready = json.loads(ready.read_text())

    def address(self):
        """Where members join."""
        return self.ready["address"]

    def join(self, name, *arguments, place=()):
        self.members[name] = Process(self, name, "join", self.address(), "--token", self.ready["token"],
                                     f"run.dir={self.folder}/{name}", "train.threads=1", *arguments, place=place)

    def look(self):
        """Asks how far the run is; nothing while nobody answers."""
        try:
            done = subprocess.run([*self.place, self.program, "status", self.ready["address"], "--token",
                                   self.ready["token"], "--json"], capture_output=True, text=True, timeout=LOOK)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode != 0:
            return None
        status = json.loads(done.stdout)
        self.saw(status["round"])
        return status

    def saw(self, round):
        """This round is open."""
        if round < self.round:
            self.wrong.append(f"round {self.round} was open, then round {round}")
        self.round = max(self.round, round)

    def end(self):
        """Kills what still runs."""
        for one in [self.server, *self.members.values()]:
            if one.child.poll() is None:
                one.kill()

    def finish(self):
        """Waits for the end of the run, and adds to `wrong` whatever did not end as it should. Returns the
        summaries, by the name of the process that wrote them."""
        for one in [*self.members.values(), self.server]:
            try:
                status = one.child.wait(AGES)
            except subprocess.TimeoutExpired:
                self.wrong.append(f"{one.name} does not end; {one.stuck()}")
                continue
            if status != 0:
                self.wrong.append(f"{one.name} ended with status {status}: {one.said().strip().splitlines()[-1:]}")
        files = {one.name: self.folder / one.name / "summary.json" for one in [self.server, *self.members.values()]}
        ends = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
        for name in files.keys() - ends.keys():
            self.wrong.append(f"{name} has no summary")
        digests = {name: end["digest"] for name, end in ends.items()}
        if len(set(digests.values())) != 1:
            self.wrong.append(f"digests differ: {digests}")
        for log in self.folder.glob("*.txt"):
            if "the ledger's history changed" in log.read_text(errors="replace"):
                self.wrong.append(f"{log.stem} found that the ledger's history changed")
        return ends


def stacks_of(pid):
    """The stacks of all threads of a process: what gdb says, or without it what the kernel does for each."""
    if shutil.which("gdb"):
        done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 20"],
                              capture_output=True, text=True)
        return done.stdout + done.stderr
    text = ""
    for thread in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir()):
        text += f"thread {thread.name}\n"
        for name in ("comm", "wchan", "syscall", "stack"):
            try:
                text += f"{name}: {(thread / name).read_text().strip()}\n"
            except OSError as error:
                text += f"{name}: {error.strerror}\n"
    return text


def wait_for(ready, what, seconds=AGES, waited_for=list):
    """`waited_for` returns the processes that may be what it hangs at."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            fail("\n".join([what, *(one.stuck() for one in waited_for())]))
        time.sleep(POLL)


def fail(what):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {what}")


def prepare(program, root, name):
    """Writes a small text and a recipe of it without a model, and prepares its data."""
    # No two rows of it are alike: members that send the same bytes count as copies of each other.
    words = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz    "
    (root / "text.txt").write_text("\n".join("".join(words.choices(letters, k=40)) for _ in range(2000)))
    (root / "recipe.toml").write_text("\n".join([
        f'run.name = "{name}"', 'data.dir = "tokens"', 'data.text = ["text.txt"]', 'data.document = "line"',
        'data.vocabulary = "byte"', "data.validation_block = 4"]))
    subprocess.run([program.resolve(), "prepare", "recipe.toml"], cwd=root, check=True, capture_output=True)
