"""TensorBoard's own reader agrees with what TensorBoardWriter wrote."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    event_accumulator = None

EVENTS_TEST = Path(os.environ["THINWIRE_BINARY"]).parent / "events_test"


@unittest.skipIf(event_accumulator is None, "the Python package tensorboard is not installed")
@unittest.skipUnless(EVENTS_TEST.exists(), f"{EVENTS_TEST} is not built")
class TensorBoardReads(unittest.TestCase):
    def test_scalars_of_a_resumed_run(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [EVENTS_TEST, "--gtest_filter=TensorBoard.WritesFilesForOtherReaders"],
                env={**os.environ, "TEST_TMPDIR": folder},
                check=True,
                stdout=subprocess.DEVNULL,
            )
            reader = event_accumulator.EventAccumulator(f"{folder}/tensorboard_example")
            reader.Reload()
        self.assertEqual(sorted(reader.Tags()["scalars"]), ["train/loss", "validation/loss"])
        losses = [(event.step, event.value) for event in reader.Scalars("train/loss")]
        self.assertEqual(losses, [(1, 3.5), (2, 3.25), (3, 3.0)])
        (validation,) = reader.Scalars("validation/loss")
        self.assertEqual((validation.step, validation.value), (300, -0.125))


if __name__ == "__main__":
    unittest.main()
