"""A site under mpirun as one member of a served run."""

import json
import os
import signal
import subprocess
import unittest

from hosts_case import BINARY, HostsCase
from mpi_case import MPIRUN, has_mpi, ranks_of
from tiny_model import write_tiny_model


@unittest.skipUnless(has_mpi(), "no mpirun, or a program without MPI")
class Site(HostsCase):
    def join_site(self, name, ranks, *fields):
        return self.join(name, "train.launcher=mpi", *fields, place=(*MPIRUN, "-n", str(ranks)))

    def test_is_one_member(self):
        server = self.serve("train.workers=2", "sync.method=distro", "train.steps=40", "train.batch=8")
        alone, site = self.join("alone"), self.join_site("site", 3)
        self.assert_complete(server, alone=alone, site=site)
        self.assertIn("3 ranks of a job are one member", site.messages)
        self.assertEqual(site.messages.count("joins the run"), 1, "the other ranks say nothing")
        self.assertNotIn("member 2", server.messages)

    def test_trains_an_adapter_on_the_base_of_its_first_rank(self):
        write_tiny_model(self.folder / "base")
        base = f"train.init={self.folder}/base"
        self.fields = ["train.batch=8", "train.sequence=16", "optim.lr=0.003", "schedule.warmup=2", "log.tensorboard=false",
                       "sync.timeout_s=600", "adapter.kind=lora", "adapter.rank=2", base]
        server = self.serve("train.workers=2", "sync.method=diloco", "diloco.sync_every=4", "train.steps=12")
        alone, site = self.join("alone", base), self.join_site("site", 3)
        self.assert_complete(server, alone=alone, site=site)
        self.assertIn("of the base into", site.messages)

    def test_keeps_weights_in_files_and_in_bf16(self):
        server = self.serve("train.workers=2", "sync.method=allreduce", "train.weights=bf16", "train.precision=bf16",
                            "train.steps=12", "train.batch=8")
        alone, site = self.join("alone"), self.join_site("site", 3, "train.offload=true")
        self.assert_complete(server, alone=alone, site=site)

    def test_updates_layer_by_layer(self):
        server = self.serve("train.workers=2", "sync.method=diloco", "diloco.sync_every=4", "train.steps=12", "train.batch=8",
                            "train.update=layer", "optim.clip_by=previous")
        alone, site = self.join("alone"), self.join_site("site", 3)
        self.assert_complete(server, alone=alone, site=site)

    def test_learns_preferences(self):
        pairs = [{"prompt": f"{i:02}", "chosen": " wire" * (1 + i % 3), "rejected": " rope" * (1 + i * i % 3)}
                 for i in range(20)]
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
        base, tokens = self.folder / "base", self.folder / "tokens"
        subprocess.run([BINARY, "train", "recipe.toml", *self.fields, "train.steps=2", "train.workers=1",
                        f"run.dir={base}"], cwd=self.root, check=True, capture_output=True)
        records = ["data.records=preferences", f"data.text=['{self.folder}/pairs.jsonl']", "data.validation_fraction=0",
                   f"data.validation_text=['same={self.folder}/pairs.jsonl']", f"data.dir={tokens}"]
        subprocess.run([BINARY, "prepare", "recipe.toml", *records], cwd=self.root, check=True, capture_output=True)
        server = self.serve("train.workers=2", "sync.method=diloco", "diloco.sync_every=4", "train.steps=12",
                            "train.batch=8", "train.sequence=48", "optim.lr=0.0001", f"train.init={base}", *records)
        self.assert_complete(server, alone=self.join("alone"), site=self.join_site("site", 2))

    def test_returns_after_a_rank_was_killed(self):
        server = self.serve("train.workers=2", "sync.method=distro", "train.steps=1000", "train.batch=8")
        alone, site = self.join("alone"), self.join_site("site", 2)
        server.wait_for("is active")
        while self.status()["step"] < 3:
            pass
        os.kill(ranks_of(site.process.pid)[1], signal.SIGKILL)
        self.assertNotEqual(site.finish(), 0)
        self.assert_complete(server, alone=alone, site=self.join_site("site", 2))
        self.assertNotIn("member 2", server.messages)

    def test_leaves_cleanly(self):
        server = self.serve("train.workers=2", "sync.method=distro", "train.steps=4000", "train.batch=8")
        self.join("alone")
        site = self.join_site("site", 2)
        server.wait_for("is active")
        while self.status()["step"] < 3:
            pass
        os.kill(ranks_of(site.process.pid)[0], signal.SIGINT)
        self.assertEqual(site.finish(), 128 + signal.SIGINT)
        self.assertRegex(site.messages, "left the run after step [1-9]")
        server.wait_for("is left")

    def test_what_it_cannot_share_is_refused(self):
        self.serve("train.workers=2", "sync.method=diloco", "optim.method=galore", "galore.rank=4",
                   "optim.gradients=projected")
        site = self.join_site("site", 2)
        self.assertNotEqual(site.finish(), 0)
        self.assertIn('[optim] gradients must be "whole" where the ranks of a site', site.messages)

    def test_an_auditor_is_alone(self):
        self.serve("train.workers=2")
        site = self.join("auditor", "--audit", "train.launcher=mpi")
        self.assert_refused(site, 2, '[train] launcher must be "threads" for audits')


if __name__ == "__main__":
    unittest.main()
