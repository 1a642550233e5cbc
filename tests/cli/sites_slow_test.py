"""`thinwire serve --sites` when the server of a site is lost: the others go on, its members return with it, and who
joins meanwhile catches up or waits."""

import unittest

from cluster_case import HOSTS, SERVERS, ClusterCase


class LosingASite(ClusterCase):
    own_cluster = True

    def test_the_others_go_on_until_it_is_back(self):
        lost = SERVERS - 1
        server = self.serve("train.workers=3", "train.batch=6", "sync.method=distro", "train.steps=2000",
                            "sync.timeout_s=20", options=("--sites",))
        members = {}
        for number in range(SERVERS):
            said = len(server.messages)
            members[f"member{number}"] = self.join(f"member{number}", "--row-seconds", "0.01",
                                                   "--name", f"machine{number}",
                                                   address=self.cluster.address(number))
            server.wait_for("is catching up", after=said)
        self.wait_for_step(20)
        self.cluster.kill(lost)
        key = self.status()["members"][lost]["key"][:10]
        server.wait_for(f"member {lost} ({key}, machine{lost}) is lost")
        self.wait_for_step(self.status()["step"] + 20)
        said = len(server.messages)
        self.cluster.start(lost)
        server.wait_for("is active", after=said)
        self.assert_complete(server, **members)
        for name in members:
            self.assertEqual(self.summary(name)["steps"], 2000)


class JoiningWithoutASite(ClusterCase):
    own_cluster = True
    fields_of_run = ("train.batch=4", "sync.method=distro", "sync.timeout_s=20")

    def join_at(self, number, name=None):
        return self.join(name or f"member{number}", "--row-seconds", "0.02", address=self.cluster.address(number))

    def test_a_joiner_catches_up_on_what_the_members_of_a_lost_site_had_sent(self):
        lost = SERVERS - 1
        server = self.serve(*self.fields_of_run, "train.workers=2", "train.steps=500", options=("--sites",))
        members = {f"member{number}": self.join_at(number) for number in (1, lost)}
        self.wait_for_step(20)  # each has a payload of the lost site, for which 30 s were waited
        self.cluster.kill(lost)
        server.wait_for("is lost")
        said = len(server.messages)
        members["joiner"] = self.join_at(0, "joiner")
        server.wait_for("is active", after=said)
        self.cluster.start(lost)
        self.assert_complete(server, **members)

    def test_a_join_waits_for_the_coordinators_site(self):
        server = self.serve(*self.fields_of_run, "train.workers=1", "train.steps=100000", options=("--sites",))
        self.join_at(1)
        moved = self.join_at(0, "moved")
        self.wait_for_step(20)
        moved.kill()
        self.cluster.kill(0)
        waiting = self.join_at(1, "waiting")
        waiting.wait_for("the run's description cannot be fetched yet")
        self.assert_refused(self.join_at(2, "moved"), 1,
                            f"kept at another site, whose server does not answer: go on there once it does, or join "
                            f"at {HOSTS[2]} with a new run.dir")
        said = len(server.messages)
        self.cluster.start(0)
        server.wait_for("is active", after=said)
        self.assertIsNone(waiting.process.poll(), waiting.messages)


if __name__ == "__main__":
    unittest.main()
