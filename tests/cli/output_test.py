"""Every command fails when its output cannot be written to stdout, and ends quietly when nobody reads it."""

import os
import resource
import signal
import subprocess
import unittest

from trained_case import BINARY, TrainedCase


class Output(TrainedCase):
    fields = ["train.steps = 2", "train.batch = 2", "train.workers = 1"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        recipe = cls.recipe
        run = cls.folder / "run"
        cls.commands = [
            ["--help"], ["--version"], ["train", "--help"], ["plan", "--help"],
            ["recipe"], ["recipe", "--explain"], ["recipe", recipe],
            ["completion", "bash"], ["completion", "zsh"], ["completion", "fish"],
            ["compare", run], ["compare", run, "--csv"], ["compare", run, "--json"],
            ["inspect", run], ["plan", "distro"], ["plan", "efficiency"], ["plan", "utilization"],
            ["bench", "speed", recipe, "model.vocab=258", "--steps", "1", "--warmup", "0"],
            ["generate", run, "--tokens", "3", "--prompt", "wire"], ["prepare", recipe], ["train", recipe]]

    def test_a_full_device_is_a_failure_with_a_reason(self):
        for command in self.commands:
            with self.subTest(command=command), open("/dev/full", "w") as full:
                done = subprocess.run([BINARY, *command], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("thinwire: cannot write to standard output: No space left on device\n",
                              done.stderr)

    def test_a_file_beyond_the_limit_on_files_is_a_failure_with_a_reason(self):
        limit = 4096
        done = subprocess.run(
            [BINARY, "prepare", self.folder / "recipe.toml", f"data.dir={self.folder}/limited"],
            capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertFalse((self.folder / "limited").exists())

    def unread(self, command, **options):
        reading, writing = os.pipe()
        os.close(reading)
        try:
            return subprocess.run([BINARY, *command], stdout=writing, stderr=subprocess.PIPE, text=True,
                                  **options)
        finally:
            os.close(writing)

    def test_ends_quietly_when_nobody_reads(self):
        for command in (["recipe", "--explain"], ["--help"], ["completion", "zsh"]):
            for restore in (True, False):  # whether SIGPIPE has its default action, or is ignored
                with self.subTest(command=command, restore=restore):
                    done = self.unread(command, restore_signals=restore)
                    self.assertEqual(done.returncode, -signal.SIGPIPE)
                    self.assertEqual(done.stderr, "")

    def test_what_printed_nothing_needs_no_stdout(self):
        done = subprocess.run(f'"{BINARY}" recipe no/such.toml >&-', shell=True, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no/such.toml", done.stderr)

    def test_errors_of_the_file_system_are_told_in_plain_words(self):
        wrong = f"{self.recipe}/run"
        numbers = ["optim.lr=0.001", "adamw.beta1=0.9", "adamw.beta2=0.95", "schedule.warmup=0"]  # else by rule, with notes
        done = subprocess.run([BINARY, "train", self.recipe, f"run.dir={wrong}", *numbers], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"thinwire: cannot create folder {wrong}: Not a directory\n")


if __name__ == "__main__":
    unittest.main()
