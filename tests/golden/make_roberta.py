"""Golden loss, gradients and class logits of a tiny RoBERTa with a classification head, for rows of labelled
records: writes roberta.safetensors beside itself.

    python tests/golden/make_roberta.py

Source: Liu et al., "RoBERTa" (arXiv 1907.11692), on Devlin et al., "BERT" (arXiv 1810.04805), as Hugging Face's
RobertaForSequenceClassification builds it, without dropout:

    x = LN(word[token] + position[i + 2] + type[0])                         i: place in the text, from 0
    x = LN(x + Wo attention(Wq x, Wk x, Wv x)), x = LN(x + Wdown gelu(Wup x)), with biases
    attention: every token of the text sees all of it, scale 1/sqrt(head_dim)
    gelu(x) = x (1 + erf(x / sqrt 2)) / 2
    logits = Wout tanh(Wdense x_0), with biases                             x_0: of the text's first token
    loss = -log softmax(logits)[class]

A record is <s> A </s> or <s> A </s></s> B </s>, then the number of its class as a token. Records lie one after the
other in a row, and 0 pads it. The prediction after a record's last </s> has weight 1, all others 0; a document begins
with each record, with its class, and with the padding.

The reference computes each record by itself, so it says nothing about rows but where the records lie. Weights are
float32; everything else is computed in float64 by the forward pass below and PyTorch's autograd. The script asserts
that transformers in float64, with all records in one padded batch, agrees to 1e-9 of each tensor's largest value, and
in float32 to 1e-4: logits, loss, gradients, and the losses of STEPS steps of gradient descent (w -= RATE * gradient of
the mean loss).

Keys (float32 unless said): weights by name; grad.<name> of the sum of the records' losses; tokens int32 [rows, T + 1];
weights [rows, T]; begins int32 [rows, T]; logits [records, classes] in the order of the rows; losses [STEPS]: the mean
over records before each step. Metadata: config (config.json), loss (the sum, all digits), rate.
"""

import json
import math
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np
import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

from golden_file import write_golden

HERE = Path(__file__).resolve().parent
BEGIN, PAD, END, FIRST_WORD, FIRST_POSITION = 0, 1, 2, 4, 2
WIDTH, STEPS, RATE = 20, 5, 0.1
CONFIG = dict(model_type="roberta", architectures=["RobertaForSequenceClassification"], vocab_size=61, hidden_size=16,
              num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, hidden_act="gelu",
              hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=None,
              max_position_embeddings=30 + FIRST_POSITION, type_vocab_size=2, layer_norm_eps=1e-5,
              initializer_range=0.02, pad_token_id=PAD, bos_token_id=BEGIN, eos_token_id=END,
              id2label={"0": "yes", "1": "maybe", "2": "no"}, label2id={"yes": 0, "maybe": 1, "no": 2})
# For each text of a row: words of the text, words of the second text, class. The first row is full, the others are padded.
ROWS = [[(4, None, 1), (5, 3, 2)], [(2, None, 0), (1, 1, 2)], [(6, 2, 1)]]


def make_rows(rng):
    """Returns tokens, weights, begins, and the records as (tokens without the class, class)."""
    tokens, weights, begins, records = [], [], [], []
    for row in ROWS:
        line, counts, starts = [], [0.0] * WIDTH, [0] * WIDTH
        for first, second, label in row:
            texts = [rng.integers(FIRST_WORD, CONFIG["vocab_size"], n).tolist() for n in (first, second) if n is not None]
            record = [BEGIN, *texts[0], END] + [t for text in texts[1:] for t in (END, *text, END)]
            starts[len(line)] = 1
            line += record
            counts[len(line) - 1] = 1.0
            starts[len(line)] = 1
            line.append(label)
            records.append((record, label))
        if len(line) < WIDTH:
            starts[len(line)] = 1
        tokens.append(line + [0] * (WIDTH - len(line)))
        weights.append(counts[:-1])
        begins.append(starts[:-1])
    return np.array(tokens, np.int32), np.array(weights, np.float32), np.array(begins, np.int32), records


def make_weights(model, rng):
    return {name: (float(name.endswith("LayerNorm.weight")) + 0.2 * rng.standard_normal(tuple(p.shape))).astype(np.float32)
            for name, p in model.named_parameters()}


# Shape suffixes: T tokens of one text, C hidden, H heads, D head_dim.

def linear(x, w, module):
    return x @ w[module + ".weight"].T + w[module + ".bias"]


def layer_norm(x, w, module):
    centred = x - x.mean(-1, keepdim=True)
    rstd = (centred.square().mean(-1, keepdim=True) + CONFIG["layer_norm_eps"]).rsqrt()
    return centred * rstd * w[module + ".weight"] + w[module + ".bias"]


