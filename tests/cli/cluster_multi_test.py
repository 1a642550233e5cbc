"""`thinwire serve --nats`: runs on a cluster of three nats-servers, which outlives their coordinators, and of which one
may be lost."""

import unittest

from cluster_case import ClusterCase


class OnACluster(ClusterCase):
    def test_a_standby_goes_on_with_the_run(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=600", "sync.timeout_s=40")
        first = self.serve(*fields)
        standby = self.serve(*fields, name="standby")
        standby.wait_for("stands by: another coordinator leads the run")
        members = {name: self.join(name) for name in ("member0", "member1")}
        first.wait_for("is active")
        first.kill()
        standby.wait_for("takes over: no other coordinator leads the run")
        self.assertEqual(self.assert_agreement(standby=standby, **members), self.trained_digest(*fields))

    def test_what_is_not_the_clusters_is_refused(self):
        user = self.folder / "user.creds"
        user.write_text("# none\n")
        calls = {("--nats", "localhost"): "--nats needs --creds",
                 ("--creds", self.cluster.key): "--creds is for a cluster",
                 ("--nats", "localhost", "--creds", user): "the seed of the account's key",
                 ("--nats", "https://localhost", "--creds", self.cluster.key): "--nats",
                 ("--nats", "localhost", "--creds", self.cluster.key, "--listen", "0.0.0.0:1"): "--listen"}
        for options, text in calls.items():
            one = self.start("serve", "recipe.toml", *self.fields, f"run.dir={self.folder}/serve", *options)
            self.assertEqual(one.finish(), 2, one.messages)
            self.assertIn(text, one.messages)
        self.assertFalse((self.folder / "serve").exists())

    def test_a_cluster_of_another_authority_is_not_believed(self):
        one = self.start("serve", "recipe.toml", *self.fields, f"run.dir={self.folder}/serve", "--nats",
                         self.cluster.urls(), "--creds", self.cluster.key)
        self.assertEqual(one.finish(), 1, one.messages)
        self.assertIn("certificate", one.messages)


class LosingAServer(ClusterCase):
    own_cluster = True

    def test_the_run_goes_on_when_the_server_that_leads_the_ledger_is_killed(self):
        fields = ("train.workers=2", "sync.method=distro", "train.steps=600", "sync.timeout_s=120")
        server = self.serve(*fields)
        members = {name: self.join(name) for name in ("member0", "member1")}
        server.wait_for("is active")
        self.cluster.kill(self.cluster.leader("-log-ledger"))
        self.assertEqual(self.assert_complete(server, **members), self.trained_digest(*fields))


if __name__ == "__main__":
    unittest.main()
