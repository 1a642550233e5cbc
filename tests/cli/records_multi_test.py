"""Prompts with answers, of which only the answers are learnt: the ranks of an MPI job and hosts that join over the
network give the bits of threads."""

import json
import subprocess
import unittest

from hosts_case import BINARY, PATIENCE, HostsCase
from mpi_case import MPIRUN, has_mpi

METHODS = ("allreduce", "distro", "diloco")


class Records(HostsCase):
    fields = [*HostsCase.fields, "data.dir=answers", "train.workers=2", "train.steps=12", "diloco.sync_every=4",
              "train.sequence=48", "train.packing=true", "train.separate_documents=true"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        lines = [{"prompt": f"line {i} of", "completion": " wires" * (1 + i % 4)} for i in range(600)]
        (cls.root / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        subprocess.run([BINARY, "prepare", "recipe.toml", "data.dir=answers", 'data.text=["lines.jsonl"]',
                        "data.records=prompts"], cwd=cls.root, check=True, capture_output=True)

    def test_hosts_receive_them_and_give_the_bits_of_threads(self):
        for method in METHODS:
            with self.subTest(method=method):
                base, self.folder = self.folder, self.folder / method
                self.folder.mkdir()
                field = f"sync.method={method}"
                server = self.serve(field)
                members = {name: self.join(name) for name in ("member0", "member1")}
                self.assertEqual(self.assert_complete(server, **members), self.trained_digest(field))
                self.folder = base

    def test_ranks_give_the_bits_and_losses_of_threads(self):
        if not has_mpi():
            self.skipTest("no mpirun, or a program without MPI")
        for method in METHODS:
            with self.subTest(method=method):
                fields = [*self.fields, f"sync.method={method}", "eval.every=6"]
                local = [BINARY, "train", "recipe.toml", *fields, f"run.dir={self.folder}/{method}"]
                subprocess.run(local, cwd=self.root, check=True, capture_output=True)
                ranks = [*MPIRUN, "-n", "2", *local, "train.launcher=mpi", f"run.dir={self.folder}/{method}-mpi"]
                done = subprocess.run(ranks, cwd=self.root, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual(done.returncode, 0, done.stderr)
                for key in ("digest", "train_loss", "val_loss"):
                    self.assertEqual(self.summary(f"{method}-mpi")[key], self.summary(method)[key], key)


if __name__ == "__main__":
    unittest.main()
