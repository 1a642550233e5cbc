"""Golden traces of DisTrO / DeMo: writes distro_<variant>.safetensors beside itself.

    python tests/golden/make_distro.py                 all variants, or those named after it; with self-checks
    python tests/golden/make_distro.py --find-seeds    search SEEDS again (minutes), or only for the variants named after it

The method and every definition: distro_reference.py. Sources: the DisTrO report (2024) and
DeMo, arXiv 2411.19870.

Gradients and initial weights are not stored: they come from the hash of inputs.py (with pull 0 in most variants).

File contents (N = tensor name; float32 unless said):
    lr                    [steps]             the learning rate of each step, to be used bit for bit
    norm                  [steps, workers]    gradient norm before clipping (variants clip and stateless_clip)
    param.N, grad.0.0.N                       initial weights, gradient of step 0 worker 0 (fp32 and chunk64
                                              only; a check of the hash. Other variants: own seed)
    after.S.N                                 weights after S steps, S = 5, 10, 15, 20
    delta.W.N                                 momentum of worker W after the last step (stateful clients)
    adam_m.N, adam_v.N                        AdamW state after the last step (variant adamw only)
    sent_idx.N            int32 [tiles, k]    slots worker 0 sends in round 0, ascending in each tile
    sent_coef.N           [tiles, k]          their coefficients before value coding
    sent_val.N            [tiles, k]          the values as received (scale*q, or bf16)
    sent_scale.N          [1]                 the scale (int8 and 1bit only)
Metadata: "options" (JSON; seed is a hex string), "margins" (JSON).

Margins: an implementation in float32 rounds differently, and a discrete choice near its threshold could
then fall the other way. The seeds were chosen so that no choice in a trace is near one. Stored, smallest
over the whole trace:
    topk    (|c_k| - |c_k+1|) / |c_k|  between the last slot sent and the first not sent of a tile
    sign    |x| / max|x of the tile|   over x = iDCT(chat) that is not exactly 0  (update sign and adamw)
    local   |g| / max|g of the tensor| where a local step takes the sign of g; |delta| likewise for a look-ahead
    code    distance of a value from where its code changes: int8: of c/scale from a half-integer;
            bf16: relative, from a rounding tie; 1bit: |c| / max|c of the tensor|
    scale   relative distance of the scale from a bf16 rounding tie
    float32_difference   largest |difference| of a weight, any step, when DCT and iDCT run wholly in float32
    exact_zeros          elements of iDCT(chat), all steps, that are exactly 0 (sign 0): see
                         "EXACTLY 0" in distro_reference.py
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np

from distro_reference import Options, Run, dct_basis, join, split, tile_shape
from golden_file import write_golden
from inputs import F32, bf16, hashed, learning_rates, splitmix64, tie_distance

HERE = Path(__file__).resolve().parent
WORKERS, PARAM_SCALE, EVERY = 3, 0.25, 5

# name, shape, grad_scale. With chunk 16 the tiles are:
TENSORS = [
    ("prime", (13,), 2.0**-2),      # 1 piece of 13: odd, so its middle element can be exactly 0
    ("vector", (64,), 2.0**-5),     # 4 pieces of 16
    ("loose", (37,), 1.0),          # a prime > chunk: 37 pieces of 1
    ("grid", (32, 24), 2.0**-3),    # 2 x 2 tiles of 16 x 12
    ("odd", (7, 45), 2.0**-6),      # 3 tiles of 7 x 15
    ("half", (10, 8), 2.0),         # 1 tile of 80: k = round(2.5) = 3
    ("row", (1, 5), 2.0**-4),       # 1 tile of 1 x 5
]
TENSORS_64 = [                      # with chunk 64:
    ("matrix", (64, 48), 2.0**-3),  # 1 tile
    ("wide", (7, 172), 2.0**-6),    # 172 = 4*43: 4 tiles of 7 x 43
    ("vector", (128,), 2.0**-5),    # 2 pieces of 64
    ("prime", (13,), 2.0**-2),
]

# variant: (options, steps, tensors, {round: missing workers})
VARIANTS = {
    "fp32": (Options(), 20, TENSORS, {}),
    # Parity with the published DeMo code: fixed k, no weight decay.
    "kfixed": (Options(k_rule="fixed", wd=0.0), 20, TENSORS, {}),
    "bf16": (Options(values="bf16"), 20, TENSORS, {}),
    "int8": (Options(values="int8"), 20, TENSORS, {}),
    "int8_feedback": (Options(values="int8", feedback=True), 20, TENSORS, {}),
    "1bit": (Options(values="1bit"), 20, TENSORS, {}),
    "1bit_feedback": (Options(values="1bit", feedback=True), 20, TENSORS, {}),
    "mean_of_all": (Options(aggregate="mean_of_all"), 20, TENSORS, {}),
    "sgd": (Options(update="sgd"), 20, TENSORS, {}),
    "adamw": (Options(update="adamw"), 20, TENSORS, {}),
    "muon": (Options(update="muon"), 20, TENSORS, {}),
    "muon_overlap": (Options(update="muon", overlap=1, muon_momentum=0.5, muon_scale=0.4), 20, TENSORS, {5: [1]}),
    "identity": (Options(transform="none"), 20, TENSORS, {}),
    "missing": (Options(), 20, TENSORS, {2: [1], 3: [1], 9: [1], 16: [1]}),
    "clip": (Options(clip=1.0), 20, TENSORS, {}),
    "chunk64": (Options(chunk=64, k=32), 20, TENSORS_64, {}),
    "overlap": (Options(overlap=1), 20, TENSORS, {2: [1], 3: [1], 9: [2], 19: [0]}),
    "overlap_adamw": (Options(overlap=1, update="adamw"), 20, TENSORS, {}),
    "look_ahead": (Options(overlap=1, look_ahead=True), 20, TENSORS, {}),
    "stateless": (Options(client="stateless"), 20, TENSORS, {}),
    "stateless_clip": (Options(client="stateless", local_steps=3, update="sgd", clip=1.0), 20, TENSORS, {1: [0]}),
    "stateless_sign": (Options(client="stateless", local_steps=4, local_update="sign", values="int8"), 20, TENSORS, {}),
    "stateless_adamw": (Options(client="stateless", local_steps=3, local_update="adamw", update="adamw"),
                        20, TENSORS, {}),
    "stateless_overlap": (Options(client="stateless", local_steps=3, local_update="adamw", overlap=1),
                          20, TENSORS, {4: [2]}),
    # The mean of the payloads as one of its own.
    "summed": (Options(values="1bit", sum_wire="int8", sum_k=12), 20, TENSORS, {3: [1], 9: [0, 2]}),
    "summed_all": (Options(values="int8", sum_wire="fp32", aggregate="mean_of_all", update="sgd"), 20, TENSORS, {}),
    "summed_overlap": (Options(values="int8", overlap=1, update="sgd", sum_wire="1bit", sum_k=10), 20, TENSORS, {5: [1]}),
    "summed_stateless": (Options(client="stateless", local_steps=3, sum_wire="bf16", sum_k=8, values="1bit"), 20,
                         TENSORS, {}),
    "norm_clipping": (Options(rule="norm_clipping", update="sgd"), 20, TENSORS, {}),
    "trimmed_mean": (Options(rule="trimmed_mean", k=96, update="sgd"), 20, TENSORS, {3: [1]}),
    "majority_vote": (Options(rule="majority_vote", k=96, aggregate="mean_of_all", update="sgd"), 20, TENSORS, {}),
}
# Variants whose gradients depend on the weights at which they are taken.
PULL = {name: 2.0**-3 for name in VARIANTS if name.startswith(("overlap", "look_ahead", "stateless", "muon_overlap", "summed_"))}
# variant -> n; the seed is splitmix64(n). Found by --find-seeds.
SEEDS = {
    "fp32": 41, "kfixed": 32, "bf16": 39, "int8": 17, "int8_feedback": 29, "1bit": 9, "1bit_feedback": 9,
    "mean_of_all": 22, "sgd": 43, "adamw": 3, "muon": 4, "muon_overlap": 35,
    "identity": 12, "missing": 43, "clip": 21, "chunk64": 159,
    "overlap": 11, "overlap_adamw": 1, "look_ahead": 55, "stateless": 45, "stateless_clip": 37, "stateless_sign": 24,
    "stateless_adamw": 3, "stateless_overlap": 46, "norm_clipping": 43, "trimmed_mean": 26, "majority_vote": 26,
    "summed": 4, "summed_all": 40, "summed_overlap": 31, "summed_stateless": 21,
}


# ---------------------------------------------------------------- inputs

def gradients(seed, s, w, tensors, weights=None, pull=0.0):
    g = {name: hashed(seed, s, w, t, shape) * F32(scale) for t, (name, shape, scale) in enumerate(tensors)}
    return g if not pull else {name: g[name] + F32(pull) * weights[name] for name in g}


def initial(seed, tensors):
    return {name: hashed(seed, 63, 0, t, shape) * F32(PARAM_SCALE) for t, (name, shape, _) in enumerate(tensors)}


# ---------------------------------------------------------------- margins

def payload_margins(p, opt, margins):
    k = p["idx"].shape[1]
    order = np.sort(np.abs(p["all"].astype(np.float64)), axis=1)[:, ::-1]
    if k < order.shape[1]:
        margins["topk"].append(((order[:, k - 1] - order[:, k]) / order[:, k - 1]).min())
    c = p["coef"]
    if opt.values == "bf16":
        margins["code"].append(tie_distance(c).min())
    elif opt.values == "int8":
        x = np.abs(c.astype(np.float64) / p["scale"])
        margins["code"].append(np.abs(x - np.floor(x) - 0.5)[x < 127].min(initial=0.5))
        margins["scale"].append(tie_distance(np.abs(c).max() / F32(127)).min())
    elif opt.values == "1bit":
        margins["code"].append((np.abs(c) / np.abs(c).max()).min())
        margins["scale"].append(tie_distance(np.abs(c).mean(dtype=np.float64)).min())


def local_margins(run, grads, margins):
    """What local steps take signs of; AdamW's first step is one."""
    for x in [x for g in grads for x in g.values()] if run.opt.local_update != "sgd" else []:
        margins["local"].append((np.abs(x) / np.abs(x).max()).min())
    for x in [x for d in run.delta for x in d.values()] if run.opt.look_ahead else []:
        size = np.abs(x[x != 0])
        margins["local"].append((size / size.max()).min() if size.size else 1.0)


