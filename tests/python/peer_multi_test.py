"""What the program does with the memory that it shares with a model."""

import unittest

from python_case import PythonCase

from thinwire._peer import Initial, Listeners, Peer, Rows, Worker
from thinwire._program import recipe_file

TENSORS = ["slope 1x4"]


class SharedMemory(PythonCase):
    def left_gradients(self, sets_gradients):
        """What is in the memory of the gradients when each step begins, of a peer that leaves bytes of value 1 there."""
        fields = self.recipe(f"run-{sets_gradients}", model__architecture="external", external__tensors=TENSORS,
                             train__sequence=1, train__steps=3)
        found = []
        with recipe_file(fields) as file:
            peer = Peer(["train", file], TENSORS, Listeners(), sets_gradients=sets_gradients)
            try:
                while (wanted := peer.next()) is not None:
                    if isinstance(wanted, Worker):
                        memory = wanted.gradients.bytes
                    elif isinstance(wanted, Initial):
                        peer.ready()
                    elif isinstance(wanted, Rows):
                        found.append(memory[0])
                        memory[:16] = b"\1" * 16
                        peer.answer(wanted.worker, 1.0)
            finally:
                peer.leave()
        self.assertTrue(peer.result.finished)
        return found

    def test_gradients_are_zero_unless_the_model_sets_them(self):
        self.assertEqual(self.left_gradients(False), [0, 0, 0])
        self.assertEqual(self.left_gradients(True), [0, 1, 1])


if __name__ == "__main__":
    unittest.main()
