"""Hugging Face's Trainer with optimizers that communicate: it trains, stops with the run, and its model is its own."""

import unittest

from python_case import PythonCase

from optional_packages import OptionalPackages

import thinwire

PACKAGES = OptionalPackages()
with PACKAGES:
    import peft
    import torch
    import transformers

    import thinwire.torch
    import thinwire.transformers


class Counting:
    """Sequences in which each token is the last one plus 3."""

    def __len__(self):
        return 64

    def __getitem__(self, row):
        tokens = (row + 3 * torch.arange(8)) % 16
        return {"input_ids": tokens, "labels": tokens}


@PACKAGES.needed
class WithTrainer(PythonCase):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)
        transformers.set_seed(1)
        self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=16, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=16, tie_word_embeddings=True))

    def train(self, optimizer, scheduler=None, steps=20, **more):
        arguments = transformers.TrainingArguments(
            str(self.folder / "trainer"), max_steps=steps, per_device_train_batch_size=8, logging_steps=1, report_to=[],
            use_cpu=True, save_strategy="no", disable_tqdm=True, learning_rate=0.02, **more)
        trainer = transformers.Trainer(self.model, arguments, train_dataset=Counting(), optimizers=(optimizer, scheduler),
                                       callbacks=[thinwire.transformers.Callback(optimizer)])
        trainer.train()
        return [entry for entry in trainer.state.log_history if "loss" in entry]

    def test_alone_it_learns_with_the_trainers_schedule(self):
        for kind in ("DisTrO", "AllReduce"):
            with self.subTest(kind):
                self.setUp()
                log = self.train(getattr(thinwire.torch, kind)(self.model, lr=0.02), gradient_accumulation_steps=2)
                self.assertEqual(len(log), 20)
                self.assertLess(log[-1]["loss"], log[0]["loss"] - 0.5)
                self.assertLess(log[-1]["learning_rate"], log[0]["learning_rate"])
                torch.nn.init.zeros_(self.model.model.norm.weight)  # it is the module's own again

    def test_around_an_optimizer_of_torch(self):
        inner = torch.optim.AdamW(self.model.parameters(), lr=0.02)
        log = self.train(thinwire.torch.DiLoCo(self.model, inner=inner, sync_every=4))
        self.assertLess(log[-1]["loss"], log[0]["loss"] / 2)

    def test_of_a_model_of_peft_it_trains_the_factors(self):
        frozen = self.model.model.norm.weight.detach().clone()
        self.model = peft.get_peft_model(self.model, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
        lines = thinwire.torch.tensors(self.model)
        self.assertEqual(len(lines), 4)
        log = self.train(thinwire.torch.DisTrO(self.model, lr=0.05))
        self.assertLess(log[-1]["loss"], log[0]["loss"] - 0.01)
        self.assertTrue(torch.equal(self.model.base_model.model.model.norm.weight, frozen))

    def test_it_stops_with_the_run_and_takes_its_schedule(self):
        recipe = thinwire.torch.recipe(self.model, self.recipe("run", sync__method="distro", train__steps=8))
        run = thinwire.torch.local(self.model, recipe, quiet=True)
        optimizer = thinwire.torch.DisTrO(self.model, run=run)
        log = self.train(optimizer, thinwire.transformers.Schedule(optimizer))
        self.assertEqual(len(log), 8)
        self.assertTrue(run.result.finished)
        saved = thinwire.load(run.result.folder)
        for name, parameter in self.model.named_parameters():
            self.assertTrue(torch.equal(parameter.detach(), torch.from_numpy(saved[name])), name)


if __name__ == "__main__":
    unittest.main()
