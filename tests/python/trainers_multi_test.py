"""Optimizers that communicate in the loops of other packages: TRL's trainer for fine-tuning, and accelerate."""

import os
import unittest

from python_case import PythonCase

from optional_packages import OptionalPackages

import thinwire

os.environ["HF_HUB_OFFLINE"] = "1"

PACKAGES = OptionalPackages()
with PACKAGES:
    import accelerate
    import datasets
    import tokenizers
    import torch
    import transformers
    import trl
    from torch_model import batch_of, small_model

    import thinwire.torch
    import thinwire.transformers

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def tokenizer():
    """A word for each letter."""
    words = {word: number for number, word in enumerate(["<pad>", "<end>", *LETTERS])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<pad>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, pad_token="<pad>", eos_token="<end>")


def examples():
    """Three letters, and the four that follow them."""
    places = [(7 * number % 19) for number in range(64)]
    return datasets.Dataset.from_dict({"prompt": [" ".join(LETTERS[at:at + 3]) + " " for at in places],
                                       "completion": [" ".join(LETTERS[at + 3:at + 7]) for at in places]})


@PACKAGES.needed
class OtherLoops(PythonCase):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)
        transformers.set_seed(1)

    def test_trl_fine_tunes_by_a_run(self):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=28, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=32))
        recipe = thinwire.torch.recipe(model, self.recipe("run", sync__method="distro", train__steps=12))
        run = thinwire.torch.local(model, recipe, quiet=True)
        optimizer = thinwire.torch.DisTrO(model, run=run)
        arguments = trl.SFTConfig(str(self.folder / "trl"), max_steps=20, per_device_train_batch_size=8, logging_steps=1,
                                  report_to=[], use_cpu=True, bf16=False, save_strategy="no", disable_tqdm=True)
        trainer = trl.SFTTrainer(model, arguments, train_dataset=examples(), processing_class=tokenizer(),
                                 optimizers=(optimizer, thinwire.transformers.Schedule(optimizer)),
                                 callbacks=[thinwire.transformers.Callback(optimizer)])
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        self.assertEqual(len(losses), 12, "it ends with the run")
        self.assertLess(losses[-1], losses[0] - 0.3)
        self.assertTrue(run.result.finished)
        torch.nn.init.zeros_(model.model.norm.weight)  # it is the model's own again

    def test_accelerate_accumulates_clips_and_schedules(self):
        model = small_model()
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(384)), batch_size=8)
        with thinwire.torch.DisTrO(model, lr=0.02) as optimizer:
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 16, gamma=0.5)
            prepared = accelerator.prepare(model, optimizer, loader, schedule)
            losses = self.train(accelerator, *prepared)
            self.assertEqual(optimizer.completed, 24)
            self.assertEqual(optimizer.param_groups[0]["lr"], 0.01)
        self.assertLess(losses[-1], losses[0] / 2)

    def train(self, accelerator, model, optimizer, loader, schedule):
        losses = []
        for (rows,) in loader:
            with accelerator.accumulate(model):
                tokens, targets = batch_of(rows)
                loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(float(loss.detach()))
        return losses


if __name__ == "__main__":
    unittest.main()
