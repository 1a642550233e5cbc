"""Optimizers that communicate: they are PyTorch's where they train alone, members agree, a run goes on with the inner
optimizer's state, and what they cannot honour is refused by name."""

import copy
import gc
import math
import unittest
import weakref

from python_case import PythonCase

from optional_packages import OptionalPackages

import thinwire

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    from torch_model import loss_of, small_model

    import thinwire.torch

    CLASSES = {"allreduce": thinwire.torch.AllReduce, "distro": thinwire.torch.DisTrO,
               "local_sgd": thinwire.torch.LocalSGD, "diloco": thinwire.torch.DiLoCo,
               "streaming": thinwire.torch.Streaming, "sparseloco": thinwire.torch.SparseLoCo}


def batch_loss(model, number, rows=16):
    return loss_of(model, thinwire.torch.Step(number, torch.arange(rows * number, rows * number + rows), 0.0, 0))


def train(model, optimizer, steps, first=0, scheduler=None):
    losses = []
    for number in range(first, first + steps):
        loss = batch_loss(model, number)
        loss.backward()
        optimizer.step(loss=loss) if isinstance(optimizer, thinwire.torch.Optimizer) else optimizer.step()
        if scheduler is not None:
            scheduler.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def split_by_decay(model, decay=0.1):
    trained = [one for one in model.parameters() if one.requires_grad]
    return [{"params": [one for one in trained if one.dim() >= 2], "weight_decay": decay},
            {"params": [one for one in trained if one.dim() < 2], "weight_decay": 0}]


def differences(one, other):
    return max(float((a - b).detach().abs().max()) for a, b in zip(one.parameters(), other.parameters()))