def sign_margins(update, margins):
    x = np.abs(update.reshape(len(update), -1).astype(np.float64))
    ratio = x / np.maximum(x.max(axis=1, keepdims=True), 1e-300)
    margins["sign"].append(ratio[x > 0].min(initial=1.0))
    margins["exact_zeros"].append(int((x == 0).sum()))


# ---------------------------------------------------------------- a trace

def trace(variant, seed, dct_dtype=np.float64):
    """Returns (run, weights after each step, margins, payloads of step 0, norms)."""
    opt, steps, tensors, missing = VARIANTS[variant]
    run = Run(initial(seed, tensors), WORKERS, opt, dct_dtype)
    history, norms, first = [], [], None
    margins = {"topk": [], "sign": [], "local": [], "code": [], "scale": [], "exact_zeros": []}
    for s, lr in enumerate(learning_rates(steps)):
        def gradient(worker, weights, s=s):
            return gradients(seed, s, worker, tensors, weights, PULL.get(variant, 0))
        payloads, applied, norm, grads = run.step(gradient, lr, lambda r: missing.get(r, ()), s + 1 == steps)
        local_margins(run, grads, margins)
        for p in payloads:
            for name in p:
                payload_margins(p[name], opt, margins)
        for updates in applied if opt.update != "sgd" else []:
            for name in updates:
                if opt.update != "muon" or run.theta[name].ndim < 2:
                    sign_margins(updates[name], margins)
        history.append({name: x.copy() for name, x in run.theta.items()})
        norms.append(norm)
        first = first or payloads
    zeros = sum(margins.pop("exact_zeros"))
    return run, history, {k: float(min(v)) for k, v in margins.items() if v} | {"exact_zeros": zeros}, first, norms


