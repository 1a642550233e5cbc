"""Signals against `thinwire train`: the first asks for a checkpoint and an orderly end, the second ends
at once, and a run that was killed at any moment goes on to the same bits as one that never was."""

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

    def start_and_reach(self, name, step):
        """Starts a run and returns it once its progress shows this step."""
        run = subprocess.Popen(self.command(name), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        log = self.folder / name / "events.jsonl"
        for _ in run.stderr:
            if log.exists() and log.read_text().count('"event":"step"') >= step:
                return run
        self.fail(f"the run ended before step {step}")

    def test_interrupt_writes_a_checkpoint_and_the_run_goes_on(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            name = f"interrupted-{number}"
            run = self.start_and_reach(name, 7)
            run.send_signal(number)
            _, stderr = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 1, stderr)
            self.assertIn("the same command goes on", stderr)
            self.assertFalse((self.folder / name / "summary.json").exists())
            self.assertEqual(self.run_to_end(name)["digest"], self.whole)

    def test_kill_loses_no_more_than_the_steps_since_the_last_checkpoint(self):
        run = self.start_and_reach("killed", 12)
        run.kill()
        run.communicate(timeout=60)
        summary = self.run_to_end("killed")
        self.assertEqual(summary["digest"], self.whole)
        self.assertEqual(summary["steps"], STEPS)

    def test_second_signal_ends_at_once(self):
        run = self.start_and_reach("twice", 3)
        run.send_signal(signal.SIGSTOP)  # both signals are there before it can end in order
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGTERM)
        run.send_signal(signal.SIGCONT)
        run.communicate(timeout=60)
        self.assertIn(run.returncode, (128 + signal.SIGINT, 128 + signal.SIGTERM))

    def test_two_processes_do_not_train_in_one_folder(self):
        run = self.start_and_reach("shared", 3)
        second = subprocess.run(self.command("shared"), capture_output=True, text=True, check=False)
        run.kill()
        run.communicate(timeout=60)
        self.assertEqual(second.returncode, 1)
        self.assertIn("another process is training", second.stderr)


if __name__ == "__main__":
    unittest.main()
