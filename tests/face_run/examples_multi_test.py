"""The examples, built outside of the tree against nothing but an installed Thinwire: they train as `thinwire
train` does, plan as `thinwire plan` does, and print only what they print themselves."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BINARY = Path(os.environ["THINWIRE_BINARY"])
SOURCE = Path(os.environ["THINWIRE_SOURCE_DIR"])
BUILD = BINARY.parents[1]


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
