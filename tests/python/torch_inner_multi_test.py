"""DiLoCo around an optimizer of PyTorch: the arithmetic is that of the paper, members agree whatever their optimizers
are, and however a program ends, its run goes on with weights and state that belong together."""

import math
import shutil
import signal
import threading
import unittest
from pathlib import Path

from python_case import PATIENCE, PythonCase

from optional_packages import OptionalPackages

import thinwire

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    from torch_model import loss_of, small_model

    import thinwire.torch

STEPS, EVERY = 24, 4


def adamw(model, lr=0.02):
    return torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=lr)


def batch_loss(model, number):
    return loss_of(model, thinwire.torch.Step(number, torch.arange(16 * number, 16 * number + 16), 0.0, 0))


def train(model, optimizer, until, scheduler=None):
    for number in range(optimizer.completed, until):
        loss = batch_loss(model, number)
        loss.backward()
        optimizer.step(loss=loss)
        if scheduler is not None:
            scheduler.step()
        optimizer.zero_grad()


def differences(one, other):
    return max(float((a - b).detach().abs().max()) for a, b in zip(one.parameters(), other.parameters()))


def paper(model, scheduled, steps=STEPS, outer_lr=0.7, momentum=0.9):
    """DiLoCo of one worker as Douillard et al. 2023 describe it, in PyTorch alone."""
    inner = adamw(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(inner, scheduled)
    shared = [one.detach().clone() for one in model.parameters()]
    outer = torch.optim.SGD(shared, lr=outer_lr, momentum=momentum, nesterov=True)
    for number in range(steps):
        batch_loss(model, number).backward()
        inner.step()
        scheduler.step()
        inner.zero_grad()
        if (number + 1) % EVERY == 0:
            for one, own in zip(shared, model.parameters()):
                one.grad = one - own.detach()
            outer.step()
            with torch.no_grad():
                for one, own in zip(shared, model.parameters()):
                    own.copy_(one)


@PACKAGES.needed
class Inner(PythonCase):
    def alone(self, model, run, inner=None, **more):
        return thinwire.torch.DiLoCo(model, inner=inner or adamw(model), sync_every=EVERY, steps=STEPS,
                                     folder=self.folder / run, wire="fp32", **more)

    def trained(self, run):
        """A model at the end of an uninterrupted run, and its digest."""
        model = small_model()
        with self.alone(model, run) as optimizer:
            train(model, optimizer, STEPS)
        return model, optimizer.run.result.digest

    def test_it_is_the_papers_with_an_optimizer_and_a_scheduler_of_torch(self):
        def falling(step):
            return 1 - step / 40

        ours, theirs = small_model(), small_model()
        paper(theirs, falling)
        inner = adamw(ours)
        with self.alone(ours, "run", inner) as optimizer:
            train(ours, optimizer, STEPS, torch.optim.lr_scheduler.LambdaLR(optimizer, falling))
        self.assertLess(differences(ours, theirs), 1e-5)
        steps = [event for event in thinwire.read_events(self.folder / "run") if event["event"] == "step"]
        self.assertAlmostEqual(steps[-1]["learning_rate"], 0.02 * falling(STEPS - 1), places=6)
        self.assertGreater(steps[-1]["gradient_norm"], 0)

    def test_every_method_of_independent_workers_takes_one(self):
        for kind in (thinwire.torch.LocalSGD, thinwire.torch.Streaming, thinwire.torch.SparseLoCo):
            with self.subTest(kind.__name__):
                model = small_model()
                with kind(model, inner=adamw(model), sync_every=EVERY, steps=STEPS) as optimizer:
                    first = float(batch_loss(model, 0).detach())
                    train(model, optimizer, STEPS)
                self.assertLess(float(batch_loss(model, 0).detach()), first / 2)

    def test_after_an_exception_it_goes_on_with_the_inner_state(self):
        whole, digest = self.trained("whole")
        for stopped_at in (6, 8):  # within a round, and between two
            model = small_model()
            with self.assertRaises(LookupError):
                with self.alone(model, f"at-{stopped_at}") as optimizer:
                    train(model, optimizer, stopped_at)
                    batch_loss(model, stopped_at).backward()
                    raise LookupError("no such row")
            other = small_model(seed=4)
            with self.alone(other, f"at-{stopped_at}") as optimizer:
                self.assertEqual(optimizer.completed, stopped_at)
                train(other, optimizer, STEPS)
            self.assertEqual(optimizer.run.result.digest, digest)
            self.assertEqual(differences(whole, other), 0)

    def test_weights_that_were_being_changed_are_in_no_checkpoint(self):
        _, digest = self.trained("whole")
        lame = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); " \
               "from torch_inner_multi_test import dies_within; "
        for how in ("raise", "kill"):
            with self.subTest(how):
                script = self.folder / f"{how}.py"
                script.write_text(lame + f"dies_within({str(self.folder / how)!r}, {how!r})")
                died = self.start(script)
                died.communicate(timeout=PATIENCE)
                self.assertEqual(died.returncode, 1 if how == "raise" else -signal.SIGKILL)
                self.wait_until_no_program_has(self.folder / how)
                model = small_model()
                with self.alone(model, how, fields={"checkpoint.every": 5}) as optimizer:
                    self.assertEqual(optimizer.completed, 5)
                    train(model, optimizer, STEPS)
                self.assertEqual(optimizer.run.result.digest, digest)

    def test_a_gradient_that_is_no_number_changes_nothing(self):
        model, theirs = small_model(), small_model()
        with self.alone(model, "run") as optimizer:
            (batch_loss(model, 0) * math.nan).backward()
            with self.assertRaisesRegex(thinwire.Error, "step 1: the norm of the gradient is nan; the weights are as "):
                optimizer.step()
            self.assertEqual(differences(model, theirs), 0)
            optimizer.zero_grad()
            train(model, optimizer, STEPS)
        self.assertEqual(optimizer.run.result.digest, self.trained("whole")[1])

    def test_a_state_holds_that_of_the_inner_optimizer(self):
        model = small_model()
        with self.alone(model, "run") as optimizer:
            train(model, optimizer, 3)
            state = optimizer.state_dict()
            self.assertEqual(float(state["state"][0]["step"]), 3)
            optimizer.load_state_dict(state)
            train(model, optimizer, STEPS)
        self.assertEqual(optimizer.run.result.digest, self.trained("whole")[1])

    def test_what_does_not_go_together_is_refused(self):
        model = small_model()
        with self.assertRaisesRegex(thinwire.Error, "lr is the business of the inner optimizer"):
            thinwire.torch.DiLoCo(model, inner=adamw(model), lr=0.1)
        with self.assertRaisesRegex(thinwire.Error, "parameter scale of the run is in no parameter group"):
            thinwire.torch.DiLoCo(model, inner=torch.optim.SGD([model.conv.weight], lr=0.1))

        def begin(fields, **more):
            recipe = thinwire.torch.recipe(model, self.recipe("run", **{"sync__method": "diloco", **fields}))
            with thinwire.torch.local(model, recipe, quiet=True) as run:
                thinwire.torch.DiLoCo(model, run=run, **more)

        with self.assertRaisesRegex(thinwire.Error, 'optim.method is "adamw", which the program computes; leave inner out'):
            begin({}, inner=adamw(model))
        with self.assertRaisesRegex(thinwire.Error, 'optim.method is "own": its members bring'):
            begin({"optim__method": "own"})
        for fields, said in (({"sync__method": "distro"}, r'needs a method whose workers train independently .*"distro"'),
                             ({"sync__within": "allreduce", "sync__clusters": 1}, "of a cluster take each step")):
            with self.subTest(said), self.assertRaisesRegex(thinwire.Error, said):
                begin({"optim__method": "own", **fields})
        with self.assertRaisesRegex(thinwire.Error, 'needs \\[model\\] architecture = "external"'):
            thinwire.train({"optim.method": "own", "sync.method": "diloco"}, quiet=True)

        recipe = thinwire.torch.recipe(model, self.recipe("loop", sync__method="diloco", optim__method="own"))
        with thinwire.torch.local(model, recipe, quiet=True) as run:
            next(run)
            with self.assertRaisesRegex(RuntimeError, "those of an optimizer of this program"):
                run.step(0.0)


