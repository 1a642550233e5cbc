"""Runs of many hosts whose members train on texts of their own: what they name, what is refused, what leaves them."""

import json
import subprocess
import time
import unittest

from hosts_case import BINARY, PATIENCE, HostsCase

OWN = ("data.own=true", "train.steps=12", "sync.method=diloco", "diloco.sync_every=4")


EPSILON_OF_6 = 1.416458827  # of Opacus 1.6.0: q = 0.5, noise 4, 6 steps, delta 1e-5


class HostsOwnText(HostsCase):
    def text(self, name, words, lines=300):
        """A folder with a text of `words`."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "text.txt").write_text("\n\n".join(f"{words} number {i} of {name}" for i in range(lines)))
        return folder

    def joins(self, name, text, *fields):
        return self.join(name, "--data", text, *fields)

    def wait_for_round(self, number):
        deadline = time.monotonic() + PATIENCE
        while self.status()["round"] < number:
            self.assertLess(time.monotonic(), deadline, f"the run has not reached round {number}")
            time.sleep(0.05)

    def rows_of(self):
        """Rows that each member has contributed, by id, as the summary says."""
        return {one["id"]: one["rows"] for one in self.summary("serve")["members"]}

    def prepared(self, name, *fields):
        """A folder prepared in advance, and its text."""
        text = self.text(f"{name}-text", "prepared in advance")
        folder = self.folder / name
        subprocess.run([BINARY, "prepare", f"data.text={text}", f"data.dir={folder}", *fields],
                       check=True, capture_output=True, cwd=self.root)
        return folder

    def test_members_train_on_texts_folders_recipes_and_prepared_folders_which_stay_with_them(self):
        (self.text("recipe-text", "a secret recipe") / "own.toml").write_text("")
        recipe = self.folder / "own.toml"
        recipe.write_text(f'data.text = ["{self.folder}/recipe-text/text.txt"]\ndata.document = "line"\n')
        texts = {"folder": self.text("plain", "a secret folder"),
                 "file": self.text("single", "a secret file") / "text.txt",
                 "recipe": recipe,
                 "prepared": self.prepared("ready", "data.vocabulary=byte")}
        server = self.serve("train.workers=4", *OWN)
        members = {name: self.joins(name, text) for name, text in texts.items()}
        self.assert_complete(server, **members)
        self.assert_same_weights(*members, "serve")
        self.assertIn("which stays on this machine", members["folder"].messages)
        self.assertFalse((self.folder / "prepared" / "own").exists())
        description = json.loads((self.folder / "serve" / "description.json").read_text())
        self.assertEqual([one["name"] for one in description["sets"]], ["validation"])
        kept = b"".join(file.read_bytes() for file in (self.folder / "serve").rglob("*") if file.is_file())
        for name in ("folder", "file", "recipe"):
            shard = (self.folder / name / "own" / "train" / "00000.tws").read_bytes()
            self.assertGreater(len(shard), 4096)
            self.assertNotIn(shard[2048:2112], kept, name)
        self.assertNotIn(b"secret", kept)

    def test_who_is_killed_and_who_comes_late_end_with_the_digest_of_the_others(self):
        server = self.serve("train.workers=2", *OWN, "train.steps=200", "checkpoint.every=4")
        texts = {name: self.text(f"{name}-text", name) for name in ("member0", "member1", "late")}
        slow = ("--row-seconds", "0.02")
        members = {name: self.joins(name, texts[name], *slow) for name in ("member0", "member1")}
        self.wait_for_round(3)
        members["late"] = self.joins("late", texts["late"], *slow)
        server.wait_for("member 2")
        server.wait_for("is active", server.messages.index("member 2"))
        members["member1"].kill()
        members["member1"] = self.joins("member1", texts["member1"], *slow)
        self.assert_complete(server, **members)
        self.assertNotIn("prepared", members["member1"].messages)

    def test_rows_and_weights_follow_how_much_text_a_member_has(self):
        server = self.serve("train.workers=2", *OWN, "sync.shares=own", "train.batch=8")
        members = {"little": self.joins("little", self.text("little-text", "words", 100)),
                   "much": self.joins("much", self.text("much-text", "words", 310))}
        self.assert_complete(server, **members)
        self.assertEqual(sorted(self.rows_of().values()), [2 * 12, 6 * 12])

    def test_equal_weights_are_the_default(self):
        server = self.serve("train.workers=2", *OWN, "train.batch=8")
        members = {"little": self.joins("little", self.text("little-text", "words", 100)),
                   "much": self.joins("much", self.text("much-text", "words", 310))}
        self.assert_complete(server, **members)
        self.assertEqual(list(self.rows_of().values()), [4 * 12, 4 * 12])

    def test_what_does_not_fit_the_run_is_refused_by_name(self):
        self.serve("train.workers=2", *OWN)
        self.assert_refused(self.joins("careful", self.text("careful-text", "words"), "--epsilon", "5"), 2,
                            "--epsilon 5: the run's recipe has [privacy] noise = 0")
        self.assert_refused(self.join("none"), 2, "--data is needed: the members of this run train on texts of their own")
        self.assert_refused(self.joins("absent", self.folder / "absent.txt"), 2, "--data", "there is no such file or folder")
        other = self.prepared("other", "data.vocabulary_size=300")
        self.assert_refused(self.joins("other-vocabulary", other), 2,
                            f"--data {other}: it was prepared with another vocabulary than the run's")
        recipe = self.folder / "records.toml"
        recipe.write_text('data.text = ["text.txt"]\ndata.records = "prompts"\n')
        self.assert_refused(self.joins("records", recipe), 2, 'it has [data] records = "prompts", and the run learns "text"')
        pairs = self.folder / "pairs.jsonl"
        pairs.write_text("".join(json.dumps({"prompt": f"{i} and one?", "answer": str(i + 1)}) + "\n" for i in range(50)))
        prepared = self.folder / "prepared-prompts"
        subprocess.run([BINARY, "prepare", f"data.text={pairs}", f"data.dir={prepared}", "data.records=prompts",
                        "data.vocabulary=byte"], check=True, capture_output=True, cwd=self.root)
        self.assert_refused(self.joins("prepared-records", prepared), 2,
                            f'--data {prepared}: it has [data] records = "prompts", and the run learns "text"')
        short = self.folder / "short.txt"
        short.write_text("one")
        self.assert_refused(self.joins("short", short), 1, "but one row of train.sequence = 16 needs 17")
        self.assert_refused(self.joins("needed", self.text("needed-text", "words"), "data.fetch=needed"), 2,
                            '[data] fetch must be "all" in a run with own = true, got "needed"')

    def test_an_ordinary_run_takes_no_text(self):
        self.serve("train.workers=2", "sync.method=diloco")
        self.assert_refused(self.joins("member0", self.text("text", "words")), 2, "--data: the run has a text")

    def test_audits_and_runs_of_one_machine_refuse_it_with_the_reason(self):
        train = self.start("train", "recipe.toml", *self.fields, "data.own=true")
        self.assert_refused(train, 2, "[data] own must be false without a coordinator, got true")
        shares = self.start("train", "recipe.toml", *self.fields, "sync.shares=own")
        self.assert_refused(shares, 2, "[sync] shares = \"own\" needs [data] own = true")
        self.serve("train.workers=2", *OWN)
        token = subprocess.run([BINARY, "keys", "issue", self.folder / "serve", "--role", "auditor"], capture_output=True,
                               text=True, check=True).stdout.strip()
        auditor = self.join("auditor", "--audit", token=token)
        self.assert_refused(auditor, 2, "[data] own must be false for audits, got true", "which never leaves it")

    def test_members_with_noise_agree_and_what_it_tells_is_said_everywhere(self):
        fields = ("privacy.clip=0.1", "privacy.noise=4", "privacy.sampling=0.5", "checkpoint.every=4")
        planned = subprocess.run([BINARY, "recipe", "recipe.toml", *self.fields, *OWN, *fields, "train.steps=24"],
                                 cwd=self.root, capture_output=True, text=True, check=True)
        self.assertIn("tells of its text is bounded, after 6 contributions with noise: epsilon ",
                      planned.stderr)
        server = self.serve("train.workers=2", *OWN, *fields, "train.steps=24", "diloco.sync_every=4")
        server.wait_for("after 6 contributions with noise")
        texts = {name: self.text(f"{name}-text", name) for name in ("member0", "member1")}
        self.assert_refused(self.joins("careful", texts["member0"], "--epsilon", "1.4"), 2,
                            "--epsilon 1.4: to the end of the run others could learn epsilon 1.416 of this member's text")
        members = {name: self.joins(name, texts[name], "--row-seconds", "0.1", "--epsilon", "2") for name in texts}
        members["member0"].wait_for("privacy.clip = 0.1, noise = 4, sampling = 0.5, delta = 1e-05")
        members["member0"].wait_for("the bound at the end of the run, after 6 contributions with noise: epsilon 1.416")
        self.wait_for_round(2)
        members["member1"].kill()
        members["member1"] = self.joins("member1", texts["member1"])
        self.assert_complete(server, **members)
        summary = self.summary("serve")
        self.assertIsNone(summary["train_loss"], "it would tell of the members' texts")
        self.assertEqual(summary["privacy"]["sums"], 6)
        self.assertAlmostEqual(summary["privacy"]["epsilon"], EPSILON_OF_6, 6)
        own = json.loads((self.folder / "member0" / "privacy.json").read_text())
        self.assertEqual(own["contributions"], 6)
        self.assertAlmostEqual(own["epsilon"], EPSILON_OF_6, 6)
        self.assertIn("what others can have learnt of this member's text, after 6 contributions", members["member0"].messages)
        again = json.loads((self.folder / "member1" / "privacy.json").read_text())
        self.assertGreaterEqual(again["contributions"], 5)
        self.assertIsNotNone(self.summary("member0")["train_loss"])

    def test_status_says_what_the_sums_so_far_tell(self):
        server = self.serve("train.workers=1", *OWN, "train.steps=400", "privacy.clip=0.1", "privacy.noise=4")
        self.joins("member0", self.text("text", "words"), "--row-seconds", "0.02")
        self.wait_for_round(4)
        status = self.status()
        self.assertGreaterEqual(status["sums"], 3)
        self.assertEqual(status["delta"], 1e-5)
        self.assertGreater(status["epsilon"], 0.5)
        shown = subprocess.run([BINARY, "status", self.ready["address"], "--token", self.ready["token"]],
                               capture_output=True, text=True, check=True)
        self.assertIn("what a member's contributions to", shown.stdout)


if __name__ == "__main__":
    unittest.main()
