"""Golden traces of local SGD, DiLoCo and their overlaps: writes outer_<variant>.safetensors beside itself.

    python tests/golden/make_outer.py                  all variants, with self-checks; or of the variants named behind it
    python tests/golden/make_outer.py --find-seeds     search SEEDS again (minutes), or of the variants named behind it

The methods and every definition: outer_reference.py and wire_reference.py. Gradients and initial weights come from
the hash of inputs.py; a worker's gradient is taken at its own weights, with pull 1/2.

File contents (N = tensor name; float32; C = completed steps, from 1):
    lr               [steps]             the inner learning rate of each step, to be used bit for bit
    norm             [steps, workers]    gradient norms before clipping (where there is a clip; a cluster has one)
    after.C.N                            weights all agree on, after every step that changed them; only N that it changed
    local.W.C.N                          worker W's own weights after step C = "mid"; W = 0 and the last one
    v.N                                  outer momentum at the end (nesterov, momentum)
    e.C.N, u.C.N                         eager correction of worker 0 and its momentum after step C = "mid"
    r.C.N                                what worker 0 has yet to send (error_feedback, sparse), after step C = "mid"
    sent.N, sum.N                        worker 0's first contribution and the first sum, as received, of the fragment
                                         that is sent first
Metadata: "options" (JSON): "method" and "section" say what a recipe has to set; "applied" lists the steps at
which consensus weights change and the fragments that do; seed is a hex string; empty weights: equal shares; "clusters" lists the workers of each, where they are not alone.
"margins" (JSON), smallest over the trace:
    code     distance of a coded value from where its code changes, in units of the block's scale
             (fp8: of 448; bf16: of the values themselves, only those above 2^-16; sparse: of the mean)
    scale    relative distance of a scale from a bf16 rounding tie
    topk     (last one sent - first one not sent) / last one sent, of a chunk's magnitudes (sparse)
    float64_difference   largest |difference| of a stored weight when all but the coding is done in float64:
             where it is small, rounding did not change a single code
"""

import json
import sys
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np

from golden_file import write_golden
from inputs import F32, hashed, learning_rates, splitmix64
from outer_reference import Layout, Options, Run, Tensor
from wire_reference import BLOCK, WIRES, Margins, as_received, sparse_as_received

HERE = Path(__file__).resolve().parent
PARAM_SCALE, PULL = 2.0**-4, 0.5

# Five blocks: in two fragments of three layers or three of two, layers are dealt out in turn.
TENSORS = [
    Tensor("model.embed_tokens.weight", (19, 17), "embedding", -1, 2.0**-3),     # 323: one block of 256 and a rest
    Tensor("model.layers.0.input_layernorm.weight", (17,), "norm", 0, 1.0),
    Tensor("model.layers.0.self_attn.q_proj.weight", (11, 17), "matrix", 0, 2.0**-5),
    Tensor("model.layers.1.mlp.down_proj.weight", (7, 11), "matrix", 1, 2.0**-6),
    Tensor("model.layers.2.mlp.up_proj.weight", (7, 17), "matrix", 2, 2.0**-4),
    Tensor("model.layers.2.post_attention_layernorm.weight", (13,), "norm", 2, 2.0**-2),
    Tensor("model.layers.3.self_attn.o_proj.weight", (13, 5), "matrix", 3, 2.0**-5),
    Tensor("model.layers.4.mlp.gate_proj.weight", (3, 29), "matrix", 4, 2.0**-4),
    Tensor("model.norm.weight", (17,), "norm", -1, 2.0**-1),
    Tensor("lm_head.weight", (7, 13), "head", -1, 2.0**-3),
]
LAYOUT = Layout(TENSORS)
EQUAL, UNEQUAL, FOUR = (), (3 / 8, 3 / 8, 2 / 8), (2 / 8, 1 / 8, 3 / 8, 2 / 8)


def diloco(steps=20, weights=UNEQUAL, mid=10, **section):
    return "diloco", steps, weights, mid, {"sync_every": 4} | section