def difference(a, b):
    return max(float(np.abs(x[name] - y[name]).max()) for x, y in zip(a, b) for name in x)


def measured(variant, seed):
    result = trace(variant, seed)
    result[2]["float32_difference"] = difference(result[1], trace(variant, seed, np.float32)[1])
    return result


def find_seed(variant, tries=60):
    """The n whose smallest margin, against what float32 needs, is largest."""
    need = {"topk": 1.0, "sign": 1.0, "local": 0.1, "scale": 0.1,
            "code": 5.0 if "int8" in variant else 0.1 if variant == "bf16" else 1.0}

    def quality(n):
        margins = trace(variant, int(splitmix64(n)))[2]
        return min(margins[key] / need[key] for key in need if key in margins)
    best = max(range(1, tries + 1), key=quality)
    return best, quality(best)


def write(variant):
    opt, steps, tensors, missing = VARIANTS[variant]
    seed = int(splitmix64(SEEDS[variant]))
    run, history, margins, first, norms = measured(variant, seed)
    out = {"lr": learning_rates(steps)}
    if opt.clip:
        out["norm"] = np.array(norms, F32)
    for t, (name, shape, _) in enumerate(tensors):
        if variant in ("fp32", "chunk64"):
            out[f"param.{name}"] = initial(seed, tensors)[name]
            out[f"grad.0.0.{name}"] = gradients(seed, 0, 0, tensors)[name]
        for s in range(EVERY, steps + 1, EVERY):
            out[f"after.{s}.{name}"] = history[s - 1][name]
        for w in range(WORKERS if opt.client == "stateful" else 0):
            out[f"delta.{w}.{name}"] = run.delta[w][name]
        if opt.update == "adamw":
            out[f"adam_m.{name}"], out[f"adam_v.{name}"] = run.m[name], run.v[name]
        if opt.update == "muon" and len(shape) == 2:
            out[f"muon.{name}"] = run.m[name]
        sent = first[0][name]
        out[f"sent_idx.{name}"] = sent["idx"].astype(np.int32)
        out[f"sent_coef.{name}"], out[f"sent_val.{name}"] = sent["coef"], sent["val"]
        if sent["scale"] is not None:
            out[f"sent_scale.{name}"] = np.array([sent["scale"]], F32)
    options = asdict(opt) | {
        "variant": variant, "steps": steps, "workers": WORKERS, "seed": f"{seed:#018x}", "param_scale": PARAM_SCALE,
        "tensors": [{"name": n, "shape": s, "grad_scale": g} for n, s, g in tensors],
        "missing": [{"round": r, "workers": w} for r, w in missing.items()], "pull": PULL.get(variant, 0.0),
    }
    assert all(x.dtype in (F32, np.int32) and np.isfinite(x).all() for x in out.values())
    write_golden(HERE / f"distro_{variant}.safetensors", out,
                 {"options": json.dumps(options), "margins": json.dumps(margins), "made_by": "make_distro.py"})
    return margins


