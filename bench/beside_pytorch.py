"""The steps of bench/memory in plain PyTorch: which of them there are, what memory they should take by arithmetic, and
what they take."""

import json
import pathlib
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv/bin/python"

PLAIN = {"optimizer": "adamw", "update": "step", "recompute": False, "precision": "fp32", "weights": "fp32",
         "adapter": "none"}
LAYER = {"update": "layer", "recompute": True}
# By case of bench/memory: what the step in PyTorch has; "recompute" recomputes the head's logits, too, a chunk at a
# time. PyTorch has neither projected gradients nor state in 8 bits: beside them stand whole gradients, and state in
# bf16 as the weights are (rounded to nearest).
CASES = {
    "adamw": {},
    "adamw-layer": {"update": "layer"},
    "adamw-bf16": {"precision": "bf16"},
    "galore": {"optimizer": "galore"},
    "galore-projected": {"optimizer": "galore"},
    "galore-projected-layer": {"optimizer": "galore", **LAYER},
    "galore-thin": {"optimizer": "galore", **LAYER, "weights": "bf16"},
    "lora": {"adapter": "lora", "rank": 16},
    "lora-thin": {"adapter": "lora", "rank": 16, "recompute": True, "weights": "bf16"},
}
CHUNK = 256  # tokens whose logits exist at the same time, where blocks are recomputed
IMPORTED = 0.25e9  # bytes of a process that has imported PyTorch, about


def job_of(case, recipe, **sizes):
    """The job of a case with the model of a recipe's file; sizes: rank, rows, sequence, threads, steps. None where the
    case has no step in PyTorch."""
    if case not in CASES:
        return None
    fields = tomllib.loads(recipe.read_text())
    shape = {name: fields["model"][name] for name in ("vocab", "hidden", "layers", "heads")}
    shape |= {name: fields["llama"][name] for name in ("intermediate", "norm_eps")}
    return {"shape": shape, "lr": fields["optim"]["lr"], "chunk": CHUNK, **sizes, **PLAIN, **CASES[case]}


def values_of(shape):
    """Numbers of values: of the embedding or the head, of all matrices of the blocks, of the norms."""
    width, inner, layers = shape["hidden"], shape["intermediate"], shape["layers"]
    return shape["vocab"] * width, layers * (4 * width**2 + 3 * width * inner), (2 * layers + 1) * width


def state_values(job):
    """Values that the optimizer keeps: two moments, with GaLore of a matrix's projection, and its basis."""
    shape, rank = job["shape"], job["rank"]
    width, inner = shape["hidden"], shape["intermediate"]
    head, matrices, norms = values_of(shape)
    if job["adapter"] == "lora":
        return 2 * factor_values(job)
    if job["optimizer"] == "galore":
        matrices = shape["layers"] * rank * (4 * 3 * width + 3 * (2 * inner + width)) / 2
    return 2 * (2 * head + matrices + norms)


def factor_values(job):
    width, inner = job["shape"]["hidden"], job["shape"]["intermediate"]
    return job["shape"]["layers"] * job["rank"] * (4 * 2 * width + 3 * (width + inner))


def needed_bytes(job):
    """About what each part of a step takes at its largest, by name."""
    shape, tokens = job["shape"], job["rows"] * job["sequence"]
    value = 2 if job["weights"] == "bf16" else 4
    trained_value = 4 if job["adapter"] == "lora" else value
    head, matrices, norms = values_of(shape)
    weights = 2 * head + matrices + norms
    trained = factor_values(job) if job["adapter"] == "lora" else weights
    # What a block holds, in widths and inner widths: both norms with what they compute on the way, queries, keys and values
    # before and after they are rotated, attention, the residuals; gate, up, their activation and product.
    block = tokens * (16 * shape["hidden"] + 4 * shape["intermediate"]) * value
    inputs = shape["layers"] * tokens * shape["hidden"] * value
    return {
        "import": IMPORTED,
        "weights": weights * value + (2 * weights if job["precision"] == "bf16" else 0),
        "state": state_values(job) * trained_value,
        "gradients": (head if job["update"] == "layer" else trained) * trained_value,
        "activations": inputs + block if job["recompute"] else shape["layers"] * block,
        # In fp32 the logarithms of probabilities, their gradient, and the gradient of the logits.
        "logits": 3 * 4 * (job["chunk"] if job["recompute"] else tokens) * shape["vocab"],
    }


def total(parts):
    """Activations and logits are gone before all gradients are there."""
    lasting = parts["import"] + parts["weights"] + parts["state"]
    return lasting + max(parts["gradients"], parts["activations"] + parts["logits"])


def run(job):
    """What pytorch_memory.py prints, or None if it failed; its message is on stderr."""
    done = subprocess.run([PYTHON, pathlib.Path(__file__).parent / "pytorch_memory.py", json.dumps(job)],
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None