def streaming(steps=27, mid=17, **section):
    return "streaming", steps, UNEQUAL, mid, {"sync_every": 6, "fragment_layers": 2, "wire": "fp32"} | section


# variant: (method, steps, weights of the workers (empty: 3 equal ones), mid, options)
VARIANTS = {
    "local_sgd": ("local_sgd", 20, EQUAL, 10, {"sync_every": 4}),
    "average": ("local_sgd", 20, UNEQUAL, 10, {"sync_every": 4, "outer": "average"}),
    "sgd": diloco(outer="sgd", outer_lr=0.8),
    "momentum": diloco(outer="momentum", outer_lr=0.5, outer_momentum=0.8),
    "diloco": diloco(),
    "bf16": diloco(wire="bf16"),
    "fp8": diloco(wire="fp8"),
    "fp4": diloco(wire="fp4"),
    "int2": diloco(wire="int2"),
    "fp4_feedback": diloco(wire="fp4", error_feedback=True),
    "int2_feedback": diloco(wire="int2", error_feedback=True),
    "inner1": diloco(overlap="inner", overlap_steps=1, mix=0.5),
    "inner2": diloco(overlap="inner", overlap_steps=2, mix=0.0),
    "inner2_mix": diloco(steps=21, overlap="inner", overlap_steps=2, mix=0.25, wire="fp4"),
    "partial": diloco(steps=18),
    "delayed": diloco(steps=24, overlap="delayed"),
    "eager1": diloco(overlap="eager"),
    "eager2": diloco(steps=24, mid=18, overlap="eager", depth=2),
    "eager_feedback": diloco(mid=14, overlap="eager", wire="fp4", error_feedback=True),
    "eager_partial": diloco(steps=23, mid=22, overlap="eager", depth=2, wire="int2"),
    "streaming": streaming(),
    "streaming_uneven": streaming(steps=30, sync_every=7, wire="fp4", error_feedback=True),
    "streaming_inner": streaming(overlap="inner", wire="fp4"),
    "streaming_delayed": streaming(overlap="delayed"),
    "streaming_eager": streaming(overlap="eager"),
    "streaming_eager_feedback": streaming(overlap="eager", depth=2, wire="fp4", error_feedback=True),
    "sparse": ("sparse", 20, UNEQUAL, 10, {"sync_every": 4, "chunk": 32, "k": 4, "outer": "sgd", "outer_lr": 1.0}),
    "sparse_rate": ("sparse", 20, EQUAL, 10, {"sync_every": 4, "chunk": 4096, "k": 512, "outer": "sgd", "outer_lr": 0.8,
                                              "decay": 0.9}),
    "clip": diloco(clip=3.2),
    "streaming_clip": streaming(wire="int2", clip=3.2),
    "muon": diloco(optimizer="muon"),
    "muon_int2": diloco(steps=24, optimizer="muon", wire="int2", error_feedback=True),
    "two_stage": diloco(weights=FOUR, clusters=((0, 1), (2, 3))),
    "two_stage_eager": diloco(weights=FOUR, clusters=((0, 1), (2, 3)), clip=2.4, overlap="eager", wire="fp4"),
}
# variant -> n; the seed is splitmix64(n). Found by --find-seeds; traces without codes need none.
SEEDS = {
    "bf16": 13, "fp8": 245, "fp4": 37, "int2": 30, "fp4_feedback": 87, "int2_feedback": 75, "inner2_mix": 21,
    "eager_feedback": 8, "eager_partial": 69, "streaming_uneven": 81, "streaming_inner": 70,
    "streaming_eager_feedback": 99, "muon_int2": 18,
    "sparse": 77, "sparse_rate": 5, "streaming_clip": 93, "two_stage_eager": 11,
}


# ---------------------------------------------------------------- a trace

