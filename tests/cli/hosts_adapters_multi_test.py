"""Runs of many hosts that train an adapter: members have the base or receive it, come late, are killed and return, and end
with factors that PEFT can read."""

import json
import shutil
import signal
import struct
import subprocess
import time
import unittest

from hf_commands_test import write_tiny_model
from hosts_case import BINARY, PATIENCE, HostsCase


def tensors_of(file):
    data = file.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return {name for name in json.loads(data[8:8 + length]) if name != "__metadata__"}


class HostsAdapters(HostsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.base = cls.root / "base"
        write_tiny_model(cls.base)
        cls.fields = ["train.batch=4", "train.sequence=16", "optim.lr=0.003", "schedule.warmup=2",
                      "log.tensorboard=false", "sync.timeout_s=600", "adapter.kind=lora", "adapter.rank=2",
                      f"train.init={cls.base}"]

    def joins(self, name, *fields):
        """With a copy of the base."""
        return self.join(name, f"train.init={self.base}", *fields)

    def wait_for_step(self, step):
        deadline = time.monotonic() + 120
        while self.status()["step"] < step:
            self.assertLess(time.monotonic(), deadline, f"the run has not reached step {step}")
            time.sleep(0.05)

    def export(self, name):
        """The PEFT folder of a member."""
        out = self.folder / f"{name}.peft"
        subprocess.run([BINARY, "export", self.folder / name, out, "--adapter"], check=True, capture_output=True)
        return out

    def test_members_with_and_without_a_copy_of_the_base_give_the_bits_of_threads(self):
        fields = ("train.workers=2", "sync.method=diloco", "diloco.sync_every=4", "train.steps=12")
        server = self.serve(*fields)
        owner, receiver = self.joins("owner"), self.join("receiver")
        digest = self.assert_complete(server, owner=owner, receiver=receiver)
        self.assertEqual(digest, self.trained_digest(*fields))
        self.assertIn("of the base into", receiver.messages)
        self.assertNotIn("of the base into", owner.messages)
        self.assertFalse((self.folder / "owner" / "base").exists())
        received = self.folder / "receiver" / "base"
        for name in ("config.json", "model.safetensors", "vocabulary.json"):
            self.assertEqual((received / name).read_bytes(), (self.base / name).read_bytes())
        # Only factors are stored, by the coordinator and by members, and they are what PEFT gets.
        weights = next((self.folder / "receiver" / "checkpoints").glob("step-*")) / "weights.safetensors"
        self.assertTrue(all(".lora_" in name for name in tensors_of(weights)))
        config = json.loads((self.export("receiver") / "adapter_config.json").read_text())
        self.assertEqual(config["base_model_name_or_path"], str(received))
        factors = self.folder / "receiver.peft" / "adapter_model.safetensors"
        for other in ("owner", "serve"):
            self.assertEqual(factors.read_bytes(), (self.export(other) / "adapter_model.safetensors").read_bytes(), other)

    def test_who_joins_late_and_who_was_killed_end_with_the_digest_of_the_others(self):
        server = self.serve("train.workers=2", "sync.method=distro", "train.steps=400", "checkpoint.every=5")
        slow = ("--row-seconds", "0.02")
        members = {"member0": self.joins("member0", *slow), "member1": self.join("member1", *slow)}
        self.wait_for_step(10)
        late = self.join("late", *slow)
        server.wait_for("member 2")
        server.wait_for("is active", server.messages.index("member 2"))
        members["member1"].kill()
        self.wait_for_step(self.status()["step"] + 10)
        again = self.join("member1", *slow)
        again.wait_for("joins the run at")
        self.assert_complete(server, member0=members["member0"], member1=again, late=late)
        self.assertNotIn("of the base into", again.messages)

    def test_a_base_of_another_digest_is_refused_by_name(self):
        other = self.folder / "other"
        shutil.copytree(self.base, other)
        weights = bytearray((other / "model.safetensors").read_bytes())
        weights[-1] ^= 1
        (other / "model.safetensors").write_bytes(weights)
        self.serve("train.workers=2", "sync.method=distro")
        digest = json.loads((self.folder / "serve" / "description.json").read_text())["base"]["digest"]
        member = self.join("member0", f"train.init={other}")
        self.assert_refused(member, 2, f"[train] init: the weights in {other} have the digest ",
                            f"and those of the run's base {digest}; name a folder that holds the base")

    def test_a_run_goes_on_with_its_base_wherever_it_is_and_with_no_other(self):
        server = self.serve("train.workers=2", "sync.method=distro")
        server.signal(signal.SIGINT)
        server.finish()
        moved = self.folder / "moved"
        shutil.copytree(self.base, moved)
        server = self.serve("train.workers=2", "sync.method=distro", f"train.init={moved}")
        server.signal(signal.SIGINT)
        server.finish()
        other = self.folder / "other"
        shutil.copytree(self.base, other)
        weights = bytearray((other / "model.safetensors").read_bytes())
        weights[-1] ^= 1
        (other / "model.safetensors").write_bytes(weights)
        again = self.start("serve", "recipe.toml", *self.fields, "train.workers=2", "sync.method=distro",
                           f"train.init={other}", f"run.dir={self.folder}/serve", "--listen", "127.0.0.1:0")
        self.assert_refused(again, 2, f"[train] init: the weights in {other} have the digest ", "name the original one")

    def test_the_doctor_needs_no_base(self):
        self.serve("train.workers=2", "sync.method=distro")
        done = subprocess.run([BINARY, "doctor", self.ready["address"], "--token", self.ready["token"]],
                              capture_output=True, text=True, check=True, timeout=PATIENCE, cwd=self.folder)
        self.assertIn("a step takes", done.stdout)

    def test_a_run_without_an_adapter_takes_no_model(self):
        self.fields = HostsCase.fields
        self.serve("train.workers=2")
        self.assert_refused(self.joins("member0"), 2,
                            "[train] init must be empty for a run whose weights all come from its coordinator")


if __name__ == "__main__":
    unittest.main()