@PACKAGES.needed
class Alone(PythonCase):
    def test_every_method_learns(self):
        for method, kind in CLASSES.items():
            with self.subTest(method):
                model = small_model()
                every = {} if method in ("allreduce", "distro") else {"sync_every": 4}
                with kind(model, lr=0.02, **every) as optimizer:
                    losses = train(model, optimizer, 24)
                    self.assertEqual(optimizer.completed, 24)
                    self.assertAlmostEqual(optimizer.report.loss, losses[-1], places=5)
                self.assertLess(losses[-1], losses[0] / 2)
                self.assertEqual(float(model.fixed.sum()), 8, "frozen")
                self.assertIs(model.lm_head.weight, model.embed.weight)
                before = model.inner.weight.detach().clone()
                torch.nn.init.zeros_(model.inner.weight)  # it is the module's own again
                self.assertGreater(float(before.abs().sum()), 0)

    def test_with_allreduce_groups_and_a_scheduler_are_those_of_torch(self):
        def half_cosine(step):
            return 0.5 + 0.5 * math.cos(math.pi * step / 20)

        ours, theirs = small_model(), small_model()
        adamw = torch.optim.AdamW(split_by_decay(theirs), lr=0.01, betas=(0.9, 0.95))
        train(theirs, adamw, 20, scheduler=torch.optim.lr_scheduler.LambdaLR(adamw, half_cosine))
        with thinwire.torch.AllReduce(split_by_decay(ours), lr=0.01, clip=0) as optimizer:
            train(ours, optimizer, 20, scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, half_cosine))
            self.assertAlmostEqual(optimizer.report.learning_rate, 0.01 * half_cosine(19), places=7)
        self.assertLess(differences(ours, theirs), 1e-5)

    def test_gradients_may_be_accumulated_scaled_and_clipped(self):
        ours, theirs = small_model(), small_model()
        adamw = torch.optim.AdamW(split_by_decay(theirs), lr=0.01, betas=(0.9, 0.95))
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        with thinwire.torch.AllReduce(ours, lr=0.01, clip=0) as optimizer:
            for number in range(10):
                for model, one in ((ours, optimizer), (theirs, adamw)):
                    one.zero_grad()
                    for part in (2 * number, 2 * number + 1):
                        scaler.scale(batch_loss(model, part, 8) / 2).backward()
                    scaler.unscale_(one)
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                    scaler.step(one)
                scaler.update()
        self.assertLess(differences(ours, theirs), 1e-5)

    def test_two_backward_passes_add_up_and_zeros_in_place_are_zeros(self):
        ours, theirs = small_model(), small_model()
        adamw = torch.optim.AdamW(split_by_decay(theirs), lr=0.01, betas=(0.9, 0.95))
        with thinwire.torch.AllReduce(ours, lr=0.01, clip=0) as optimizer:
            for number in range(6):
                for model, one in ((ours, optimizer), (theirs, adamw)):
                    (batch_loss(model, 2 * number, 8) / 2).backward()
                    kept = model.inner.weight.grad
                    first = kept.clone()
                    (batch_loss(model, 2 * number + 1, 8) / 2).backward()
                    self.assertFalse(torch.equal(kept, first), "PyTorch adds to the gradient that there is")
                    one.step()
                    one.zero_grad(set_to_none=False)
                    self.assertIs(model.inner.weight.grad, kept)
                    self.assertEqual(float(kept.abs().sum()), 0)
        self.assertLess(differences(ours, theirs), 1e-5)

    def test_a_gradient_that_is_kept_is_not_overwritten(self):
        model = small_model()
        with thinwire.torch.AllReduce(model, lr=0.01) as optimizer:
            for forget in (model.zero_grad, optimizer.zero_grad):
                kept = []
                for number in range(2):
                    forget()
                    batch_loss(model, number).backward()
                    kept.append([(one.grad, one.grad.clone()) for one in model.parameters() if one.requires_grad])
                optimizer.step()
                for gradient, was in sum(kept, []):
                    self.assertTrue(torch.equal(gradient, was))

    def test_gradients_stay_after_the_step(self):
        model = small_model()
        with thinwire.torch.AllReduce(model, lr=0.01, steps=2, fields={"optim.clip": 0}) as optimizer:
            while not optimizer.finished:
                optimizer.zero_grad()
                batch_loss(model, optimizer.completed).backward()
                optimizer.step()
                gradients = [one.grad for one in model.parameters() if one.requires_grad]
                norm = torch.linalg.vector_norm(torch.cat([one.flatten() for one in gradients]))
                self.assertAlmostEqual(float(norm), optimizer.report.gradient_norm, places=4)

    def test_a_gradient_that_has_a_graph_is_differentiated(self):
        ours, theirs = small_model(), small_model()
        adamw = torch.optim.AdamW(split_by_decay(theirs), lr=0.01, betas=(0.9, 0.95))
        with thinwire.torch.AllReduce(ours, lr=0.01, clip=0) as optimizer:
            for model, one in ((ours, optimizer), (theirs, adamw)):
                weights = [weight for weight in model.parameters() if weight.requires_grad]
                batch_loss(model, 0).backward(create_graph=True)
                penalty = sum(weight.grad.pow(2).sum() for weight in weights)
                self.assertTrue(penalty.requires_grad)
                one.zero_grad()
                penalty.backward()
                one.step()
                one.zero_grad()
        self.assertLess(differences(ours, theirs), 1e-5)

    def test_nothing_is_left_of_an_optimizer_that_nobody_has(self):
        model = small_model()
        optimizer = thinwire.torch.DisTrO(model, lr=0.01)
        train(model, optimizer, 1)
        gone, weight = weakref.ref(optimizer), weakref.ref(model.inner.weight)
        del optimizer
        gc.collect()
        self.assertIsNone(gone())
        self.assertFalse(any(one._post_accumulate_grad_hooks for one in model.parameters()))
        train(model, torch.optim.SGD(model.parameters(), lr=0.01), 1)
        del model
        gc.collect()
        self.assertIsNone(weight())

    def test_a_step_that_a_scaler_skips_is_none(self):
        model = small_model()
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        with thinwire.torch.DisTrO(model, lr=0.01) as optimizer:
            (scaler.scale(batch_loss(model, 0)) * math.inf).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            self.assertEqual(optimizer.completed, 0)
            train(model, optimizer, 2)
            self.assertEqual(optimizer.completed, 2)

    def test_a_compiled_module_and_a_closure(self):
        model = small_model()
        compiled = torch.compile(model, backend="eager")
        with thinwire.torch.DisTrO(compiled, lr=0.02) as optimizer:
            losses = []
            for number in range(12):
                def closure(number=number):
                    optimizer.zero_grad()
                    loss = batch_loss(compiled, number)
                    loss.backward()
                    return loss
                losses.append(float(optimizer.step(closure).detach()))
        self.assertLess(losses[-1], losses[0])

    def test_a_loss_need_not_be_known(self):
        model = small_model()
        with thinwire.torch.DisTrO(model, lr=0.02) as optimizer:
            batch_loss(model, 0).backward()
            optimizer.step()
            self.assertTrue(math.isnan(optimizer.report.loss))
            self.assertGreater(optimizer.report.gradient_norm, 0)

    def test_after_its_steps_a_run_has_ended(self):
        model = small_model()
        with thinwire.torch.DiLoCo(model, lr=0.02, sync_every=4, steps=6, folder=self.folder / "run") as optimizer:
            train(model, optimizer, 6)
            self.assertTrue(optimizer.finished)
            with self.assertRaisesRegex(thinwire.Error, "the run has ended after step 6"):
                train(model, optimizer, 1)
        with self.assertRaisesRegex(thinwire.Error, "has ended already, after step 6"):
            thinwire.torch.DiLoCo(model, lr=0.02, sync_every=4, steps=6, folder=self.folder / "run")

    def test_a_folder_goes_on_with_the_bits_of_one_go(self):
        whole, model = small_model(), small_model()
        with thinwire.torch.DisTrO(whole, lr=0.02, folder=self.folder / "whole") as optimizer:
            train(whole, optimizer, 20)
        with self.assertRaises(LookupError):
            with thinwire.torch.DisTrO(model, lr=0.02, folder=self.folder / "parts") as optimizer:
                train(model, optimizer, 13)
                batch_loss(model, 13).backward()
                raise LookupError("no such row")
        other = small_model(seed=3)
        with thinwire.torch.DisTrO(other, lr=0.02, folder=self.folder / "parts") as optimizer:
            self.assertEqual(optimizer.completed, 13)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1, last_epoch=optimizer.completed - 1)
            self.assertEqual(schedule.last_epoch, 13)
            train(other, optimizer, 7, 13, schedule)
        self.assertEqual(differences(whole, other), 0)

    def test_a_state_goes_back_only_to_where_it_was_taken(self):
        model = small_model()
        with thinwire.torch.DisTrO(model, lr=0.02) as optimizer:
            train(model, optimizer, 2)
            optimizer.param_groups[0]["lr"] = 0.5
            state = optimizer.state_dict()
            optimizer.param_groups[0]["lr"] = 0.02
            optimizer.load_state_dict(state)
            self.assertEqual(optimizer.param_groups[0]["lr"], 0.5)
            train(model, optimizer, 1, 2)
            with self.assertRaisesRegex(thinwire.Error, "of a run after step 2, and this one stands after step 3; with "
                                                        "the same folder"):
                optimizer.load_state_dict(state)
            with self.assertRaisesRegex(thinwire.Error, "of another optimizer"):
                optimizer.load_state_dict(torch.optim.SGD(model.parameters()).state_dict())

    def test_what_it_cannot_honour_is_refused_by_name(self):
        model = small_model()
        with thinwire.torch.DisTrO(split_by_decay(model), lr=0.02) as optimizer:
            with self.assertRaisesRegex(thinwire.Error, "parameters cannot be added"):
                optimizer.add_param_group({"params": [model.fixed]})
            with self.assertRaisesRegex(thinwire.Error, "cannot be copied"):
                copy.deepcopy(optimizer)
            optimizer.param_groups[1]["lr"] = 0.5
            with self.assertRaisesRegex(thinwire.Error, r"the same lr, got \[0.02, 0.5\]"):
                train(model, optimizer, 1)
            for group in optimizer.param_groups:
                group["lr"] = math.nan
            with self.assertRaisesRegex(thinwire.Error, "lr must be a number >= 0, got nan"):
                train(model, optimizer, 1)
            for group in optimizer.param_groups:
                group["lr"] = 0.02
            model.inner.bias.requires_grad_(False)
            with self.assertRaisesRegex(thinwire.Error, "parameters were frozen"):
                train(model, optimizer, 1)
        with self.assertRaisesRegex(thinwire.Error, "a parameter group may have params, lr and weight_decay, got betas"):
            thinwire.torch.DisTrO([{"params": list(model.parameters()), "betas": (0.9, 0.99)}])
        with self.assertRaisesRegex(thinwire.Error, "weight_decay of parameter 0 must be 0 as in the run, got 0.1"):
            thinwire.torch.AllReduce([{"params": list(small_model().parameters()), "weight_decay": 0.1}])
        with self.assertRaisesRegex(thinwire.Error, "got nothing"):
            thinwire.torch.DisTrO([])
        with self.assertRaisesRegex(thinwire.Error, "torch.nn.Parameter, got Tensor"):
            thinwire.torch.DisTrO([torch.zeros(3)])
        with self.assertRaisesRegex(thinwire.Error, r"\[distro\] k must be"):
            thinwire.torch.DisTrO(model, k=0)
        with self.assertRaisesRegex(thinwire.Error, "train.workers must be 1 for an optimizer, got 2"):
            thinwire.torch.DisTrO(model, fields={"train.workers": 2, "train.batch": 2})

    def test_a_gradient_that_is_no_number_ends_the_run(self):
        model = small_model()
        optimizer = thinwire.torch.DisTrO(model, lr=0.02)
        (batch_loss(model, 0) * math.nan).backward()
        with self.assertRaisesRegex(thinwire.Error, "step 1:.*(nan|finite)"):
            optimizer.step()


