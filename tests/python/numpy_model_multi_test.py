"""A model that is a function over NumPy arrays: every method trains it, it gives the same bits again, resumes,
and is a member of a served run; whatever goes wrong is an error of Python's, and the run can go on."""

import os
import shutil
import signal
import unittest

from python_case import METHODS, PythonCase

from optional_packages import OptionalPackages

import thinwire

PACKAGES = OptionalPackages()
with PACKAGES:
    import numpy as np

TENSORS = ["map 16x32", "offset 16"]


def linear(weights, gradients, step):
    """Learns to return the first half of its inputs."""
    i = np.arange(32)
    x = (step.rows[:, None] * (2 * i + 3) % 11 / 11 - 0.5).astype(np.float32)
    error = x @ weights["map"].T + weights["offset"] - x[:, :16]
    scaled = 2 / len(x) * error
    gradients["map"] += scaled.T @ x
    gradients["offset"] += scaled.sum(axis=0)
    return float((error**2).sum(axis=1).mean())


@PACKAGES.needed
class NumpyModel(PythonCase):
    def fields(self, run, **more):
        external = {"model.architecture": "external", "external.tensors": TENSORS, "train.sequence": 1}
        return {**self.recipe(run, train__workers=2, optim__weight_decay=0), **external, **self.recipe(run, **more)}

    def train(self, run, model=linear, **more):
        return thinwire.train(self.fields(run, **more), model=model, quiet=True)

    def test_every_method_trains_it_and_gives_the_same_bits_again(self):
        for method, options in METHODS.items():
            with self.subTest(method):
                losses = []
                fields = {"sync.method": method, **options}
                first = thinwire.train(self.fields(f"{method}-a"), fields, model=linear, quiet=True,
                                       on_step=lambda report: losses.append(report.loss))
                again = thinwire.train(self.fields(f"{method}-b"), fields, model=linear, quiet=True)
                self.assertEqual(len(losses), 24)
                self.assertLess(losses[-1], losses[0])
                self.assertTrue(first.finished)
                self.assertRegex(first.digest, "^[0-9a-f]{16}$")
                self.assertEqual(first.digest, again.digest)

    def test_what_it_wrote_can_be_read(self):
        result = self.train("run")
        weights = thinwire.load(result.folder)
        self.assertEqual({name: array.shape for name, array in weights.items()}, {"map": (16, 32), "offset": (16,)})
        steps = [event for event in thinwire.read_events(result.folder) if event["event"] == "step"]
        self.assertEqual([event["step"] for event in steps], list(range(1, 25)))
        self.assertEqual(self.train("run").digest, result.digest, "it is finished")

    def test_begins_with_given_weights(self):
        def exact(weights):
            weights["map"][:] = np.eye(16, 32)
            weights["offset"][:] = 0

        losses = []
        thinwire.train(self.fields("run"), model=linear, initial=exact, quiet=True,
                       on_step=lambda report: losses.append(report.loss))
        self.assertLess(losses[0], 1e-10)

    def goes_on(self, whole, **fields):
        """The step with which a run begins again that an exception in step 13 has ended; it ends as `whole` did."""
        def failing(weights, gradients, step):
            if step.number == 13:
                gradients["map"][:] = np.nan  # what it leaves behind must not count
                raise LookupError("no such row")
            return linear(weights, gradients, step)

        with self.assertRaisesRegex(LookupError, "no such row"):
            self.train("parts", failing, **fields)
        steps = []
        again = thinwire.train(self.fields("parts", **fields), quiet=True,
                               model=lambda weights, gradients, step: steps.append(step.number) or linear(
                                   weights, gradients, step))
        self.assertEqual(again.digest, whole.digest)
        return steps[0]

    def test_an_exception_ends_the_run_and_loses_no_step(self):
        whole = self.train("whole", train__workers=1)
        self.assertEqual(self.goes_on(whole, train__workers=1), 13)

    def test_several_workers_go_back_to_their_last_checkpoint(self):
        self.assertEqual(self.goes_on(self.train("whole"), checkpoint__every=5), 10)

    def test_an_interrupt_ends_the_run_after_a_step_of_all_workers(self):
        whole = self.train("whole")

        def interrupting(weights, gradients, step):
            if (step.number, step.worker) == (8, 1):
                os.kill(os.getpid(), signal.SIGINT)
            return linear(weights, gradients, step)

        with self.assertRaises(KeyboardInterrupt):
            self.train("parts", interrupting)
        steps = []
        again = thinwire.train(self.fields("parts"), quiet=True,
                               model=lambda weights, gradients, step: steps.append(step.number) or linear(
                                   weights, gradients, step))
        self.assertGreater(steps[0], 8)
        self.assertEqual(again.digest, whole.digest)

    def test_recipes_may_have_numbers_of_numpy(self):
        from thinwire._program import field_words, recipe_text

        fields = {"optim.lr": np.float64(0.5), "train.steps": np.int64(3), "checkpoint.best": np.bool_(True)}
        self.assertEqual(recipe_text(fields), "optim.lr = 0.5\ntrain.steps = 3\ncheckpoint.best = true\n")
        self.assertEqual(field_words(fields), ["optim.lr=0.5", "train.steps=3", "checkpoint.best=true"])

    def test_what_is_not_finite_is_an_error(self):
        def infinite(weights, gradients, step):
            linear(weights, gradients, step)
            gradients["map"][0, 0] = np.inf
            return 1.0

        with self.assertRaisesRegex(thinwire.Error, "step 1:.*gradient.*(inf|nan|finite)"):
            self.train("gradient", infinite)
        with self.assertRaisesRegex(thinwire.Error, "step 1: the loss is nan"):
            self.train("loss", lambda *_: float("nan"))

    def test_errors_are_the_programs_sentences(self):
        with self.assertRaisesRegex(thinwire.Error, "distro"):
            self.train("run", sync__method="distor")
        with self.assertRaisesRegex(thinwire.Error, "must be \"external\""):
            thinwire.train(self.recipe("run"), model=linear, quiet=True)
        with self.assertRaisesRegex(thinwire.Error, "model is external"):
            thinwire.train(self.fields("run"), quiet=True)

    @unittest.skipUnless(shutil.which("nats-server"), "there is no nats-server here")
    def test_a_member_of_a_served_run_gives_the_bits_of_a_local_one(self):
        local = self.train("local", train__workers=1, sync__method="distro")
        with thinwire.serve(self.fields("serve", train__workers=1, sync__method="distro")) as server:
            with self.assertRaisesRegex(thinwire.Error, 'tensor 2 the run says "offset 16" and the model "offset 8"'):
                thinwire.join(server.address, server.token, self.folder / "other", model=linear, quiet=True,
                              tensors=["map 16x32", "offset 8"])
            member = thinwire.join(server.address, server.token, self.folder / "member", model=linear, quiet=True,
                                   tensors=TENSORS)
            server.wait()
        self.assertTrue(member.finished)
        self.assertEqual(member.digest, local.digest)


if __name__ == "__main__":
    unittest.main()