@PACKAGES.needed
@unittest.skipUnless(shutil.which("nats-server"), "there is no nats-server here")
class InnerHosted(PythonCase):
    def take_part(self, server, name, make, results, fails_at=None):
        model = small_model(seed=7)
        run = thinwire.torch.join(model, server.address, server.token, self.folder / name, {"train.threads": 1},
                                  quiet=True)
        with thinwire.torch.DiLoCo(model, inner=make(model), run=run) as optimizer:
            first = optimizer.completed
            for step in run:
                if step.number == fails_at:
                    raise LookupError("no such row")
                loss = loss_of(model, step)
                loss.backward()
                optimizer.step(loss=loss)
                optimizer.zero_grad()
        results[name] = (first, run.result.digest)

    def test_members_with_different_optimizers_agree_and_one_returns(self):
        recipe = thinwire.torch.recipe(small_model(), self.recipe(
            "serve", sync__method="diloco", diloco__sync_every=EVERY, diloco__wire="int1", diloco__error_feedback=True,
            optim__method="own", train__workers=2, train__steps=400, sync__timeout_s=60))
        results = {}

        def sgd(model):  # rates at which 400 steps cannot diverge, however many of them a member takes alone
            return torch.optim.SGD(model.parameters(), lr=0.01)

        with thinwire.serve(recipe) as server:
            other = threading.Thread(target=self.take_part, args=(server, "a", lambda model: adamw(model, 0.002), results))
            other.start()
            try:
                with self.assertRaises(LookupError):
                    self.take_part(server, "b", sgd, results, 18)
                self.take_part(server, "b", sgd, results)
            finally:
                other.join(PATIENCE)
            server.wait()
        self.assertEqual(results["a"][1], results["b"][1])
        self.assertGreaterEqual(results["b"][0], 16)


def dies_within(folder, how):
    """Trains until the eighth step of the inner optimizer, in which the program ends."""
    import os

    class Dying(torch.optim.AdamW):
        taken = 0

        def step(self, closure=None):
            super().step(closure)
            Dying.taken += 1
            if Dying.taken == 8:
                if how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise LookupError("within the step")

    model = small_model()
    inner = Dying([one for one in model.parameters() if one.requires_grad], lr=0.02)
    with thinwire.torch.DiLoCo(model, inner=inner, sync_every=EVERY, steps=STEPS, folder=folder, wire="fp32",
                               fields={"checkpoint.every": 5}) as optimizer:
        train(model, optimizer, STEPS)


if __name__ == "__main__":
    unittest.main()
