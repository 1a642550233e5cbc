"""Golden traces of local SGD, DiLoCo and their overlaps: writes outer_<variant>.safetensors beside itself.

    python tests/golden/make_outer.py                  all variants, or those named after it; with self-checks
    python tests/golden/make_outer.py --find-seeds     search SEEDS again (minutes), all or those named

The methods and every definition: outer_reference.py and wire_reference.py. Gradients and initial weights come from
the hash of inputs.py; a worker's gradient is taken at its own weights, with pull 1/2.

File contents (N = tensor name; float32; C = completed steps, from 1):
    lr               [steps]             the inner learning rate of each step, to be used bit for bit
    norm             [steps, workers]    gradient norms before clipping (with clipping; one per cluster)
    after.C.N                            weights on which all agree, after every step that changed them; those it changed
    local.W.C.N                          worker W's own weights after step C = "mid"; W = 0 and the last one
    v.N                                  outer momentum at the end (nesterov, momentum)
    e.C.N, u.C.N                         eager correction of worker 0 and its momentum after step C = "mid"
    r.C.N                                what worker 0 has yet to send (error_feedback, sparseloco), after step C = "mid"
    sent.N, sum.N                        worker 0's first contribution and the first sum, as received, of the fragment
                                         that is sent first
Metadata: "options" (JSON): "method" and "section" say what a recipe has to set; "applied" lists the steps at which
consensus weights change and the fragments that do; seed is a hex string; empty weights: equal shares; "weights_from": the weights of
later steps (0: the worker is away); "clusters" lists
the workers of each, where they are not alone, and "within" what they do at every step (allreduce, or distro with the
settings "distro" of distro_reference.py); "aggregate" the rule of aggregation_reference.py, where it is not the mean.
"margins" (JSON), smallest over the trace:
    code     distance of a coded value from where its code changes, in units of the block's scale
             (fp8: of 448; bf16: of the values themselves, only those above 2^-16; sparseloco: of the mean)
    scale    relative distance of a scale from a bf16 rounding tie
    topk     (last one sent - first one not sent) / last one sent, of a chunk's magnitudes (sparseloco, two_stage_distro)
    sign     as in make_distro.py (two_stage_distro)
    float64_difference   largest |difference| of a stored weight when all but the coding is done in float64:
             where it is small, rounding did not change a single code
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np

from golden_file import write_golden
from inputs import F32, learning_rates, splitmix64
from make_distro import payload_margins, sign_margins
from outer_checks import check_all
from outer_variants import EQUAL, LAYOUT, PARAM_SCALE, PULL, TENSORS, VARIANTS, WITHIN, new_run

HERE = Path(__file__).resolve().parent
# variant -> n; the seed is splitmix64(n). Found by --find-seeds; traces without quantisation need none.
SEEDS = {
    "bf16": 13, "fp8": 245, "fp4": 37, "int2": 30, "fp4_feedback": 87, "int2_feedback": 75, "inner2_mix": 21,
    "eager_feedback": 8, "eager_feedback_after": 91, "eager_partial": 69, "streaming_uneven": 81, "streaming_inner": 70,
    "streaming_eager_feedback": 99, "muon_int2": 18,
    "int1_summed": 50, "slices_summed": 25, "eager_summed": 48,
    "int1": 36, "int1_feedback": 72, "int1_weights": 40, "int2_weights": 23, "slices_inner": 69, "slices_weights": 1,
    "members_weights": 43, "two_stage_weights": 49,
    "two_stage_sparseloco": 47, "sparseloco_nesterov": 33, "members_sparseloco": 1,
    "two_stage_distro": 86, "sparseloco": 77, "sparseloco_senders": 53, "sparseloco_rate": 5, "streaming_clip": 93, "two_stage_eager": 11,
    "sparseloco_summed": 83, "sparseloco_summed_all": 78,
}


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
            if run.opt.chunk or (run.opt.error_feedback and run.opt.error_in == "buffer"):
                kept[f"r.{mid}"] = run.r[0].copy()
    if run.opt.outer in ("nesterov", "momentum"):
        kept["v"] = run.v.copy()
    return run, kept, applied


def distro_margins(run):
    found = {"topk": [], "sign": [], "exact_zeros": []}
    for payloads, applied in run.seen:
        for payload in (x for p in payloads for x in p.values()):
            payload_margins(payload, run.distro[0].opt, found)
        for update in (x for updates in applied for x in updates.values()):
            sign_margins(update, found)
    return {name: float(min(found[name])) for name in ("topk", "sign") if found[name]}


def measured(variant, seed):
    run, kept, applied = trace(variant, seed)
    exact = trace(variant, seed, np.float64)[1]
    margins = run.margins.smallest() | distro_margins(run)
    margins["float64_difference"] = max(float(np.abs(kept[key] - exact[key]).max()) for key in kept)
    return run, kept, applied, margins


def find_seed(variant):
    """The n whose codes are furthest from their limits, among those that rounding elsewhere does not move."""
    def quality(n):
        margins = measured(variant, int(splitmix64(n)))[3]
        room = min(margins.get(choice, 1) for choice in ("code", "scale", "topk", "sign"))
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
        "section": {key: value for key, value in section.items() if key not in WITHIN},
        "within": run.opt.within, "distro": asdict(run.distro[0].opt) if run.opt.within == "distro" else {},
        "clusters": run.opt.clusters, "steps": steps, "workers": len(run.changes[0]), "mid": mid,
        "weights": [] if weights == EQUAL else run.changes[0],
        "weights_from": [{"step": step, "weights": change} for step, change in run.changes.items()],
        "applied": [{"step": step, "fragments": fragments} for step, fragments in applied],
        "seed": f"{seed:#018x}", "param_scale": PARAM_SCALE, "pull": PULL, "tensors": [asdict(t) for t in TENSORS],
    }
    if run.opt.rule != "mean":
        options["aggregate"] = {"rule": run.opt.rule, "trim": run.opt.trim}
    assert all(x.dtype == F32 and np.isfinite(x).all() for x in out.values())
    write_golden(HERE / f"outer_{variant}.safetensors", out,
                 {"options": json.dumps(options), "margins": json.dumps(margins), "made_by": "make_outer.py"})
    return margins, len(applied)


if __name__ == "__main__":
    wanted = [x for x in sys.argv[1:] if not x.startswith("-")] or list(VARIANTS)
    if "--find-seeds" in sys.argv:
        for variant in wanted:
            n, quality = find_seed(variant)
            print(f'    "{variant}": {n},  # {quality:.1e}', flush=True)
        sys.exit()
    check_all()
    for variant in wanted:
        margins, applied = write(variant)
        print(f"{variant:16} {applied:2} applied", " ".join(f"{key} {value:.1e}" for key, value in margins.items()))
        assert applied >= 4
        assert margins["float64_difference"] < 5e-7, "a float32 program could leave this trace: choose another seed"
