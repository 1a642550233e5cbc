"""PyTorch modules in local runs: AdamW is PyTorch's, every method trains them, loops may end anywhere, and a module
that does not fit is refused."""

import math
import unittest

from python_case import METHODS, PythonCase

from optional_packages import OptionalPackages

import thinwire

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    from torch import nn
    from torch_model import loss_of, small_model

    import thinwire.torch


@PACKAGES.needed
class TorchModel(PythonCase):
    def local(self, model, run, fields=None, **more):
        recipe = thinwire.torch.recipe(model, self.recipe(run, **more))
        return thinwire.torch.local(model, recipe, fields, quiet=True)

    def train(self, model, run, fields=None, **more):
        """The run at its end, and the losses of its steps."""
        losses = []
        with self.local(model, run, fields, **more) as run:
            for step in run:
                loss = loss_of(model, step)
                loss.backward()
                run.step(loss)
                losses.append(float(loss.detach()))
        return run, losses

    def test_lists_tensors_with_their_roles(self):
        self.assertEqual(thinwire.torch.tensors(small_model(), {"outer.*": "head"}), [
            "scale 1 bias", "embed.weight 16x8 embedding", "conv.weight 8x24 matrix", "conv.bias 8 bias",
            "norm.weight 8 norm", "norm.bias 8 bias", "inner.weight 24x8 matrix", "inner.bias 24 bias",
            "outer.weight 8x24 head"])

    def test_one_worker_with_adamw_is_torchs(self):
        peak, steps, warmup = 0.01, 20, 3
        for kind in ("cosine", "linear", "constant"):
            with self.subTest(kind):
                ours, theirs = small_model(), small_model()
                fields = {"optim.lr": peak, "optim.weight_decay": 0.1, "optim.clip": 0.5, "schedule.kind": kind,
                          "schedule.warmup": warmup, "schedule.final_ratio": 0.1, "train.steps": steps}
                self.train(ours, kind, fields)
                self.torch_adamw(theirs, kind, peak, steps, warmup)
                for (name, one), other in zip(ours.named_parameters(), theirs.parameters()):
                    self.assertLess(float((one - other).detach().abs().max()), 1e-5, name)

    def torch_adamw(self, model, kind, peak, steps, warmup):
        trained = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        decayed = [one for _, one in trained if one.dim() >= 2]
        others = [one for _, one in trained if one.dim() < 2]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                                       {"params": others, "weight_decay": 0}], betas=(0.9, 0.95), eps=1e-8)
        for step in range(steps):
            done = (step - warmup) / (steps - warmup)
            rate = {"cosine": 0.1 * peak + 0.9 * peak * (1 + math.cos(math.pi * done)) / 2,
                    "linear": peak - 0.9 * peak * done, "constant": peak}[kind]
            for group in optimizer.param_groups:
                group["lr"] = peak * (step + 1) / warmup if step < warmup else rate
            rows = torch.arange(16 * step, 16 * step + 16)
            loss_of(model, thinwire.torch.Step(step, rows, 0.0, 0)).backward()
            torch.nn.utils.clip_grad_norm_([one for _, one in trained], 0.5)
            optimizer.step()
            optimizer.zero_grad()

    def test_every_method_trains_it(self):
        for method, options in METHODS.items():
            with self.subTest(method):
                model = small_model()
                run, losses = self.train(model, method, {"sync.method": method, "train.workers": 2, **options})
                self.assertEqual(len(losses), 48, "both workers in each of 24 steps")
                self.assertLess(max(losses[-2:]), min(losses[:2]))
                saved = thinwire.load(run.result.folder)
                for name, parameter in model.named_parameters():
                    if name != "fixed":
                        self.assertTrue(torch.equal(parameter.flatten(), torch.from_numpy(saved[name]).flatten()), name)
                self.assertEqual(float(model.fixed.sum()), 8, "frozen")

    def test_gradients_may_be_accumulated_and_made_anew(self):
        _, whole = self.train(small_model(), "whole")
        model, losses = small_model(), []
        with self.local(model, "parts") as run:
            for step in run:
                model.zero_grad()  # of a loop that did so before: not needed, and harmless
                halves = [loss_of(model, thinwire.torch.Step(step.number, rows, 0.0, 0)) / 2
                          for rows in step.rows.chunk(2)]
                for half in halves:
                    half.backward()
                run.step(sum(halves))
                losses.append(run.report.loss)
        self.assertEqual(len(losses), len(whole))
        for one, other in zip(losses, whole):
            self.assertAlmostEqual(one, other, places=4)

    def test_gradients_that_were_thrown_away_do_not_count(self):
        _, expected = self.train(small_model(), "expected")
        model, losses = small_model(), []
        with self.local(model, "thrown") as run:
            for step in run:
                (1e6 * loss_of(model, step)).backward()
                model.zero_grad()
                loss = loss_of(model, step)
                loss.backward()
                run.step(loss)
                losses.append(run.report.loss)
        self.assertEqual(losses, expected)

        model = small_model()
        with self.local(model, "none") as run:
            for step in run:
                loss = loss_of(model, step)
                loss.backward()
                model.zero_grad()
                run.step(loss)
                self.assertEqual(run.report.gradient_norm, 0)

    def test_a_compiled_module_has_the_names_of_the_module(self):
        model = small_model()
        self.assertEqual(thinwire.torch.tensors(torch.compile(model)), thinwire.torch.tensors(model))

    def test_complex_numbers_are_refused(self):
        model = torch.nn.Linear(2, 2, dtype=torch.cfloat)
        with self.assertRaisesRegex(thinwire.Error, "parameter weight must have real numbers, got torch.complex64"):
            thinwire.torch.tensors(model)

    def test_other_types_are_copied(self):
        model, same = small_model().double(), small_model()
        _, losses = self.train(model, "double")
        _, expected = self.train(same, "single")
        self.assertEqual(model.inner.weight.dtype, torch.float64)
        for one, other in zip(losses, expected):
            self.assertAlmostEqual(one, other, places=4)

    def test_a_loop_may_end_anywhere_and_goes_on(self):
        whole = self.train(small_model(), "whole")[0].result.digest
        ends = {"break": None, "exception": LookupError("no such row"), "interrupt": KeyboardInterrupt()}
        for name, error in ends.items():
            with self.subTest(name):
                self.end_within(small_model(), name, error)
                model = small_model(seed=1)
                with self.local(model, name) as run:
                    first = next(run)
                    self.assertEqual(first.number, 13)
                    loss = loss_of(model, first)
                    loss.backward()
                    run.step(loss)
                    for step in run:
                        loss = loss_of(model, step)
                        loss.backward()
                        run.step(loss)
                self.assertEqual(run.result.digest, whole)

    def end_within(self, model, name, error):
        """Leaves a run in the midst of step 13, when its backward pass has already been computed."""
        try:
            with self.local(model, name) as run:
                for step in run:
                    loss = loss_of(model, step)
                    loss.backward()
                    if step.number == 13:
                        if error is None:
                            break
                        raise error
                    run.step(loss)
        except (LookupError, KeyboardInterrupt) as raised:
            self.assertIs(raised, error)
        self.assertEqual((run.result.steps, run.result.finished), (13, False))
        before = model.inner.weight.detach().clone()
        nn.init.zeros_(model.inner.weight)  # it is its own again
        self.assertGreater(float(before.abs().sum()), 0)

    def test_a_gradient_that_is_no_number_is_an_error_and_the_run_goes_on_from_its_checkpoint(self):
        model = small_model()
        with self.assertRaisesRegex(thinwire.Error, "step 8"):
            with self.local(model, "run", checkpoint__every=5) as run:
                for step in run:
                    loss = loss_of(model, step) * (math.nan if step.number == 7 else 1)
                    loss.backward()
                    run.step(loss)
        with self.local(model, "run", checkpoint__every=5) as run:
            self.assertEqual(next(run).number, 5)

    def test_wrong_use_is_named(self):
        model = small_model()
        with self.local(model, "run") as run:
            next(run)
            with self.assertRaisesRegex(RuntimeError, r"run\.step\(loss\) must be called in every step, but was not in "
                                                      "step 0"):
                next(run)
        with self.assertRaisesRegex(RuntimeError, "belongs once into each pass"):
            run.step(0.0)
        with self.assertRaisesRegex(thinwire.Error, "parameters that require gradients"):
            with self.local(nn.ReLU(), "none"):
                pass

    def test_another_module_is_refused_by_the_first_tensor_that_differs(self):
        self.end_within(small_model(), "run", None)
        recipe = thinwire.torch.recipe(small_model(), self.recipe("run"))
        for change, said in ((nn.Linear(8, 25), 'tensor 7 the run says "inner.weight 24x8 matrix" and the model '
                                                '"inner.weight 25x8 matrix"'), (nn.Identity(), "tensor 7")):
            model = small_model()
            model.inner = change
            with self.assertRaisesRegex(thinwire.Error, said):
                with thinwire.torch.local(model, recipe, quiet=True):
                    self.fail("it was begun")


if __name__ == "__main__":
    unittest.main()
