"""`thinwire serve --sites` when the server of a site is lost: the others go on, and its members return with it."""

import unittest

from cluster_case import SERVERS, ClusterCase


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
                                                   address=self.cluster.address(number))
            server.wait_for("is catching up", after=said)
        self.wait_for_step(20)
        self.cluster.kill(lost)
        server.wait_for(f"member {lost} ({self.status()['members'][lost]['key'][:10]}) is lost")
        self.wait_for_step(self.status()["step"] + 20)
        said = len(server.messages)
        self.cluster.start(lost)
        server.wait_for("is active", after=said)
        self.assert_complete(server, **members)
        for name in members:
            self.assertEqual(self.summary(name)["steps"], 2000)


if __name__ == "__main__":
    unittest.main()
