"""Launcher mpi: ranks give the same bits as threads, and what happens when one dies."""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from mpi_case import MPIRUN, has_mpi, ranks_of

BINARY = os.environ["THINWIRE_BINARY"]
TINY = ["model.hidden=32", "model.layers=2", "model.heads=2", "llama.intermediate=64",
        "train.batch=6", "train.sequence=16", "train.workers=3", "optim.lr=0.003",
        "schedule.warmup=2", "log.tensorboard=false"]
METHODS = {
    "allreduce": ["sync.method=allreduce", "allreduce.wire=fp8"],
    "allreduce_hidden": ["sync.method=allreduce", "train.microbatch=1"],
    "distro": ["sync.method=distro"],
    "distro_overlap": ["sync.method=distro", "distro.overlap=1"],
    "distro_summed": ["sync.method=distro", "distro.sum_wire=int8", "distro.sum_k=40"],
    "diloco": ["sync.method=diloco", "diloco.sync_every=4"],
    "streaming": ["sync.method=streaming", "streaming.sync_every=6", "streaming.fragment_layers=1",
                  "streaming.overlap=inner", "streaming.overlap_steps=1"],
    "eager": ["sync.method=diloco", "diloco.sync_every=4", "diloco.overlap=eager"],
    "sparseloco": ["sync.method=sparseloco", "sparseloco.sync_every=4"],
}
# Payloads of about the model's size, so that its last checkpoint takes no longer than a step.
PACED = {
    "allreduce": ["sync.method=allreduce"],
    "distro": ["sync.method=distro", "distro.k=2048", "distro.values=fp32"],
}
LONG = METHODS["diloco"] + ["train.steps=1500"]  # to be stopped before its end
# Two ranks of two workers each.
TWO_STAGES = ["sync.clusters=2", "train.batch=8"]
SHARED_RANKS = {
    "within_allreduce": ["sync.method=diloco", "diloco.sync_every=4", "sync.within=allreduce",
                         *TWO_STAGES],
    "within_distro": ["sync.method=streaming", "streaming.sync_every=5", "sync.within=distro",
                      "streaming.fragment_layers=1", "streaming.overlap_steps=1", *TWO_STAGES],
    "sparseloco_stages": ["sync.method=sparseloco", "sparseloco.sync_every=3", "sync.within=allreduce",
                      *TWO_STAGES],
    "shared_eager": ["sync.method=diloco", "diloco.sync_every=3", "diloco.overlap=eager",
                     "sync.absent=[\"1=2-3\"]", "train.batch=8"],
}


