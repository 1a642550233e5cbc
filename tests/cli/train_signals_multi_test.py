"""Signals to `thinwire train`: the first asks for a checkpoint and a clean end by that signal, the
second ends at once, and a run killed at any moment resumes to the same bits as one that never
was."""

import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = os.environ["THINWIRE_BINARY"]
STEPS = 60


class TrainSignals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        text = "\n".join(f"line {i} of a small text about thin wires" for i in range(2000))
        (cls.folder / "text.txt").write_text(text)
        cls.data = [f"data.dir={cls.folder}/tokens", f"data.text={cls.folder}/text.txt",
                    "data.document=line", "data.vocabulary=byte", "data.validation_block=4"]
        subprocess.run([BINARY, "prepare", *cls.data], check=True, capture_output=True)
        (cls.folder / "recipe.toml").write_text("")
        cls.whole = cls.run_to_end("whole")["digest"]

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def command(cls, name):
        return [BINARY, "train", f"{cls.folder}/recipe.toml", f"data.dir={cls.folder}/tokens",
                f"run.dir={cls.folder}/{name}", "model.hidden=64", "model.layers=2",
                "train.workers=2", f"train.steps={STEPS}", "train.sequence=64",
                "checkpoint.every=5", "log.every=1", "log.tensorboard=false"]

    @classmethod
    def run_to_end(cls, name):
        subprocess.run(cls.command(name), check=True, capture_output=True)
        return json.loads((cls.folder / name / "summary.json").read_text())

    def start_and_reach(self, name, step, **options):
        """Starts a run and returns it once its progress shows this step."""
        run = subprocess.Popen(self.command(name), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, **options)
        log = self.folder / name / "events.jsonl"
        for _ in run.stderr:
            if log.exists() and log.read_text().count('"event":"step"') >= step:
                return run
        self.fail(f"the run ended before step {step}")

    def assert_goes_on(self, name):
        self.assertTrue(list((self.folder / name / "checkpoints").iterdir()))
        self.assertFalse((self.folder / name / "summary.json").exists())
        self.assertEqual(self.run_to_end(name)["digest"], self.whole)

    def test_a_signal_writes_a_checkpoint_and_the_run_ends_by_it(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                name = f"interrupted-{number}"
                run = self.start_and_reach(name, 7)
                run.send_signal(number)
                _, stderr = run.communicate(timeout=60)
                self.assertEqual(run.returncode, -number, stderr)
                self.assertIn("the same command resumes", stderr)
                self.assert_goes_on(name)

    def test_a_reader_that_goes_away_ends_the_run_in_order(self):
        run = self.start_and_reach("unread", 7)
        run.stderr.close()
        self.assertEqual(run.wait(timeout=60), -signal.SIGPIPE)
        self.assert_goes_on("unread")

    def test_a_hangup_that_is_ignored_stays_so(self):
        run = self.start_and_reach(
            "nohup", 7, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        run.send_signal(signal.SIGHUP)
        _, stderr = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, stderr)

    def test_kill_loses_no_more_than_the_steps_since_the_last_checkpoint(self):
        run = self.start_and_reach("killed", 12)
        run.kill()
        run.communicate(timeout=60)
        summary = self.run_to_end("killed")
        self.assertEqual(summary["digest"], self.whole)
        self.assertEqual(summary["steps"], STEPS)

    def test_second_signal_ends_at_once(self):
        run = self.start_and_reach("twice", 3)
        run.send_signal(signal.SIGSTOP)  # both signals arrive before it can end cleanly
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGTERM)
        run.send_signal(signal.SIGCONT)
        run.communicate(timeout=60)
        self.assertIn(run.returncode, (-signal.SIGINT, -signal.SIGTERM))

    def test_a_signal_to_a_sweep_ends_its_runs_and_the_sweep_by_it(self):
        run = self.folder / "fake"
        run.write_text("#!/bin/sh\nkill -TERM $PPID\nexec sleep 600\n")
        run.chmod(0o700)
        grid = self.folder / "grid.toml"
        grid.write_text(f'recipe = "{self.folder}/recipe.toml"\n[grid]\noptim.lr = [1e-3, 3e-3]\n')
        done = subprocess.run(
            [BINARY, "sweep", grid, "--out", self.folder / "sweep", "--program", run, "--jobs", "1"],
            capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, -signal.SIGTERM, done.stderr)
        self.assertIn("stopped with 0 of 2 runs done; the same command continues", done.stderr)

    def test_two_processes_do_not_train_in_one_folder(self):
        run = self.start_and_reach("shared", 3)
        second = subprocess.run(self.command("shared"), capture_output=True, text=True, check=False)
        run.kill()
        run.communicate(timeout=60)
        self.assertEqual(second.returncode, 1)
        self.assertIn("another process is using", second.stderr)


if __name__ == "__main__":
    unittest.main()