def attention(x_TC, w, block):
    T, C = x_TC.shape
    heads = CONFIG["num_attention_heads"]
    q, k, v = (linear(x_TC, w, f"{block}attention.self.{name}").view(T, heads, C // heads).transpose(0, 1)
               for name in ("query", "key", "value"))
    seen = (q @ k.transpose(-1, -2) / math.sqrt(C // heads)).softmax(-1)
    return linear((seen @ v).transpose(0, 1).reshape(T, C), w, block + "attention.output.dense")


def gelu(x):
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def forward(w, record):
    """The tokens of one text -> its class logits."""
    e = "roberta.embeddings."
    places = torch.arange(len(record)) + FIRST_POSITION
    x = (w[e + "word_embeddings.weight"][torch.tensor(record)] + w[e + "position_embeddings.weight"][places]
         + w[e + "token_type_embeddings.weight"][0])
    x = layer_norm(x, w, e + "LayerNorm")
    for layer in range(CONFIG["num_hidden_layers"]):
        block = f"roberta.encoder.layer.{layer}."
        x = layer_norm(x + attention(x, w, block), w, block + "attention.output.LayerNorm")
        inner = gelu(linear(x, w, block + "intermediate.dense"))
        x = layer_norm(x + linear(inner, w, block + "output.dense"), w, block + "output.LayerNorm")
    return linear(linear(x[0], w, "classifier.dense").tanh(), w, "classifier.out_proj")


def reference(weights, records):
    """Returns (losses, {name: gradient}, logits), in float64; gradients of the sum, and logits, at the given weights."""
    w = {n: torch.from_numpy(x).double().requires_grad_() for n, x in weights.items()}
    losses, first = [], None
    for _ in range(STEPS):
        logits = torch.stack([forward(w, record) for record, _ in records])
        loss = -sum(row.log_softmax(-1)[label] for row, (_, label) in zip(logits, records))
        grads = dict(zip(w, torch.autograd.grad(loss, list(w.values()))))
        losses.append(loss.item() / len(records))
        first = first or ({n: g.numpy() for n, g in grads.items()}, logits.detach().numpy(), loss.item())
        w = {n: (x - RATE * grads[n] / len(records)).detach().requires_grad_() for n, x in w.items()}
    return losses, *first


def by_transformers(model, weights, records, dtype):
    """The same by transformers."""
    model.load_state_dict({n: torch.from_numpy(x) for n, x in weights.items()})
    model = model.to(dtype).eval()
    longest = max(len(record) for record, _ in records)
    tokens = torch.tensor([record + [PAD] * (longest - len(record)) for record, _ in records])
    labels = torch.tensor([label for _, label in records])
    losses, first = [], None
    for _ in range(STEPS):
        model.zero_grad()
        out = model(input_ids=tokens, attention_mask=(tokens != PAD).long(), labels=labels)
        out.loss.backward()
        losses.append(out.loss.item())
        grads = {n: p.grad.numpy() * len(records) for n, p in model.named_parameters()}
        first = first or (grads, out.logits.detach().numpy().copy(), out.loss.item() * len(records))
        with torch.no_grad():
            for p in model.parameters():
                p -= RATE * p.grad
    return losses, *first


def difference(ours, theirs):
    """The largest, relative to each tensor's largest entry."""
    (losses, grads, logits, loss), (t_losses, t_grads, t_logits, t_loss) = ours, theirs
    assert grads.keys() == t_grads.keys()

    def error(a, b):
        return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-3))

    worst = max(error(t_grads[n], grads[n]) for n in grads)
    return max(worst, error(t_logits, logits), error(np.array(t_losses), np.array(losses)), abs(t_loss - loss) / loss)


if __name__ == "__main__":
    rng = np.random.default_rng(200)
    model = RobertaForSequenceClassification._from_config(RobertaConfig(**CONFIG), attn_implementation="eager")
    weights = make_weights(model, rng)
    tokens, marks, begins, records = make_rows(rng)
    ours = reference(weights, records)
    errors = []
    for dtype, bound in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
        errors.append(difference(ours, by_transformers(model, weights, records, dtype)))
        assert errors[-1] < bound, (dtype, errors[-1])
    losses, grads, logits, loss = ours
    # The key's bias moves all scores of a query alike: its gradient is 0. Only these rows of tables are read.
    still = [n for n, g in grads.items() if np.abs(g).max() < 1e-10]
    assert still == [f"roberta.encoder.layer.{i}.attention.self.key.bias" for i in range(CONFIG["num_hidden_layers"])]
    longest = max(len(record) for record, _ in records)
    read = np.abs(grads["roberta.embeddings.position_embeddings.weight"]).max(1) > 0
    assert read.nonzero()[0].tolist() == list(range(FIRST_POSITION, FIRST_POSITION + longest))
    out = weights | {"grad." + n: g.astype(np.float32) for n, g in grads.items()}
    out |= {"tokens": tokens, "weights": marks, "begins": begins, "logits": logits.astype(np.float32),
            "losses": np.array(losses, np.float32)}
    write_golden(HERE / "roberta.safetensors", out, {"config": json.dumps(CONFIG), "loss": repr(loss), "rate": repr(RATE),
                                                     "made_by": "make_roberta.py"})
    print(f"losses {losses[0]:.4f} .. {losses[-1]:.4f}  largest relative difference to transformers in float32 "
          f"{errors[0]:.1e}, in float64 {errors[1]:.1e}")
