"""Fine-tuning a language model of transformers on several machines, each with a text of its own that never leaves it.

    python train.py MODEL serve [TABLE.FIELD=VALUE …]    serves the run, which begins with the model's weights
    python train.py MODEL ADDRESS FOLDER TEXT            a member, whose token THINWIRE_TOKEN in the environment is

MODEL is a folder or a name that transformers' from_pretrained takes, the same for all. Members train by AdamW for 10 steps
between exchanges (DiLoCo), and exchange what became of the weights in one bit each. The member's FOLDER has the
tuned model in FOLDER/model at the end, the same bits for all members.
"""

import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

import thinwire.torch
import thinwire.transformers

CONTEXT = 128
FIELDS = {"run.name": "finetuning", "train.workers": 2, "train.steps": 200, "train.batch": 16, "optim.method": "own",
          "sync.method": "diloco", "diloco.sync_every": 10, "diloco.wire": "int1", "diloco.error_feedback": True}


def serve(model: torch.nn.Module, changes: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recipe = thinwire.torch.recipe(model, {**FIELDS, **changes}, weights=Path(folder) / "weights.safetensors")
        with thinwire.serve(recipe) as server:
            print(f"members join with: THINWIRE_TOKEN={server.token} python train.py {sys.argv[1]} {server.address} FOLDER TEXT",
                  flush=True)
            server.wait()


def member(model: Any, tokenizer: Any, address: str, folder: str, text: str) -> None:
    tokens = tokenizer(Path(text).read_text(encoding="utf-8"))["input_ids"]
    cut = [tokens[at:at + CONTEXT] for at in range(0, len(tokens) - CONTEXT + 1, CONTEXT)]
    if not cut:
        sys.exit(f"{text} must have at least {CONTEXT} tokens, which one row takes, got {len(tokens)}")
    rows = [{"input_ids": row, "labels": row} for row in cut]
    run = thinwire.torch.join(model, address, os.environ["THINWIRE_TOKEN"], folder)
    optimizer = thinwire.torch.DiLoCo(model, inner=torch.optim.AdamW(model.parameters(), lr=1e-3), run=run)
    train = run.recipe["train"]
    arguments = TrainingArguments(
        str(Path(folder) / "trainer"), max_steps=train["steps"], report_to=[], save_strategy="no", logging_steps=10,
        per_device_train_batch_size=train["batch"] // train["workers"], seed=random.randrange(2**31), use_cpu=True)
    Trainer(model, arguments, train_dataset=rows, optimizers=(optimizer, None),
            callbacks=[thinwire.transformers.Callback(optimizer)]).train()
    if run.result and run.result.finished:
        model.save_pretrained(Path(folder) / "model")
        print(f"finished after step {run.result.steps}; weights {run.result.digest}")


def main() -> None:
    words = sys.argv[1:]
    serves = words[1:2] == ["serve"] and all("=" in word for word in words[2:])
    if not serves and len(words) != 4:
        sys.exit(__doc__)
    model = AutoModelForCausalLM.from_pretrained(words[0])
    if serves:
        serve(model, dict(word.split("=", 1) for word in words[2:]))
    else:
        member(model, AutoTokenizer.from_pretrained(words[0]), *words[1:])


if __name__ == "__main__":
    main()