@PACKAGES.needed
class OfARun(PythonCase):
    def test_it_takes_the_runs_values_and_refuses_others(self):
        fields = self.recipe("run", sync__method="distro", distro__k=8)
        model = small_model()
        recipe = thinwire.torch.recipe(model, fields)

        def begin(kind=thinwire.torch.DisTrO, params=model, **more):
            with thinwire.torch.local(model, recipe, quiet=True) as run:
                return kind(params, run=run, **more)

        for said, wrong in (("distro.k must be 8 as in the run, got 16", {"k": 16}),
                            ("optim.lr must be 0.02 as in the run, got 0.5", {"lr": 0.5}),
                            ('sync.method is "distro", and DiLoCo is for "diloco"', {"kind": thinwire.torch.DiLoCo}),
                            ("folder is for an optimizer that trains alone", {"folder": "other"}),
                            ("params must be the module that the run is for", {"params": small_model()}),
                            ("parameter scale of the run is in no parameter group", {"params": [model.conv.weight]}),
                            ("parameters of the module that the run is for, got others as well",
                             {"params": [*model.parameters(), *small_model().parameters()]})):
            with self.subTest(said), self.assertRaisesRegex(thinwire.Error, said):
                begin(**wrong)
        with thinwire.torch.local(model, recipe, quiet=True) as run:
            optimizer = thinwire.torch.DisTrO(model.parameters(), lr=0.02, k=8, run=run)
            rates = []
            for step in run:
                loss = loss_of(model, step)
                loss.backward()
                rates.append(optimizer.param_groups[0]["lr"])
                optimizer.step(loss=loss)
                optimizer.zero_grad()
        self.assertTrue(run.result.finished)
        self.assertLess(rates[-1], max(rates), "the run's schedule")

    def test_a_scheduler_is_refused_where_the_run_has_one(self):
        model = small_model()
        with thinwire.torch.local(model, thinwire.torch.recipe(model, self.recipe("run")), quiet=True) as run:
            optimizer = thinwire.torch.AllReduce(model, run=run)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
            train(model, optimizer, 1, scheduler=scheduler)
            with self.assertRaisesRegex(thinwire.Error, r"lr must be .* as the run's optim.lr and \[schedule\] say"):
                train(model, optimizer, 1, 1)


if __name__ == "__main__":
    unittest.main()
