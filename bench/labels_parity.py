#!/usr/bin/env python3
"""Classifying texts: `thinwire train` against a training loop around transformers, from the same random weights, on the same
texts, with the same rates, several seeds each.

    .venv/bin/python bench/labels_parity.py --texts data/text/gcide.txt data/text/kjv.txt

The task is made of two plain texts: a snippet of six to ten words is of the first (class 0), of the second (1), or of the
second with its words in random order (2). Prints accuracy and loss on held-out snippets for each seed, which decides the
order of the texts, and the time of both. Needs torch and transformers, and build/release/bin/thinwire or --thinwire.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers

SOURCE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "convert"))
from roberta_case import make_tokenizer, save  # noqa: E402

BATCH, RATE, WARMUP, FINAL, DECAY = 32, 1e-3, 50, 0.1, 0.01
SHAPE = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
             max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5, initializer_range=0.02, pad_token_id=1,
             bos_token_id=0, eos_token_id=2, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def snippets(args, count):
    chosen = random.Random(0)
    words = [path.read_text(errors="replace").split() for path in args.texts]
    made = []
    for _ in range(count):
        label = chosen.randrange(3)
        source = words[min(label, 1)]
        begin = chosen.randrange(len(source) - 10)
        text = source[begin : begin + chosen.randint(6, 10)]
        if label == 2:
            chosen.shuffle(text)
        made.append({"text": " ".join(text), "label": label})
    return made


def rate_at(step, steps):
    """Linear warm-up, then a cosine down to FINAL."""
    if step < WARMUP:
        return RATE * (step + 1) / WARMUP
    done = (step - WARMUP) / (steps - WARMUP)
    return RATE * (FINAL + (1 - FINAL) * 0.5 * (1 + torch.cos(torch.tensor(done * torch.pi)).item()))


def encode(tokenizer, texts):
    return tokenizer([text["text"] for text in texts], padding="max_length", truncation=True, max_length=48,
                     return_tensors="pt", return_token_type_ids=False) | {
                         "labels": torch.tensor([text["label"] for text in texts])}


def run_torch(args, root, tokenizer, train, held_out, seed):
    torch.set_num_threads(args.threads)
    model = transformers.RobertaForSequenceClassification.from_pretrained(root / "hf").train()
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8)
    batches = {key: value for key, value in encode(tokenizer, train).items()}
    order, chosen = [], random.Random(seed)
    begin = time.monotonic()
    for step in range(args.steps):
        if len(order) < BATCH:
            order += chosen.sample(range(len(train)), len(train))
        rows, order = order[:BATCH], order[BATCH:]
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, args.steps)
        optimizer.zero_grad()
        model(**{key: value[rows] for key, value in batches.items()}).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds = time.monotonic() - begin
    with torch.no_grad():
        model.eval()
        batch = encode(tokenizer, held_out)
        result = model(**batch)
    accuracy = (result.logits.argmax(1) == batch["labels"]).float().mean().item()
    return accuracy, result.loss.item(), seconds


def run_thinwire(args, root, seed):
    recipe = root / "recipe.toml"
    recipe.write_text(f"""
[data]
dir = "{root}/data"
text = ["{root}/train.jsonl"]
validation_text = ["dev={root}/dev.jsonl"]
validation_fraction = 0
records = "labels"
vocabulary_model = "{root}/hf/tokenizer.json"
[train]
init = "{root}/hf"
steps = {args.steps}
batch = {BATCH}
sequence = 47
long_records = "truncate"
threads = {args.threads}
device = "cpu"
precision = "fp32"
[optim]
lr = {RATE}
weight_decay = {DECAY}
[adamw]
beta2 = 0.999
[schedule]
warmup = {WARMUP}
final_ratio = {FINAL}
[sync]
method = "allreduce"
""")
    subprocess.run([args.thinwire, "prepare", recipe], check=True, capture_output=True)
    run = root / f"run-{seed}"
    begin = time.monotonic()
    subprocess.run([args.thinwire, "train", recipe, f"run.dir={run}", f"run.seed={seed}"], check=True, capture_output=True)
    seconds = time.monotonic() - begin
    summary = json.loads((run / "summary.json").read_text())
    return summary["scores"]["dev.acc"], summary["val_loss"]["dev"], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", nargs=2, type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--train", type=int, default=8000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--thinwire", default=str(SOURCE / "build" / "release" / "bin" / "thinwire"))
    args = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        texts = snippets(args, args.train + 2000)
        train, held_out = texts[: args.train], texts[args.train :]
        tokenizer = make_tokenizer([text["text"] for text in train], 2048)
        torch.manual_seed(0)
        save(transformers.RobertaForSequenceClassification(
            transformers.RobertaConfig(vocab_size=len(tokenizer), **SHAPE)), tokenizer, root / "hf")
        for name, part in (("train", train), ("dev", held_out)):
            (root / f"{name}.jsonl").write_text("".join(json.dumps(text) + "\n" for text in part))
        results = {"thinwire": [], "transformers": []}
        print(f"{'seed':>4} {'program':<13} {'accuracy':>8} {'loss':>7} {'seconds':>8}")
        for seed in range(1, args.seeds + 1):
            results["thinwire"].append(run_thinwire(args, root, seed))
            results["transformers"].append(run_torch(args, root, tokenizer, train, held_out, seed))
            for name, runs in results.items():
                print(f"{seed:>4} {name:<13} {runs[-1][0]:8.4f} {runs[-1][1]:7.4f} {runs[-1][2]:8.1f}", flush=True)
    for name, runs in results.items():
        accuracy, loss, seconds = ([run[i] for run in runs] for i in range(3))
        spread = (lambda values: statistics.stdev(values) if len(values) > 1 else 0.0)
        print(f"mean {name:<13} {statistics.mean(accuracy):8.4f} ± {spread(accuracy):.4f}, loss "
              f"{statistics.mean(loss):.4f} ± {spread(loss):.4f}, {statistics.mean(seconds):.1f} s")


if __name__ == "__main__":
    main()
