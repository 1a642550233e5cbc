"""The examples, built outside of the tree against nothing but an installed Thinwire: they train as `thinwire
train` does, join what `thinwire serve` serves, plan as `thinwire plan` does, and print only what they print themselves."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

BINARY = Path(os.environ["THINWIRE_BINARY"])
SOURCE = Path(os.environ["THINWIRE_SOURCE_DIR"])
BUILD = BINARY.parents[1]
PATIENCE = 120  # seconds; only what hangs takes that long


def output_of(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        cls.prefix = cls.folder / "installed"
        output_of("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", "embedding")
        shutil.copytree(SOURCE / "examples", cls.folder / "examples")
        (cls.folder / "text.txt").write_text("a line of a small text about thin wires\n" * 500)
        cls.recipe = cls.folder / "recipe.toml"
        cls.recipe.write_text("\n".join([
            f'data.dir = "{cls.folder}/tokens"', f'data.text = ["{cls.folder}/text.txt"]', 'data.document = "line"',
            'data.vocabulary = "byte"', "data.validation_block = 4", 'sync.method = "distro"', "model.hidden = 16",
            "model.layers = 1", "model.heads = 1", "train.sequence = 16", "train.workers = 2", "train.steps = 20"]))
        output_of(BINARY, "prepare", cls.recipe)

    def build(self, name):
        build = self.folder / f"built-{name}"
        output_of("cmake", "-G", "Ninja", "-S", self.folder / "examples" / name, "-B", build,
                  f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Debug")
        output_of("cmake", "--build", build)
        return build / f"{name}_example"

    def test_trains_with_callbacks(self):
        program = self.build("train")
        run = f"run.dir={self.folder}/embedded"
        done = subprocess.run([program, self.recipe, run], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(re.findall(r"^step (\d+): loss \d", done.stdout, re.MULTILINE), ["10", "20"])
        self.assertRegex(done.stdout, r"(?m)^step 20: validation \d")
        self.assertIn(f"checkpoint {self.folder}/embedded/checkpoints/", done.stdout)
        output_of(BINARY, "train", self.recipe, f"run.dir={self.folder}/alone")
        digest = json.loads((self.folder / "alone/summary.json").read_text())["digest"]
        self.assertIn(f"finished after step 20; weights {digest}", done.stdout)

        wrong = subprocess.run([program, self.recipe, "sync.method=distor"], capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("distro", wrong.stderr)

    def test_trains_a_model_of_its_own(self):
        said = output_of(self.build("own_model"), self.folder / "own")
        methods = re.findall(r"^(\w+) +loss ([\d.]+) -> ([\d.]+),", said, re.MULTILINE)
        self.assertIn("distro", [method for method, _, _ in methods])
        self.assertEqual(len(methods), said.count("\n"))
        for method, first, last in methods:
            self.assertLess(float(last), float(first) / 3, method)

        external = ["model.architecture=external", 'external.tensors=["in 32x1"]', "train.sequence=1"]
        for command in (["generate", self.folder / "own/distro", "--prompt", "x"], ["chat", self.folder / "own/distro"],
                        ["export", self.folder / "own/distro", self.folder / "exported"],
                        ["train", self.recipe, *external]):
            done = subprocess.run([BINARY, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, (command, done.stdout, done.stderr))
            self.assertRegex(done.stderr, "program's own model|program which has it|program's model", command)

    @unittest.skipUnless(shutil.which("nats-server"), "there is no nats-server here")
    def test_joins_a_served_run_with_a_model_of_its_own(self):
        program = self.build("own_model")
        for fields in (("sync.method=distro",), ("sync.method=allreduce",),
                       ("sync.method=diloco", "diloco.sync_every=10", "train.steps=4000"),
                       ("sync.method=sparseloco", "sparseloco.sync_every=10", "train.steps=4000")):
            with self.subTest(fields[0]):
                self.serve(program, *fields)

    def serve(self, program, *fields):
        """A run of two members, one of which is killed and comes back."""
        folder = self.folder / f"served-{fields[0]}"
        folder.mkdir()
        ready = folder / "ready.json"
        server = self.start([BINARY, "serve", self.folder / "examples/own_model/recipe.toml", *fields,
                             f"run.dir={folder}/serve", "sync.timeout_s=60", "--listen", "127.0.0.1:0",
                             "--ready-file", ready], folder / "serve.log")
        self.wait_until(ready.exists, server)
        access = json.loads(ready.read_text())

        refused = subprocess.run([BINARY, "join", access["address"], "--token", access["token"],
                                  f"run.dir={folder}/refused"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("the run's model is external, and only the program which has it can train it or join its run",
                      refused.stderr)

        def join(name):
            return self.start([program, folder / name, access["address"], access["token"]], folder / f"{name}.log")

        members = [join("a"), join("b")]
        log = folder / "b/events.jsonl"
        self.wait_until(lambda: log.exists() and log.read_text().count('"step"') > 20, members[1])
        members[1].kill()
        self.assertEqual(members[1].wait(), -signal.SIGKILL, "it was over before it could be killed")
        members[1] = join("b")
        said = {}
        for name, one in zip(("a", "b", "serve"), (*members, server)):
            self.assertEqual(one.wait(PATIENCE), 0, (folder / f"{name}.log").read_text())
            said[name] = (folder / f"{name}.log").read_text()
        ended = {name: re.fullmatch(r"loss ([\d.]+) -> ([\d.]+), [\d.]+ B a step, weights (\w{16})\n", said[name]).groups()
                 for name in ("a", "b")}
        began = float(ended["a"][0])  # the other one heard its first loss when it had returned
        digests = set()
        for _, last, digest in ended.values():
            self.assertLess(float(last), began / 3)
            digests.add(digest)
        digests.add(json.loads((folder / "serve/summary.json").read_text())["digest"])
        self.assertEqual(len(digests), 1)
        self.assertNotIn("member 2 ", said["serve"], "the member that was killed returned under its id")

    def start(self, command, log):
        with open(log, "w") as file:
            one = subprocess.Popen([str(word) for word in command], stdout=file, stderr=file, cwd=self.folder)
        self.addCleanup(one.wait)
        self.addCleanup(one.kill)
        return one

    def wait_until(self, is_so, process):
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            self.assertIsNone(process.poll(), "it has ended")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_prepares_trains_and_continues_a_text(self):
        folder = self.folder / "text"
        fields = [f"data.dir={folder}/tokens", f"run.dir={folder}/run"]
        sentence = "a line of a small"
        program = self.build("text")
        said = output_of(program, self.recipe, sentence, *fields).split("\n")
        self.assertEqual(output_of(program, self.recipe, sentence, *fields).split("\n"), said, "it may be called again")
        prepared = output_of(BINARY, "prepare", self.recipe, fields[0])
        self.assertIn("already prepared", prepared)
        for line, name in zip(said, ("train", "validation")):
            self.assertRegex(line, rf"^{name}: \d+ tokens$")
            self.assertRegex(prepared, rf"(?m)^{name} ")
        (folder / "sentence.txt").write_text(sentence)
        (folder / "items").mkdir()
        output_of(BINARY, "eval", folder / "run", "perplexity", "--text", folder / "sentence.txt", "--items",
                  folder / "items/all.jsonl")
        item = json.loads((folder / "items/all.jsonl").read_text())
        self.assertIn(f"log-likelihood {item['log_likelihood']:.4f}", said)
        continued = output_of(BINARY, "generate", folder / "run", "--prompt", sentence, "--greedy", "--tokens", 8)
        (exported_to,) = (folder / "run").glob("hugging_face-*")
        exported = f"log-likelihood {item['log_likelihood']:.4f} as {exported_to} has it\n"
        self.assertEqual("\n".join(said).split("\n", 3)[3], continued + exported)
        self.assertTrue((exported_to / "model.safetensors").exists())

    def test_the_program_is_installed_with_its_recipes_completion_and_manual(self):
        prefix = self.folder / "program"
        output_of("cmake", "--install", BUILD, "--prefix", prefix, "--component", "program")
        program = prefix / "bin/thinwire"
        self.assertEqual(output_of(program, "--version"), output_of(BINARY, "--version"))
        self.assertTrue((prefix / "share/thinwire/recipes/quickstart.toml").exists())
        for shell, file in (("bash", "bash-completion/completions/thinwire"), ("zsh", "zsh/vendor-completions/_thinwire"),
                            ("fish", "fish/vendor_completions.d/thinwire.fish")):
            self.assertEqual((prefix / "share" / file).read_text(), output_of(BINARY, "completion", shell))
        self.assertIn("join", (prefix / "share/man/man1/thinwire.1").read_text())

    def test_reads_what_runs_have_left(self):
        folder = self.folder / "records"
        for name, method in (("a", "distro"), ("b", "allreduce")):
            output_of(BINARY, "train", self.recipe, f"run.dir={folder}/{name}", f"sync.method={method}", "log.every=1")
        text = self.folder / "text.txt"
        said = output_of(self.build("records"), text, folder / "a", folder / "b", folder)
        self.assertRegex(said, rf"(?m)^left out: {folder}\b")
        scores = json.loads(output_of(BINARY, "eval", folder / "b", "perplexity", "--text", text, "--json"))
        bits = scores["tasks"]["perplexity"]["bits_per_byte"]
        self.assertRegex(said, rf"(?s){folder}/b: allreduce, loss [\d.]+ -> [\d.]+ in 20 recorded steps\n"
                               rf"  checkpoint after step 20, undamaged\n.*  bits_per_byte {bits:.4f}\n")

    def test_the_public_headers_are_whole(self):
        """Each compiles alone, against nothing but what is installed."""
        headers = sorted(path.name for path in (self.prefix / "include/thinwire").glob("*.h"))
        self.assertEqual(headers, sorted(path.name for path in (SOURCE / "include/thinwire").glob("*.h")))
        for header in headers:
            output_of("c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-I", self.prefix / "include", "-x", "c++",
                      "-include", f"thinwire/{header}", "/dev/null")

    def test_plans_without_tensors(self):
        program = self.build("plan")
        said = output_of(program, self.recipe)
        plan = json.loads(output_of(BINARY, "plan", self.recipe, "--members", 4, "--flops", "200G", "--up", "10M",
                                    "--down", "100M", "--json"))
        best = plan["recommended"]
        self.assertIn(f"recommended: sync.method={best['method']} {best['setting']}\n", said)
        libraries = output_of("ldd", program)
        for library in ("sentencepiece", "nats", "libssl", "icu"):
            self.assertNotIn(library, libraries)


if __name__ == "__main__":
    unittest.main()