def new_run(settings, seed, dtype=F32):
    _, steps, weights, _, section = settings
    start = LAYOUT.join({t.name: hashed(seed, 63, 0, i, t.shape) * F32(PARAM_SCALE) for i, t in enumerate(TENSORS)})

    def gradient(step, worker, theta):
        g = {t.name: hashed(seed, step, worker, i, t.shape) * F32(t.grad_scale) for i, t in enumerate(TENSORS)}
        return LAYOUT.join(g, dtype) + dtype(PULL) * theta
    return Run(LAYOUT, start, Options(**section), weights or [1 / 3] * 3, steps, gradient, dtype)


def trace(variant, seed, dtype=F32):
    """Returns (run, {key: flat array} after some steps, [(step, fragments applied)])."""
    run, kept, applied, mid = new_run(VARIANTS[variant], seed, dtype), {}, [], VARIANTS[variant][3]
    for lr in learning_rates(run.steps):
        changed = run.step(lr)
        assert all(not x[~LAYOUT.real].any() for x in (run.theta_c, *run.theta, *run.r, *run.e, *run.u))
        if changed:
            applied.append((run.done, changed))
            kept[f"after.{run.done}"] = run.theta_c.copy()
        if run.done == mid:
            kept[f"local.0.{mid}"] = run.theta[0].copy()
            kept[f"local.{run.clusters[-1][-1]}.{mid}"] = run.theta[-1].copy()
            if run.opt.overlap == "eager":
                kept[f"e.{mid}"], kept[f"u.{mid}"] = run.e[0].copy(), run.u[0].copy()
            if run.opt.error_feedback or run.opt.chunk:
                kept[f"r.{mid}"] = run.r[0].copy()
    if run.opt.outer in ("nesterov", "momentum"):
        kept["v"] = run.v.copy()
    return run, kept, applied


def measured(variant, seed):
    run, kept, applied = trace(variant, seed)
    exact = trace(variant, seed, np.float64)[1]
    margins = run.margins.smallest()
    margins["float64_difference"] = max(float(np.abs(kept[key] - exact[key]).max()) for key in kept)
    return run, kept, applied, margins


def find_seed(variant):
    """The n whose codes are furthest from their limits, among those that rounding elsewhere does not move."""
    def quality(n):
        margins = measured(variant, int(splitmix64(n)))[3]
        room = min(margins.get(choice, 1) for choice in ("code", "scale", "topk"))
        return room if margins["float64_difference"] < 5e-7 else -margins["float64_difference"]
    tries = 400 if VARIANTS[variant][4].get("wire") in ("bf16", "fp8") else 100    # those have many more limits
    best = max(range(1, tries + 1), key=quality)
    return best, quality(best)


def names_of(run, fragments):
    return {name for p in fragments for name in run.names[p]}


def write(variant):
    method, steps, weights, mid, section = VARIANTS[variant]
    seed = int(splitmix64(SEEDS.get(variant, 1)))
    run, kept, applied, margins = measured(variant, seed)
    out = {"lr": learning_rates(steps)}
    if run.opt.clip:
        out["norm"] = np.array(run.norms, F32).reshape(steps, -1)
        assert (out["norm"] < run.opt.clip).any() and (out["norm"] > run.opt.clip).any()
    for key, flat in kept.items():
        written = names_of(run, dict(applied)[int(key[6:])]) if key.startswith("after.") else set().union(*run.names)
        out |= {f"{key}.{name}": x for name, x in LAYOUT.split(flat).items() if name in written}
    first = min(range(len(run.places)), key=lambda p: run.sent_at[p][0])
    for key, x in (("sent", run.sent[0][first][0]), ("sum", run.sums[first][0])):
        flat = np.zeros(LAYOUT.total, F32)
        flat[run.places[first]] = x
        out |= {f"{key}.{name}": x for name, x in LAYOUT.split(flat).items() if name in run.names[first]}
    optim = {"method": run.opt.optimizer, "beta1": run.opt.betas[0], "beta2": run.opt.betas[1], "eps": run.opt.eps,
             "weight_decay": run.opt.wd, "clip": run.opt.clip}
    options = {
        "variant": variant, "method": method, "optim": optim,
        "section": {key: value for key, value in section.items() if key not in ("optimizer", "clip", "clusters")},
        "clusters": run.opt.clusters, "steps": steps, "workers": len(weights) or 3, "weights": weights, "mid": mid,
        "applied": [{"step": step, "fragments": fragments} for step, fragments in applied],
        "seed": f"{seed:#018x}", "param_scale": PARAM_SCALE, "pull": PULL, "tensors": [asdict(t) for t in TENSORS],
    }
    assert all(x.dtype == F32 and np.isfinite(x).all() for x in out.values())
    write_golden(HERE / f"outer_{variant}.safetensors", out,
                 {"options": json.dumps(options), "margins": json.dumps(margins), "made_by": "make_outer.py"})
    return margins, len(applied)


