"""Members of several processes: plain modules, DistributedDataParallel and FSDP2 give what one process gives; an error in one
process ends all of them, kill -9 of one leaves the other members alone, and the member returns with other processes."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import unittest
from pathlib import Path

from python_case import PATIENCE, SOURCE, PythonCase

from optional_packages import OptionalPackages

import thinwire

SCRIPT = Path(__file__).parent / "torch_ranks.py"
OWN = {"sync__method": "diloco", "diloco__sync_every": 4, "diloco__wire": "fp32", "optim__method": "own"}

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    from torch_model import loss_of, small_model

    import thinwire.torch


@PACKAGES.needed
class Ranks(PythonCase):
    def case(self, kind, run, **more):
        """What torch_ranks trains; 18 rows are not the same number for each of four processes."""
        recipe = thinwire.torch.recipe(small_model(), self.recipe(run, train__batch=18, train__steps=12, **more))
        return {"kind": kind, "recipe": recipe, "inner": more.get("optim__method") == "own"}

    def run_ranks(self, ranks, *cases, launcher=()):
        """Tuples of what each process says, one for each case; lists by process, if one has not come that far."""
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "OMP_NUM_THREADS": "1"}
        asked = json.dumps({"ranks": ranks, "cases": cases})
        done = subprocess.run([sys.executable, *launcher, str(SCRIPT), asked], env=environment, capture_output=True,
                              text=True, timeout=PATIENCE)
        said = {rank: [] for rank in range(ranks)}
        for line in done.stdout.splitlines():
            report = json.loads(line)
            said[report["rank"]].append(report)
        self.said = done.stderr
        return list(zip(*said.values())) if len({len(one) for one in said.values()}) == 1 else said

    def alone(self, run, **more):
        """The weights with which one process ends, and the loss of the last step."""
        model = small_model()
        case = self.case("plain", run, **more)
        training = thinwire.torch.local(model, case["recipe"], quiet=True)
        inner = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=0.02)
        optimizer = thinwire.torch.DiLoCo(model, inner=inner, run=training) if case["inner"] else None
        with optimizer or training:
            for step in training:
                loss = loss_of(model, step)
                loss.backward()
                if optimizer is None:
                    training.step(loss)
                else:
                    optimizer.step(loss=loss)
                    optimizer.zero_grad()
        return torch.cat([one.detach().flatten() for one in model.parameters() if one.requires_grad]), training.report.loss

    def is_as_alone(self, reports, alone):
        weights, loss = alone
        self.assertEqual(len({report["hash"] for report in reports}), 1, "the processes have the same bits")
        self.assertEqual(len({report["digest"] for report in reports}), 1)
        self.assertRegex(reports[0]["digest"], "^[0-9a-f]{16}$")
        self.assertLess(float((torch.tensor(reports[0]["weights"]) - weights).abs().max()), 2e-4)
        self.assertAlmostEqual(reports[0]["loss"], loss, places=4)

    def test_they_train_as_one_process_does(self):
        methods = {"allreduce": {}, "own": OWN}
        alone = {name: self.alone(f"alone-{name}", **fields) for name, fields in methods.items()}
        every = [(kind, name) for kind in ("plain", "ddp", "fsdp") for name in methods]
        for ranks, asked in ((2, every), (4, [("plain", "allreduce"), ("ddp", "allreduce"), ("fsdp", "own")])):
            said = self.run_ranks(ranks, *(self.case(kind, f"{kind}-{name}-{ranks}", **methods[name])
                                           for kind, name in asked))
            self.assertEqual(len(said), len(asked), f"{said} {self.said}")
            for (kind, name), reports in zip(asked, said):
                with self.subTest(f"{kind}, {name}, {ranks} processes"):
                    self.is_as_alone(reports, alone[name])

    def test_left_and_begun_again_they_go_on_with_the_inner_state(self):
        whole, parts = self.case("fsdp", "whole", **OWN), self.case("fsdp", "parts", **OWN)
        first = {**parts, "fails": [-1, 6, "break"]}
        said = self.run_ranks(2, whole, first, parts)
        self.assertEqual(len(said), 3, f"{said} {self.said}")
        self.assertEqual([report["first"] for report in said[2]], [6, 6])
        self.assertEqual(said[0][0]["digest"], said[2][1]["digest"])

    def test_an_error_keeps_the_inner_state_of_plain_processes(self):
        whole, parts = self.case("plain", "whole", **OWN), self.case("plain", "parts", **OWN)
        failed = self.run_ranks(2, whole, {**parts, "fails": [1, 6, "raise"]})
        self.assertIn("LookupError", failed[1][1]["error"], f"{failed} {self.said}")
        said = self.run_ranks(2, parts)
        self.assertEqual([report["first"] for report in said[0]], [6, 6], self.said)
        self.assertEqual(failed[0][0]["digest"], said[0][1]["digest"])

    def test_a_parameter_without_a_gradient_stays_as_it_is(self):
        case = self.case("plain", "run", **OWN)
        scale, *others = case["recipe"]["external.tensors"]
        case["recipe"]["external.tensors"] = [scale, "idle 8 bias", *others]
        said = self.run_ranks(2, {**case, "idle": True})
        self.assertEqual([report.get("idle") for report in said[0]], [[1.0] * 8] * 2, f"{said} {self.said}")

    def test_one_that_cannot_read_the_weights_tells_the_others(self):
        said = self.run_ranks(2, {**self.case("plain", "run", **OWN), "fails": [0, -1, "load"]})
        self.assertRegex(said[0][1]["error"], "process 0 of this member has failed: Error: .* is damaged", self.said)

    def test_one_that_leaves_while_others_hear_of_the_run_ends_them(self):
        said = self.run_ranks(2, {"kind": "leaves"})
        self.assertRegex(said[0][0]["error"], "other processes of this member have left the run", f"{said} {self.said}")

    def test_an_error_in_one_process_ends_all(self):
        for kind, how, expected in (("ddp", "raise", "process 1 of this member has failed: LookupError: no such row"),
                                    ("plain", "kill", "another process of this member has ended without a word"),
                                    ("plain", "break", "other processes of this member have left the run")):
            with self.subTest(f"{kind}, {how}"):
                said = self.run_ranks(2, {**self.case(kind, f"{kind}-{how}"), "fails": [1, 5, how]})
                first = said[0][0]
                self.assertRegex(first["error"], f"^Error: {re.escape(expected)}")

    def test_what_the_processes_cannot_share_is_refused(self):
        said = self.run_ranks(4, {**self.case("plain", "few"), "recipe": thinwire.torch.recipe(
            small_model(), self.recipe("few", train__batch=3))})
        for report in said[0]:
            self.assertRegex(report["error"], "step 1 has 3 rows for this member, whose 4 processes need one each: raise")

    def test_torchrun_starts_them(self):
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
        said = self.run_ranks(2, self.case("ddp", "run", sync__method="distro"), launcher=launcher)
        self.assertEqual(len(said), 1, self.said)
        self.assertEqual(said[0][0]["digest"], said[0][1]["digest"])


@PACKAGES.needed
@unittest.skipUnless(shutil.which("nats-server"), "there is no nats-server here")
class RanksHosted(PythonCase):
    def train(self, server, digests):
        """The other member, which takes its time while it is alone."""
        model = small_model(seed=7)
        with thinwire.torch.join(model, server.address, server.token, self.folder / "a", {"train.threads": 1},
                                 quiet=True) as run:
            for step in run:
                if len(step.rows) == 16:
                    self.over.wait(0.5)
                loss = loss_of(model, step)
                loss.backward()
                run.step(loss)
        digests.append(run.result.digest)

    def member(self, server, kind, ranks, **more):
        case = {"kind": kind, "address": server.address, "token": server.token, "folder": str(self.folder / "b"), **more}
        return self.start(SCRIPT, json.dumps({"ranks": ranks, "cases": [case]}))

    def test_one_that_is_killed_leaves_the_others_alone_and_the_member_returns(self):
        recipe = thinwire.torch.recipe(small_model(), self.recipe(
            "serve", sync__method="distro", sync__timeout_s=60, train__workers=2, train__steps=150))
        self.over = threading.Event()
        digests = []
        with thinwire.serve(recipe) as server:
            other = threading.Thread(target=self.train, args=(server, digests))
            other.start()
            try:
                died = self.member(server, "ddp", 2, fails=[1, 8, "kill"])
                first = json.loads(died.communicate(timeout=PATIENCE)[0])
                self.assertEqual((first["rank"], first["first"] < 8), (0, True))
                self.assertRegex(first["error"], "another process|Connection|connection")
                returned = self.member(server, "fsdp", 4)
                said = [json.loads(line) for line in returned.communicate(timeout=PATIENCE)[0].splitlines()]
            finally:
                self.over.set()
                other.join(PATIENCE)
            server.wait()
        self.assertEqual(len(said), 4)
        self.assertGreater(said[0]["first"], 8)
        self.assertEqual({report["digest"] for report in said}, set(digests))


if __name__ == "__main__":
    unittest.main()
