"""A Llama of transformers in a run whose other members are Thinwire's own: its losses are theirs to rounding, and all
members end with equal weights."""

import shutil
import threading
import unittest

from python_case import METHODS, PATIENCE, PythonCase

from optional_packages import OptionalPackages

import thinwire

STEPS = 50
SHAPE = {"model.layers": 2, "model.hidden": 32, "model.heads": 4, "llama.intermediate": 64}

PACKAGES = OptionalPackages()
with PACKAGES:
    import torch
    import transformers

    import thinwire.torch


def llama(vocabulary, **more):
    torch.set_num_threads(1)
    sizes = {"vocab_size": vocabulary, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**sizes, **more}))


def loss_of(model, step):
    logits = model(step.tokens[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), step.tokens[:, 1:].flatten())


@PACKAGES.needed
@unittest.skipUnless(shutil.which("nats-server"), "there is no nats-server here")
class TorchNative(PythonCase):
    def setUp(self):
        super().setUp()
        text = self.folder / "text.txt"
        text.write_text("".join(f"wire {i} is as thin as wire {i * 7 % 101}\n" for i in range(3000)))
        self.fields = {"data.text": [str(text)], "data.dir": str(self.folder / "data"), "data.vocabulary": "byte",
                       "data.document": "line", "data.validation_fraction": 0.05, "train.sequence": 32, "llama.norm_eps": 1e-5,
                       "llama.rope_theta": 10000, **SHAPE, **self.recipe("run", train__steps=STEPS, optim__lr=3e-3)}
        thinwire.prepare(self.fields, quiet=True)
        self.vocabulary = 258

    def join(self, server, name, losses):
        """Takes part with a Llama of transformers; the digest of the weights at the end."""
        model = llama(self.vocabulary)
        with thinwire.torch.join(model, server.address, server.token, self.folder / name, {"train.threads": 1},
                                 quiet=True) as run:
            for step in run:
                loss = loss_of(model, step)
                loss.backward()
                run.step(loss)
                losses.append(float(loss.detach()))
        return run.result.digest

    def serve(self, name, **more):
        return thinwire.serve({**self.fields, "run.name": name, "run.dir": str(self.folder / f"serve-{name}"), **{
            key.replace("__", "."): value for key, value in more.items()}})

    def test_losses_are_the_native_ones_with_every_method(self):
        for method, options in METHODS.items():
            with self.subTest(method):
                fields = {**self.fields, "sync.method": method, **options, "run.dir": str(self.folder / method)}
                thinwire.train(fields, quiet=True)
                native = [event["loss"] for event in thinwire.read_events(self.folder / method)
                          if event["event"] == "step"]
                losses = []
                with self.serve(method, sync__method=method, train__workers=1, **{
                        key.replace(".", "__"): value for key, value in options.items()}) as server:
                    self.join(server, f"{method}-torch", losses)
                self.assertEqual(len(losses), STEPS)
                self.assertLess(losses[-1], losses[0] - 1)
                for ours, theirs in zip(losses, native):
                    self.assertAlmostEqual(ours, theirs, delta=1e-4)

    def test_members_of_both_kinds_end_with_equal_weights(self):
        for method in ("allreduce", "distro", "diloco"):
            with self.subTest(method):
                native = []
                with self.serve(method, sync__method=method, train__workers=2, diloco__sync_every=5,
                                sync__timeout_s=60) as server:
                    member = threading.Thread(target=lambda: native.append(thinwire.join(
                        server.address, server.token, self.folder / f"{method}-native", {"train.threads": 1},
                        quiet=True)))
                    member.start()
                    digest = self.join(server, f"{method}-torch", [])
                    member.join(PATIENCE)
                    server.wait()
                self.assertEqual([one.digest for one in native], [digest])

    def test_a_model_that_differs_is_refused_by_the_first_tensor_that_does(self):
        with self.serve("refused", train__workers=1) as server:
            for model, said in ((llama(self.vocabulary, intermediate_size=96),
                                 "model.layers.0.mlp.gate_proj.weight is 64x32 in the run and 96x32 in the model"),
                                (llama(self.vocabulary, num_hidden_layers=3),
                                 "model.layers.2.* is missing in the run"),
                                (llama(self.vocabulary, tie_word_embeddings=True),
                                 "lm_head.weight is 258x32 in the run and missing in the model")):
                with self.subTest(said), self.assertRaisesRegex(thinwire.Error, said):
                    with thinwire.torch.join(model, server.address, server.token, self.folder / "other",
                                             quiet=True) as run:
                        next(run)

    def test_what_such_a_model_cannot_do_is_refused(self):
        model = llama(self.vocabulary)
        for fields, said in (({"train.separate_documents": True}, r"\[train\] separate_documents must be false for a model"),
                             ({"eval.every": 5, "eval.patience": 2}, r"\[eval\] patience must be 0"),
                             ({"data.dir": str(self.folder / "nothing")}, "nothing")):
            with self.subTest(said), self.assertRaisesRegex(thinwire.Error, said):
                with thinwire.torch.local(model, self.fields, fields, quiet=True):
                    self.fail("it was begun")


if __name__ == "__main__":
    unittest.main()