# ---------------------------------------------------------------- self-checks

def check_wires():
    """Codes against a search through everything a block could become."""
    import torch
    x = hashed(5, 0, 0, 0, (1000,)) * np.exp2(hashed(6, 0, 0, 0, (1000,)) * 6).astype(F32)
    for wire in WIRES[2:]:
        got = as_received(x, wire, Margins())
        for at in range(0, x.size, BLOCK):
            block = x[at: at + BLOCK]
            top = torch.tensor(np.abs(block).mean() if wire == "int2" else np.abs(block).max()).bfloat16().float().item()
            if wire == "fp8":
                values = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
                values = values[values.isfinite()].numpy() * (top / 448)
            elif wire == "fp4":
                values = np.array([sign * top * 2.0 ** (e - 7) for e in range(1, 8) for sign in (1, -1)] + [0])
            else:
                values = np.array([-2 * top, -top / 2, top / 2, 2 * top])
            nearest = np.abs(block[:, None] - values).min(axis=1)
            assert np.allclose(np.abs(block - got[at: at + BLOCK]), nearest, rtol=0, atol=1e-6 * top), wire
            assert len(np.unique(got[at: at + BLOCK])) <= len(values)
    scaled = np.clip(x, -1, 1) * F32(448)
    top = np.concatenate([[F32(448)], scaled[:255]])          # scale 448: values are coded as they are
    torch_says = torch.from_numpy(top).to(torch.float8_e4m3fn).float().numpy()
    assert np.array_equal(as_received(top, "fp8", Margins()), torch_says)
    half = np.array([1, 0.75, 0.375, -0.375, 2.0**-7, 2.0**-7 * 0.999, 0], F32)     # ties of fp4
    assert as_received(half, "fp4", Margins()).tolist() == [1, 1, 0.5, -0.5, 2.0**-6, 0, 0]
    assert as_received(np.array([1, -1, 1.5, 0.5], F32), "int2", Margins()).tolist() == [0.5, -0.5, 2, 0.5]
    assert not as_received(np.zeros(300, F32), "int2", Margins()).any()
    sparse = sparse_as_received(np.array([1, -8, 2, 0, 3, -3, 0.5], F32), 4, 2, Margins())
    low = 171 / 64                                          # bf16 of 8/3, the mean of those up to 4, the mean of all
    assert sparse.tolist() == [0, -8, low, 0, low, -low, 0]


def custom(steps=12, **section):
    return new_run(diloco(steps, **section), 7)


def finished(run):
    for lr in learning_rates(run.steps):
        run.step(lr)
    return run.theta_c


