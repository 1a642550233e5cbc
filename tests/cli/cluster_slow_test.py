"""`thinwire serve --nats` on a cluster of three nats-servers: the bits, who is admitted, and coordinators in several
folders."""

import subprocess
import unittest

from cluster_case import SERVERS, ClusterCase
from hosts_case import BINARY, PATIENCE


class Coordinators(ClusterCase):
    fields_of_run = ("train.workers=2", "sync.method=distro")

    def keys(self, *arguments, name="serve"):
        done = subprocess.run([BINARY, "keys", *arguments[:1], f"{self.folder}/{name}", *arguments[1:]],
                              capture_output=True, text=True, check=True, timeout=PATIENCE)
        return done.stdout.strip()

    def test_gives_the_same_bits_as_threads(self):
        fields = (*self.fields_of_run, "train.steps=12")
        server = self.serve(*fields)
        self.assertNotIn("losing one of them stops it", server.messages)
        members = {name: self.join(name) for name in ("member0", "member1")}
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))

    def test_a_token_that_a_standby_accepted_is_used(self):
        first = self.serve(*self.fields_of_run, "train.steps=3")
        token = self.keys("issue", "--single-use")
        standby = self.serve(*self.fields_of_run, "train.steps=3", name="standby")
        standby.wait_for("stands by")
        member = self.join("member0", token=token)
        first.wait_for("member 0")
        while not any(line.rstrip().endswith(" used") for line in self.keys("list", name="standby").splitlines()):
            pass
        first.kill()
        again = self.join("member1", token=token)
        self.assertEqual(again.finish(), 1, again.messages)
        self.assertIn("the token has been used", again.messages)
        self.assertEqual(self.status()["members"][0]["id"], 0)
        member.kill()

    def test_a_coordinator_that_was_killed_goes_on_in_another_folder(self):
        fields = (*self.fields_of_run, "train.steps=600")
        server = self.serve(*fields)
        members = {name: self.join(name) for name in ("member0", "member1")}
        server.wait_for("is active")
        server.kill()
        server = self.serve(*fields, name="elsewhere")
        self.assertEqual(self.assert_agreement(elsewhere=server, **members), self.trained_digest(*fields))

    def test_a_member_that_is_revoked_takes_part_no_longer(self):
        server = self.serve("train.workers=2", "sync.method=distro", "train.steps=4000", "sync.timeout_s=20")
        staying = self.join("member0")
        server.wait_for("member 0")
        revoked = self.join("member1")
        self.wait_for_step(3)
        key = self.status()["members"][1]["key"]
        said = self.keys("revoke", key)
        self.assertIn("nsc revocations add-user --account A", said)
        self.assertIn(f"--user-public-key U{key}", said)
        server.wait_for("its key was revoked")
        server.wait_for("excluded")
        step = self.status()["step"]
        self.wait_for_step(step + 3)
        # The coordinator's statement, which has the reason, comes before the ledger's record or after it.
        self.assert_refused(revoked, 1, "the run refuses this member: it is excluded", "its key was revoked")
        staying.kill()

    def test_another_recipe_is_no_standby(self):
        self.serve(*self.fields_of_run, "train.steps=3")
        other = self.start("serve", "recipe.toml", *self.fields, *self.fields_of_run, "train.steps=3",
                           "checkpoint.every=7", f"run.name={self.folder.name}", f"run.dir={self.folder}/other",
                           "--nats", self.cluster.urls(), "--creds", self.cluster.key, "--ca", self.cluster.ca)
        self.assertEqual(other.finish(), 2, other.messages)
        self.assertIn("checkpoint.every was", other.messages)
        self.assertIn("choose another run.name", other.messages)


class AServerThatHangs(ClusterCase):
    """Nobody is told that it is gone, as when its machine has lost its power."""
    own_cluster = True

    def test_a_run_ends_without_it(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=40", "sync.timeout_s=600")
        server = self.serve(*fields)
        members = {name: self.join(name, "--row-seconds", "0.1") for name in ("member0", "member1")}
        self.wait_for_step(3)
        self.cluster.stop((self.cluster.leader("-log-ledger") + 1) % SERVERS)
        # Each of the steps that are left waited for 30 s before requests were repeated elsewhere.
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))


if __name__ == "__main__":
    unittest.main()
