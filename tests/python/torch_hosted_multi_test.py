"""PyTorch modules in a served run: members agree, one that is killed returns, and no program outlives its Python."""

import shutil
import signal
import threading
import time
import unittest
from contextlib import contextmanager

from python_case import PATIENCE, PythonCase, commands

from optional_packages import OptionalPackages

import thinwire

STEPS = 800  # enough for a member to be away and return

PACKAGES = OptionalPackages()
with PACKAGES:
    from torch_model import loss_of, small_model

    import thinwire.torch


@PACKAGES.needed
@unittest.skipUnless(shutil.which("nats-server"), "there is no nats-server here")
class TorchHosted(PythonCase):
    def serve(self, method, **more):
        recipe = thinwire.torch.recipe(small_model(), self.recipe(
            "serve", sync__method=method, sync__timeout_s=60, train__workers=2, **more))
        return thinwire.serve(recipe)

    def start_member(self, server, name, *words):
        """In a process of its own, which can be killed."""
        return self.start("torch_member.py", server.address, server.token, self.folder / name, *words)

    def train(self, server, name, fails_at=None):
        """Takes part in this process; the run, and the first step that it was asked for."""
        model, first = small_model(seed=7), None
        with thinwire.torch.join(model, server.address, server.token, self.folder / name, {"train.threads": 1},
                                 quiet=True) as run:
            for step in run:
                first = step.number if first is None else first
                if fails_at is not None and step.number >= fails_at:
                    raise LookupError("no such row")
                loss = loss_of(model, step)
                loss.backward()
                run.step(loss)
        return run, first

    @contextmanager
    def beside(self, server, name):
        """Another member takes part meanwhile; the digest with which it has ended, once it has."""
        digests = []
        member = threading.Thread(target=lambda: digests.append(self.train(server, name)[0].result.digest))
        member.start()
        try:
            yield digests
        finally:
            member.join(PATIENCE)

    def test_two_members_end_with_equal_weights(self):
        for method in ("distro", "diloco"):
            with self.subTest(method), self.serve(method, diloco__sync_every=4, run__name=method,
                                                  run__dir=str(self.folder / method)) as server:
                with self.beside(server, f"{method}-a") as digests:
                    run, _ = self.train(server, f"{method}-b")
                server.wait()
                self.assertEqual(digests, [run.result.digest])

    def test_a_member_that_is_killed_returns(self):
        with self.serve("distro", train__steps=STEPS) as server:
            with self.beside(server, "a") as digests:
                killed = self.start_member(server, "b", 40)
                killed.communicate(timeout=PATIENCE)
                self.assertEqual(killed.returncode, -signal.SIGKILL)
                self.wait_until_no_program_has(self.folder / "b")
                others = [command for command in commands() if str(self.folder / "a") in command]
                self.assertTrue(others)
                self.assertFalse([command for command in others if server.token in command], "others see it")
                run, first = self.train(server, "b")
            self.assertGreaterEqual(first, 40)
            self.assertEqual(digests, [run.result.digest])
            server.wait()

    def test_leaving_by_an_exception_lets_the_others_go_on(self):
        with self.serve("distro", train__steps=STEPS) as server:
            with self.beside(server, "a") as digests:
                with self.assertRaises(LookupError):
                    self.train(server, "b", fails_at=20)
                run, first = self.train(server, "b")
            self.assertGreaterEqual(first, 20)
            self.assertEqual(digests, [run.result.digest])
            server.wait()

    def test_no_program_outlives_a_python_that_is_killed_before_it_has_joined(self):
        with self.serve("distro") as server:
            pass  # it has ended
        lonely = self.start_member(server, "a")
        self.wait_for_message("nobody answers")
        lonely.kill()
        lonely.wait()
        self.wait_until_no_program_has(self.folder / "a")

    def wait_for_message(self, text):
        log = self.folder / "torch_member.log"
        deadline = time.monotonic() + PATIENCE
        while text not in log.read_text():
            self.assertLess(time.monotonic(), deadline, log.read_text())
            time.sleep(0.02)

    def test_a_run_begins_with_the_weights_of_who_serves_it(self):
        fields = {"sync.method": "distro", "train.workers": 1, "train.threads": 1}
        model = small_model()
        with thinwire.torch.local(model, thinwire.torch.recipe(model, self.recipe("local")), fields,
                                  quiet=True) as local:
            for step in local:
                loss = loss_of(model, step)
                loss.backward()
                local.step(loss)
        recipe = thinwire.torch.recipe(small_model(), {**self.recipe("serve"), **fields},
                                       weights=self.folder / "initial.safetensors")
        with thinwire.serve(recipe) as server:
            run, _ = self.train(server, "a")
            server.wait()
        self.assertEqual(run.result.digest, local.result.digest)

        lacking = thinwire.torch.recipe(small_model(), {**self.recipe("other"), "train.init": recipe["train.init"]})
        lacking["external.tensors"] = lacking["external.tensors"][1:]
        with self.assertRaisesRegex(thinwire.Error, r"(?s)\[train\] init: .*initial.safetensors.*scale"):
            with thinwire.serve(lacking):
                self.fail("it is served")

    def test_a_module_that_the_run_is_not_for_is_refused(self):
        with self.serve("distro") as server:
            model = small_model()
            model.outer = model.inner
            with self.assertRaisesRegex(thinwire.Error, "tensor 9 the run says \"outer.weight 8x24 matrix\" and the "
                                                        "model none"):
                with thinwire.torch.join(model, server.address, server.token, self.folder / "a", quiet=True) as run:
                    next(run)


if __name__ == "__main__":
    unittest.main()