def check_identities():
    """Runs that must agree although they take different ways."""
    plain = finished(custom())
    # Waiting for nothing and taking the global weights is no overlap.
    assert np.array_equal(plain, finished(custom(overlap="inner", overlap_steps=0, mix=0.0)))
    # Average and sgd with rate 1 are the same, and the mean of the workers' weights.
    run, mean = custom(sync_every=3, outer="average"), None
    for lr in learning_rates(run.steps):
        if (run.done + 1) % 3 == 0:
            run.take_global, own = lambda p: None, Run.take_global
            run.step(lr)
            mean = sum(w * theta for w, theta in zip(run.weights, run.theta))
            assert np.abs(mean - run.theta_c).max() < 1e-7
            own(run, 0)
        else:
            run.step(lr)
    assert np.array_equal(run.theta_c, finished(custom(sync_every=3, outer="sgd", outer_lr=1.0)))
    # The outer optimizer is torch's SGD with Nesterov momentum.
    import torch
    theta = torch.nn.Parameter(torch.from_numpy(custom().theta_c.copy()))
    optimizer = torch.optim.SGD([theta], lr=0.7, momentum=0.9, nesterov=True)
    run = custom()
    expected = finished(run)
    for total in run.sums[0]:
        theta.grad = torch.from_numpy(total)
        optimizer.step()
    assert np.abs(theta.detach().numpy() - expected).max() < 1e-7


def check_eager(depth, weights):
    """theta_c + e against the paper's own form: one outer optimizer a worker, fed with the others' late differences
    and its own fresh one, theta_m^t = Outer(theta_m^(t-1), late^(t-depth) + w_m (Delta_m^t - Delta_m^(t-depth)))."""
    run = new_run(diloco(steps=24, weights=weights, overlap="eager", depth=depth), 3, np.float64)
    start = [theta.copy() for theta in run.theta]
    momentum, deltas = [np.zeros_like(run.theta_c) for _ in start], []
    for lr in learning_rates(run.steps)[:-1]:
        run.correct, keep = lambda p: None, run.correct         # to see the weights before they change
        run.step(lr)
        run.correct = keep
        if run.done % 4:
            continue
        deltas.append([a - b for a, b in zip(start, run.theta)])
        run.correct(0)
        late = deltas[-1 - depth] if len(deltas) > depth else [np.zeros_like(x) for x in start]
        total = sum(w * x for w, x in zip(run.weights, late))
        for m, w in enumerate(run.weights):
            fed = total + w * (deltas[-1][m] - late[m])
            momentum[m] = 0.9 * momentum[m] + fed
            start[m] = start[m] - 0.7 * (fed + 0.9 * momentum[m])
            assert np.abs(start[m] - run.theta[m]).max() < 1e-7
    assert len(deltas) == 5


def check_schedule():
    """Each fragment once in H steps, evenly staggered; every tensor in exactly one fragment."""
    run = custom(steps=27, sync_every=6, fragment_layers=2)
    finished(run)
    assert run.sent_at == [[2, 8, 14, 20, 26, 27], [4, 10, 16, 22, 27], [6, 12, 18, 24, 27]]
    assert sorted(name for names in run.names for name in names) == sorted(t.name for t in TENSORS)
    assert run.names[0][0] == TENSORS[0].name and [t.split(".")[2] for t in run.names[0][1:]] == ["0", "0", "3"]
    assert run.names[2][-2:] == [TENSORS[-2].name, TENSORS[-1].name]
    # One cluster a worker is no cluster; three fragments sent at once are one.
    plain = finished(custom())
    assert np.array_equal(plain, finished(custom(clusters=((0,), (1,), (2,)))))
    run = custom(fragment_layers=2)
    run.due = lambda p: run.done % 4 == 0
    assert np.array_equal(plain, finished(run))


if __name__ == "__main__":
    wanted = [x for x in sys.argv[1:] if not x.startswith("-")] or list(VARIANTS)
    if "--find-seeds" in sys.argv:
        for variant in wanted:
            n, quality = find_seed(variant)
            print(f'    "{variant}": {n},  # {quality:.1e}', flush=True)
        sys.exit()
    check_wires()
    check_identities()
    check_eager(1, UNEQUAL)
    check_eager(2, EQUAL)
    check_schedule()
    for variant in wanted:
        margins, applied = write(variant)
        print(f"{variant:16} {applied:2} applied", " ".join(f"{key} {value:.1e}" for key, value in margins.items()))
        assert applied >= 4
        assert margins["float64_difference"] < 5e-7, "a float32 program could leave this trace: choose another seed"