@unittest.skipUnless(has_mpi(), "no mpirun, or a program without MPI")
class Mpi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        (cls.folder / "text.txt").write_text("".join(
            f"thin wires carry {i % 7} small payloads {i % 11} far\n" for i in range(900)))
        cls.recipe = cls.folder / "recipe.toml"
        cls.recipe.write_text(f"""
            [data]
            dir = "{cls.folder}/tokens"
            text = ["{cls.folder}/text.txt"]
            document = "line"
            vocabulary = "byte"
            validation_fraction = 0.05
            """)
        subprocess.run([BINARY, "prepare", cls.recipe], check=True, capture_output=True)

    @classmethod
    @functools.cache
    def long_digest(cls):
        """The digest of the run LONG, which threads make once for all tests."""
        folder = cls.folder / "long"
        subprocess.run([BINARY, "train", cls.recipe, *TINY, f"run.dir={folder}", *LONG],
                       check=True, capture_output=True, timeout=300)
        return json.loads((folder / "summary.json").read_text())["digest"]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def command(self, name, *overrides):
        return [BINARY, "train", str(self.recipe), *TINY, f"run.dir={self.folder / name}",
                *overrides]

    def ranks(self, count, name, *overrides):
        return [*MPIRUN, "-n", str(count), *self.command(name, "train.launcher=mpi", *overrides)]

    def run_checked(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def summary(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())

    def test_ranks_give_the_bits_and_records_of_threads(self):
        for name, overrides in METHODS.items():
            with self.subTest(method=name):
                overrides = [*overrides, "train.steps=12", "eval.every=6", "checkpoint.every=5"]
                self.run_checked(self.command(name, *overrides))
                done = self.run_checked(self.ranks(3, name + "-mpi", *overrides))
                self.assertEqual(done.stdout.count("digest"), 1, "only rank 0 prints")
                local, mpi = self.summary(name), self.summary(name + "-mpi")
                for key in ("digest", "train_loss", "val_loss", "tokens",
                            "bytes_sent_per_worker_step", "bytes_received_per_worker_step"):
                    self.assertEqual(mpi[key], local[key], key)

    def test_an_all_reduce_that_hides_gives_the_bits_of_one_that_does_not(self):
        digests = set()
        for workers in (2, 3, 4):
            for hide in ("true", "false"):
                name = f"hide-{workers}-{hide}"
                self.run_checked(self.ranks(
                    min(workers, 3), name, "sync.method=allreduce", f"allreduce.hide={hide}",
                    "train.steps=6", f"train.workers={workers}", "train.batch=12"))
                digests.add((workers, self.summary(name)["digest"]))
        self.assertEqual(len(digests), 3)

    def test_paced_ranks_are_no_faster_than_their_links(self):
        for name, overrides in PACED.items():
            with self.subTest(method=name):
                overrides = [*overrides, "train.steps=4"]
                self.run_checked(self.command("free-" + name, *overrides))
                free = self.summary("free-" + name)
                bits = 8 * 4 * free["bytes_received_per_worker_step"]
                self.run_checked(self.ranks(
                    3, "paced-" + name, *overrides, "links.paced=true", "links.up_bit_s=1G",
                    "links.delay_s=0.01", f"links.down_bit_s={bits}"))
                paced = self.summary("paced-" + name)
                self.assertEqual(paced["digest"], free["digest"])
                self.assertGreater(paced["seconds"], 1, "all that is received takes a second")
                self.assertEqual(paced["seconds_over_links"], paced["seconds"])

    def test_ranks_of_several_workers_give_the_bits_of_threads(self):
        for name, overrides in SHARED_RANKS.items():
            with self.subTest(method=name):
                overrides = [*overrides, "train.workers=4", "train.steps=12", "eval.every=6",
                             "checkpoint.every=5"]
                self.run_checked(self.command(name, *overrides))
                self.run_checked(self.ranks(2, name + "-mpi", *overrides))
                local, mpi = self.summary(name), self.summary(name + "-mpi")
                for key in ("digest", "train_loss", "val_loss", "tokens",
                            "bytes_sent_per_worker_step", "bytes_received_per_worker_step"):
                    self.assertEqual(mpi[key], local[key], key)

    def test_ranks_agree_on_speeds_that_they_measure(self):
        self.run_checked(self.ranks(3, "speeds", "sync.method=diloco", "diloco.sync_every=2",
                                    "diloco.overlap=eager", "sync.shares=speed", "train.steps=12"))
        self.assertEqual(self.summary("speeds")["tokens"], 12 * 6 * 16)

    def test_what_ranks_began_threads_finish(self):
        overrides = METHODS["eager"] + ["train.steps=14", "checkpoint.every=5",
                                        "checkpoint.keep=9"]
        self.run_checked(self.ranks(3, "whole", *overrides))
        part = self.folder / "part"
        shutil.copytree(self.folder / "whole", part)
        (part / "summary.json").unlink()
        for step in (10, 14):
            shutil.rmtree(part / "checkpoints" / f"step-{step:08}")
        self.run_checked(self.command("part", *overrides))
        self.assertEqual(self.summary("part")["digest"], self.summary("whole")["digest"])

    def test_a_killed_rank_ends_the_run_and_leaves_a_checkpoint(self):
        often = "checkpoint.every=10"
        with subprocess.Popen(self.ranks(3, "killed", *LONG, often), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
            checkpoints = self.folder / "killed" / "checkpoints"
            while not list(checkpoints.glob("step-????????")):
                self.assertIsNone(job.poll(), "ended before its first checkpoint")
                time.sleep(0.01)
            os.kill(ranks_of(job.pid)[0], signal.SIGKILL)
            output = job.communicate(timeout=60)[0]
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(output, r"(?i)rank \d.*exited on signal 9")
        self.assertFalse((self.folder / "killed" / "summary.json").exists())
        self.run_checked(self.ranks(3, "killed", *LONG))
        self.assertEqual(self.summary("killed")["digest"], self.long_digest())

    def test_a_signal_to_a_rank_ends_the_run_with_a_checkpoint(self):
        with subprocess.Popen(self.ranks(3, "stopped", *LONG, "checkpoint.every=700"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
            log = self.folder / "stopped" / "events.jsonl"
            while not log.exists() or log.read_text().count('"event":"step"') < 20:
                self.assertIsNone(job.poll(), "ended before its 20th step")
                time.sleep(0.01)
            os.kill(ranks_of(job.pid)[0], signal.SIGTERM)
            output = job.communicate(timeout=60)[0]
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, output)
        step = int(re.search(r"stopped after step (\d+) of 1500", output).group(1))
        checkpoints = [path.name for path in (self.folder / "stopped" / "checkpoints").iterdir()]
        self.assertIn(f"step-{step:08}", checkpoints)
        self.run_checked(self.ranks(3, "stopped", *LONG))
        self.assertEqual(self.summary("stopped")["digest"], self.long_digest())

    def test_a_failing_worker_ends_all_ranks_with_its_message(self):
        done = subprocess.run(self.ranks(3, "diverged", "optim.lr=1e6", "schedule.warmup=0", "optim.weight_decay=1",
                                         "train.steps=50", "sync.method=diloco"),
                              capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("lower optim.lr", done.stderr)

    def test_every_rank_needs_a_worker(self):
        done = subprocess.run(self.ranks(4, "four"), capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mpirun -n 3", done.stderr)

    def test_links_are_simulated_in_one_process_only(self):
        done = subprocess.run(self.ranks(3, "links", "links.step_s=1"), capture_output=True,
                              text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("must be in one process", done.stderr)


if __name__ == "__main__":
    unittest.main()
