"""The program where its current folder was deleted, and as the first process of a container."""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from trained_case import BINARY, TrainedCase

CONTAINER = ("unshare", "--fork", "--pid", "--kill-child")


def enter_deleted_folder():
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


class DeletedFolder(TrainedCase):
    fields = ["train.steps = 2", "train.batch = 2", "train.workers = 1"]

    def call(self, *arguments):
        return subprocess.run([BINARY, *arguments], capture_output=True, text=True, preexec_fn=enter_deleted_folder)

    def test_what_needs_no_file_of_it_works(self):
        run = self.folder / "run"
        for command in (["--version"], ["bench", "machine", "--seconds", "0.001"], ["compare", run],
                        ["generate", run, "--tokens", "3", "--prompt", "wire"],
                        ["train", self.recipe, f"run.dir={self.folder}/again"]):
            with self.subTest(command=command):
                done = self.call(*command)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotEqual(done.stdout, "")

    def test_what_does_says_that_it_was_deleted(self):
        hint = "(the current folder was deleted: change to another one)\n"
        for command in (["train", "recipe.toml"], ["train", self.recipe, "run.dir=here"]):
            with self.subTest(command=command):
                done = self.call(*command)
                self.assertIn(done.returncode, (1, 2))
                self.assertTrue(done.stderr.endswith(hint), done.stderr)


class Package(TrainedCase):
    fields = ["train.steps = 2", "train.batch = 2", "train.workers = 1"]

    def test_nats_server_beside_the_program_is_taken(self):
        package = self.folder / "package"
        package.mkdir()
        program = package / "thinwire"
        program.symlink_to(BINARY)  # a link is followed: the server beside it is not the program's
        serve = ["serve", self.recipe, f"run.dir={self.folder}/served", "--listen", "127.0.0.1:0"]
        (package / "nats-server").write_text("#!/bin/sh\necho the one beside it; exit 3\n")
        (package / "nats-server").chmod(0o755)
        nowhere = {**os.environ, "PATH": ""}
        done = subprocess.run([program, *serve], env=nowhere, capture_output=True, text=True)
        self.assertIn("there is no nats-server", done.stderr)
        self.assertEqual(done.returncode, 2)
        program.unlink()
        shutil.copy(BINARY, program)
        done = subprocess.run([program, *serve], env=nowhere, capture_output=True, text=True)
        self.assertIn("nats-server ended with exit status 3: the one beside it", done.stderr)
        self.assertEqual(done.returncode, 1)


def can_contain():
    try:
        return subprocess.run([*CONTAINER, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@unittest.skipUnless(can_contain(), "no process namespaces can be made here")
class FirstProcess(TrainedCase):
    """No signal ends the first process of a container unless it catches the signal."""

    fields = ["train.steps = 2", "train.batch = 2", "train.workers = 1", "log.every = 1"]

    def status_after(self, number, stream, text, *arguments):
        """The exit status of a program that gets a signal once the stream's first lines say `text`."""
        one = subprocess.Popen([*CONTAINER, BINARY, *map(str, arguments)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        self.addCleanup(one.communicate)
        self.addCleanup(one.kill)
        shown = next(line for line in getattr(one, stream) if text in line)
        self.assertIn(text, shown)
        children = Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text()
        os.kill(int(children), number)
        return one.wait(timeout=60)

    def test_ends_with_the_status_of_the_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            folder = self.folder / f"stopped-{number}"
            with self.subTest(command="train", signal=number):
                status = self.status_after(number, "stderr", "loss", "train", self.recipe, f"run.dir={folder}",
                                           "train.steps=1000000")
                self.assertEqual(status, 128 + number)
                self.assertTrue(list((folder / "checkpoints").iterdir()), "it ends cleanly")
            with self.subTest(command="plan", signal=number):  # which catches no signals
                status = self.status_after(number, "stderr", "measuring", "plan", self.recipe, "train.sequence=512",
                                           "model.hidden=1024", "model.layers=8")
                self.assertEqual(status, 128 + number)

    def test_ends_as_others_do_when_nobody_reads(self):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([*CONTAINER, BINARY, "recipe", "--explain"], stdout=writing)
        os.close(writing)
        self.assertEqual(done.returncode, 128 + signal.SIGPIPE)


if __name__ == "__main__":
    unittest.main()
