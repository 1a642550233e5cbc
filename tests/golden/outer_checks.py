"""Checks of outer_reference.py and wire_reference.py: brute force, PyTorch, the paper's own form, twin runs."""

from dataclasses import replace

import numpy as np
import torch

from inputs import F32, hashed, learning_rates
from outer_reference import Run
from outer_variants import EQUAL, TENSORS, UNEQUAL, diloco, new_run
from wire_reference import BLOCK, WIRES, Margins, as_received, sparse_as_received


def check_wires():
    """Codes against a search through everything a block could become."""
    x = hashed(5, 0, 0, 0, (1000,)) * np.exp2(hashed(6, 0, 0, 0, (1000,)) * 6).astype(F32)
    for wire in WIRES[2:]:
        got = as_received(x, wire, Margins())
        for at in range(0, x.size, BLOCK):
            block = x[at: at + BLOCK]
            top = torch.tensor(np.abs(block).mean() if wire in ("int2", "int1") else np.abs(block).max())
            top = top.bfloat16().float().item()
            if wire == "fp8":
                values = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
                values = values[values.isfinite()].numpy() * (top / 448)
            elif wire == "fp4":
                values = np.array([sign * top * 2.0 ** (e - 7) for e in range(1, 8) for sign in (1, -1)] + [0])
            elif wire == "int2":
                values = np.array([-2 * top, -top / 2, top / 2, 2 * top])
            else:
                values = np.array([-top, top])
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
    assert as_received(np.array([1, -1, 1.5, 0.5, 0], F32), "int1", Margins()).tolist() == [0.80078125, -0.80078125, 0.80078125, 0.80078125, 0.80078125]
    for wire in ("int2", "int1"):
        assert not as_received(np.zeros(300, F32), wire, Margins()).any()
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
    """Runs that must agree although they are computed differently."""
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
    theta = torch.nn.Parameter(torch.from_numpy(custom().theta_c.copy()))
    optimizer = torch.optim.SGD([theta], lr=0.7, momentum=0.9, nesterov=True)
    run = custom()
    expected = finished(run)
    for total in run.sums[0]:
        theta.grad = torch.from_numpy(total)
        optimizer.step()
    assert np.abs(theta.detach().numpy() - expected).max() < 1e-7


def check_errors_in_weights():
    """What a worker has learned is in its weights or was sent: with every outer step the mean of the workers' weights
    moves as the consensus does, but for the rate."""
    section = {"wire": "int1", "error_feedback": True, "error_in": "weights", "outer": "sgd", "outer_lr": 1.0}
    run = custom(**section)
    for lr in learning_rates(run.steps)[:-1]:
        run.outer_step, outer_step = lambda p: None, run.outer_step
        run.step(lr)
        run.outer_step = outer_step
        if run.done % 4:
            continue
        before = sum(w * theta for w, theta in zip(run.weights, run.theta))
        run.outer_step(0)
        after = sum(w * theta for w, theta in zip(run.weights, run.theta))
        assert np.abs(before - after).max() < 1e-6      # rate 1: nothing is lost and nothing comes to it
    # One slice is one fragment, and all slices at once are.
    plain = finished(custom(**section | {"wire": "fp32"}))
    sliced = custom(**section | {"wire": "fp32"}, slices=5)
    sliced.due = lambda p: sliced.done % 4 == 0
    assert np.array_equal(plain, finished(sliced))
    # Without a loss there is nothing to keep.
    assert np.array_equal(plain, finished(custom(outer="sgd", outer_lr=1.0)))


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


def check_overlap_after():
    """A run that waits and turns to an overlap after two outer steps, as one that has not sent anything yet."""
    for section in ({"overlap": "eager", "depth": 2}, {"overlap": "delayed"}, {"overlap": "inner", "overlap_steps": 2}):
        turned, lrs = custom(24, fragment_layers=3), learning_rates(24)
        for lr in lrs[:8]:
            turned.step(lr)
        turned.opt = replace(turned.opt, **section)
        turned.sent = [[[] for _ in parts] for parts in turned.sent]
        turned.settled = [0 for _ in turned.settled]
        for lr in lrs[8:]:
            turned.step(lr)
        after = finished(custom(24, fragment_layers=3, overlap_after=2, **section))
        assert np.array_equal(turned.theta_c, after)
        assert not np.array_equal(after, finished(custom(24, fragment_layers=3, **section)))


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


def check_all():
    check_wires()
    check_identities()
    check_errors_in_weights()
    check_eager(1, UNEQUAL)
    check_eager(2, EQUAL)
    check_overlap_after()
    check_schedule()
