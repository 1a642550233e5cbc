"""Three workers of DisTrO with the settings of the published DeMo optimizer, given gradients: updates are those of an
independent reference in plain PyTorch."""

import sys
import unittest

from python_case import SOURCE, PythonCase

from optional_packages import OptionalPackages

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch

    import thinwire.torch

    sys.path.append(str(SOURCE / "bench/python"))
    import demo_reference

WORKERS, STEPS, RATE = 3, 12, 0.01
# Whole tiles, tiles of 48 x 40, pieces of 50, pieces of a single value, and tiles with fewer slots than k.
SHAPES = [(128, 192), (96, 40), (50,), (257,), (4, 6)]


class Given:
    """Gradients of each step and worker, the same for both sides."""

    def __init__(self, model):
        self._shapes = [one.shape for one in model.parameters()]

    def of(self, step, worker):
        generator = torch.Generator().manual_seed(100 * step + worker)
        return [torch.randn(shape, generator=generator) for shape in self._shapes]


@PACKAGES.needed
class BesideDemo(PythonCase):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)
        self.model = torch.nn.ParameterList([torch.zeros(shape) for shape in SHAPES])
        self.given = Given(self.model)

    def weights(self, **more):
        """The weights after each step of a run of several workers, and how many bytes one sends in a step."""
        fields = {**demo_reference.SETTINGS, "train.workers": WORKERS, "train.batch": WORKERS, "optim.lr": RATE,
                  "schedule.kind": "constant", "schedule.warmup": 0, "train.steps": STEPS + 1}
        run = thinwire.torch.local(self.model, thinwire.torch.recipe(self.model, self.recipe("run", **fields)), more, quiet=True)
        after = []
        with run:
            for step in run:
                if step.worker == 0:
                    after.append([one.detach().clone() for one in self.model])
                for one, gradient in zip(self.model, self.given.of(step.number, step.worker)):
                    one.grad = gradient
                run.step(0.0)
        return after, run.report.bytes_sent

    def decoded(self):
        """What the reference decodes in each step, before it takes the sign."""
        workers = [demo_reference.Worker(SHAPES) for _ in range(WORKERS)]
        for step in range(STEPS):
            payloads = [one.encode(self.given.of(step, number), RATE) for number, one in enumerate(workers)]
            yield [update.view(shape) for update, shape in zip(workers[0].apply(payloads, RATE), SHAPES)]

    def test_signs_are_those_of_the_reference(self):
        after, _ = self.weights()
        compared = 0
        for number, updates in enumerate(self.decoded()):
            for before, new, update in zip(after[number], after[number + 1], updates):
                certain = update.abs() > 1e-5 * update.abs().max()  # of others, rounding decides
                self.assertGreater(float(certain.double().mean()), 0.9)
                taken = torch.round((before - new) / RATE)
                self.assertTrue(torch.equal(taken[certain], update.sign()[certain]), f"step {number}, {tuple(new.shape)}")
                compared += int(certain.sum())
        self.assertGreater(compared, STEPS * 28_000)

    def test_decoded_means_are_those_of_the_reference(self):
        after, _ = self.weights(**{"distro.update": "sgd"})
        for number, updates in enumerate(self.decoded()):
            for before, new, update in zip(after[number], after[number + 1], updates):
                torch.testing.assert_close(before - new, update, rtol=1e-4, atol=1e-6)

    def test_a_payload_is_smaller(self):
        theirs = demo_reference.Worker(SHAPES).bytes
        _, exact = self.weights()
        self.assertLess(exact, theirs / 2)
        _, usual = self.weights(**{"distro.values": "1bit", "run.dir": str(self.folder / "usual")})
        self.assertLess(usual, theirs / 6)


if __name__ == "__main__":
    unittest.main()
