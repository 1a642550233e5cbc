"""--page of `thinwire train` and `thinwire serve`: what state.json and the page in a headless Chromium show."""

import http.client
import json
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from hosts_case import PATIENCE, HostsCase

CHROMIUM = shutil.which("chromium")


class Page(HostsCase):
    def open_page(self, running):
        running.wait_for("live page: ")
        found = re.search(r"live page: http://([\w.]+):(\d+)/", running.messages)
        self.host, self.port = found[1], int(found[2])

    def get(self, path):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        connection.request("GET", path)
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        return answer.read().decode()

    def state_where(self, holds):
        """The first state that is as it should be."""
        until = time.monotonic() + PATIENCE
        while True:
            state = json.loads(self.get("/state.json"))
            if holds(state):
                return state
            self.assertLess(time.monotonic(), until, state)

    def train(self, *fields):
        running = self.start("train", "recipe.toml", *self.fields, *fields, f"run.dir={self.folder}/run",
                             "--page", "0")
        self.open_page(running)
        return running

    def stop(self, running):
        running.signal(signal.SIGINT)
        self.assertEqual(running.finish(), -signal.SIGINT, running.messages)

    def test_shows_a_run_of_threads_beside_its_plan(self):
        running = self.train("train.workers=2", "train.steps=1000000", "sync.method=distro", "eval.every=5")
        state = self.state_where(lambda state: state["step"] > 12 and state["loss"]["validation"])
        self.assertEqual(self.host, "127.0.0.1")
        self.assertEqual((state["command"], state["method"], state["workers"]), ("train", "distro", 2))
        self.assertEqual([member["id"] for member in state["members"]], [0, 1])
        for direction in ("sent", "received"):
            of = state["bytes_per_step"][direction]
            self.assertGreater(of["measured"], 0)
            self.assertLessEqual(of["measured"], of["predicted"])
        self.assertGreater(len(state["loss"]["train"]["step"]), 3)
        self.assertIsNone(state["rounds"])
        self.stop(running)
        with self.assertRaises(ConnectionError):
            self.get("/")

    def test_a_resumed_run_shows_its_whole_curve(self):
        fields = ("train.workers=1", "train.steps=1000000")
        running = self.train(*fields)
        self.state_where(lambda state: state["step"] > 5)
        self.stop(running)
        running = self.train(*fields)
        state = self.state_where(lambda state: state["step"] > state["first_step"])
        self.assertGreater(state["first_step"], 5)
        self.assertEqual(state["loss"]["train"]["step"][0], 1)
        self.stop(running)

    def test_the_bits_of_a_run_are_those_without_a_page(self):
        fields = ("train.workers=2", "train.steps=12", "sync.method=distro")
        running = self.train(*fields)
        self.assertEqual(running.finish(), 0, running.messages)
        self.assertEqual(self.summary("run")["digest"], self.trained_digest(*fields))

    def test_shows_a_served_run_with_its_members_and_rounds(self):
        server = self.serve("train.workers=2", "train.steps=100000", "sync.method=distro", "eval.every=2",
                            options=("--page", "0"))
        self.open_page(server)
        state = self.state_where(lambda state: state["waits_for"])
        self.assertIn("0 of the 2", state["waits_for"])
        members = [self.join(f"member{i}") for i in range(2)]
        state = self.state_where(
            lambda state: state["closed_rounds"] > 5 and len(state["members"]) == 2)
        self.assertEqual(state["rounds"], 100000)
        for round in state["latest_rounds"]:
            self.assertEqual((round["counted"], round["missing"]), ([0, 1], []))
            self.assertGreater(round["seconds"], 0)
        sent = state["bytes_per_step"]["sent"]
        self.assertLessEqual(0.9 * sent["measured"], sent["predicted"])
        state = self.state_where(
            lambda state: len(state["loss"]["train"]["step"]) > 1 and state["loss"]["validation"])
        for curve in (state["loss"]["train"], *state["loss"]["validation"].values()):
            self.assertLess(abs(curve["value"][0] - 5.55), 0.5, "ln 258 = 5.55 is knowing nothing")
        members[1].signal(signal.SIGINT)
        state = self.state_where(
            lambda state: any(member["doing"] == "left" for member in state["members"]))
        (why,) = (member["why"] for member in state["members"] if member["doing"] == "left")
        self.assertIn("left the run", why)
        text = json.dumps(state)
        self.assertNotIn(self.ready["token"], text)

    @unittest.skipUnless(CHROMIUM, "there is no chromium here, so the page itself is not looked at")
    def test_a_browser_shows_it(self):
        running = self.train("train.workers=2", "train.steps=1000000", "sync.method=distro", "eval.every=5")
        self.state_where(lambda state: state["step"] > 12 and state["loss"]["validation"])
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 f"--user-data-dir={profile}", "--virtual-time-budget=3000", "--dump-dom",
                 f"http://{self.host}:{self.port}/"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = done.stdout
        self.assertIn('<h1 id="name">tiny</h1>', page)
        self.assertIn('<span id="state" class="badge running">running</span>', page)
        self.assertRegex(page, r'id="place"[^>]*>step \d+ of 1000000')
        self.assertEqual(len(re.findall(r'class="member" data-member', page)), 2)
        self.assertRegex(page, r'<canvas[^>]*aria-label="computing \d+ %')
        self.assertGreaterEqual(page.count("<polyline"), 2)  # training, and the validation set
        self.assertRegex(page, r"<td>sent</td><td>[\d.]+ k?B</td>")
        self.stop(running)


if __name__ == "__main__":
    unittest.main()