# ---------------------------------------------------------------- self-checks

def check_pieces():
    for shape, chunk, tile in [((172,), 64, (1, 43)), ((7, 172), 16, (7, 4)), ((37,), 16, (1, 1)), ((1, 5), 16, (1, 5))]:
        assert tile_shape(shape, chunk) == tile
        x = hashed(1, 0, 0, 0, shape)
        assert np.array_equal(join(split(x, chunk), shape), x)
    for n in (1, 5, 12, 13, 16, 43, 64):
        assert np.abs(dct_basis(n) @ dct_basis(n).T - np.eye(n)).max() < 1e-14
    import torch
    x = hashed(2, 0, 0, 0, (10000,))
    assert np.array_equal(bf16(x), torch.from_numpy(x).bfloat16().float().numpy())


def check_against_published_semantics():
    """Variant kfixed again, written the way the DeMo authors' PyTorch code works: torch.topk, scatter_reduce
    with mean and include_self=False, sign_(); the DCT from an FFT instead of matrices; float64."""
    import torch
    opt, steps, tensors, _ = VARIANTS["kfixed"]
    seed = int(splitmix64(SEEDS["kfixed"]))

    def dct_1d(x):  # Makhoul: even samples, then odd ones reversed, one FFT
        n = x.shape[-1]
        v = torch.cat([x[..., ::2], x[..., 1::2].flip(-1)], -1)
        phase = torch.exp(-1j * torch.pi * torch.arange(n, dtype=torch.float64) / (2 * n))
        y = (torch.fft.fft(v) * phase).real * (2.0 / n) ** 0.5
        y[..., 0] /= 2**0.5
        return y

    def basis(n):
        return dct_1d(torch.eye(n, dtype=torch.float64))  # row x: the transform of unit vector x

    theta = {n: torch.from_numpy(p).double() for n, p in initial(seed, tensors).items()}
    delta = [{n: torch.zeros_like(p) for n, p in theta.items()} for _ in range(WORKERS)]
    for s, lr in enumerate(learning_rates(steps).astype(np.float64)):
        sent = {n: ([], []) for n in theta}
        for w in range(WORKERS):
            for n, g in gradients(seed, s, w, tensors).items():
                d = delta[w][n].mul_(opt.decay).add_(torch.from_numpy(g).double(), alpha=lr)
                tiles = torch.from_numpy(split(d.numpy(), opt.chunk))
                bh, bw = basis(tiles.shape[1]), basis(tiles.shape[2])
                c = (bh.T @ tiles @ bw).flatten(1)
                idx = c.abs().topk(min(opt.k, c.shape[1]), dim=1).indices
                val = c.gather(1, idx)
                own = torch.zeros_like(c).scatter_(1, idx, val).view_as(tiles)
                d -= torch.from_numpy(join((bh @ own @ bw.T).numpy(), d.shape))
                sent[n][0].append(idx)
                sent[n][1].append(val)
        for n, (idx, val) in sent.items():
            h, w = tile_shape(theta[n].shape, opt.chunk)
            chat = torch.zeros(theta[n].numel() // (h * w), h * w, dtype=torch.float64)
            chat.scatter_reduce_(1, torch.cat(idx, 1), torch.cat(val, 1), reduce="mean", include_self=False)
            x = basis(h) @ chat.view(-1, h, w) @ basis(w).T
            x[x.abs() < 1e-12 * x.abs().amax((1, 2), keepdim=True)] = 0   # the FFT has no exact zeros
            theta[n] -= lr * torch.from_numpy(join(x.sign().numpy(), theta[n].shape))
    final = trace("kfixed", seed)[1][-1]
    worst = max(np.abs(theta[n].numpy() - final[n]).max() for n in final)
    assert worst < 1e-6, worst


if __name__ == "__main__":
    check_pieces()
    if "--find-seeds" in sys.argv:
        for variant in sys.argv[2:] or VARIANTS:
            n, quality = find_seed(variant)
            print(f'    "{variant}": {n},  # {quality:.1e}', flush=True)
        sys.exit()
    check_against_published_semantics()
    for variant in sys.argv[1:] or VARIANTS:
        margins = write(variant)
        print(f"{variant:14}", " ".join(f"{k} {v:.1e}" if isinstance(v, float) else f"{k} {v}" for k, v in margins.items()))
        assert margins["float32_difference"] < 2e-6, "a float32 program would leave this trace: choose another seed"
