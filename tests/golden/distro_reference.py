"""Rounds of DisTrO / DeMo in plain numpy: the reference behind distro_*.safetensors.

Sources: Peng, Quesnelle et al., "A Preliminary Report on DisTrO" (2024);
         Peng, Quesnelle, Kingma, "DeMo: Decoupled Momentum Optimization", arXiv 2411.19870.

Per parameter tensor theta, each of the workers holding its own momentum delta:

    theta *= 1 - lr*wd                     2-D tensors only, same on every replica
    delta  = decay*delta + lr*g            local gradient g, optionally clipped to a global norm
    c      = DCT(delta)                    per tile
    idx    = k largest |c| per tile        ties: lowest index
    v      = value_coding(c[idx])          what is sent
    delta -= iDCT(scatter(idx, c[idx]))    feedback off   (or scatter(idx, v): feedback on)
    chat[j] = mean over the workers that sent slot j  of v  (or: sum / number of payloads)
    theta -= lr * sign(iDCT(chat))         sign(0) = 0

Definitions
  tile        The side along a dimension of length d is the largest divisor of d that is <= chunk.
              2-D tensors are cut into tiles h x w, ordered row-major over the grid of tiles; 1-D
              tensors into pieces, written here as tiles with h = 1. Slot of (row, col) in a tile =
              row*w + col; n = h*w slots a tile.
  k           "scaled": clamp(floor(k*n/chunk^2 + 1/2), 1, n)  - also for 1-D pieces;  "fixed": min(k, n).
  DCT         Orthonormal DCT-II on each axis (inverse: its transpose). Basis entry
              B[f, x] = a_f cos(pi (2x+1) f / (2N)), a_0 = sqrt(1/N), a_f = sqrt(2/N). Where the angle is
              an odd multiple of pi/2, i.e. (2x+1) f = N (mod 2N), the entry is EXACTLY 0, not 6e-17.
              That matters: the middle element of an odd tile that received only odd frequencies
              is then exactly 0 and sign() leaves it alone instead of following rounding noise.
  decay       theta is multiplied by float32(1) - lr*float32(wd), in float32.
  precision   delta, theta and everything sent are float32. The products decay*delta and lr*g are rounded
              before they are added (no FMA). DCT and iDCT: computed in float64 from float32 input and
              rounded to float32 once (dct_dtype=float32 imitates an all-float32 program, to see
              how far such a program strays).
  coding      One scale a tensor, rounded to bf16 (nearest, ties to even), over all sent values of it:
              fp32  v = c
              bf16  v = bf16(c), nearest even
              int8  scale = bf16(max|c| / 127);  q = clamp(round_half_even(c/scale), -127, 127); v = scale*q
              1bit  scale = bf16(float32(sum|c| / count)), the sum in float64 in sending order
                    (tile by tile, slots ascending);  q = +1 if c >= 0 else -1;  v = scale*q
              An all-zero tensor has scale 0 and values 0.
  aggregation float32 sum in worker order, divided (float32) by the number of senders of the slot
              ("mean_of_senders"; 0 where nobody sent) or by the number of payloads in the round ("mean_of_all").
              with a sum_wire, the mean as it is sent: of each tile the slots of the K largest |sum| (ties: lowest slot;
              zeros never; K as for k, from sum_k; sum_k 0: all), their means as values are coded, in that number format;
              or by a rule of aggregation_reference.py, in float64 and rounded once; workers have equal weights, a
              slot that a worker did not send is 0, and norms and RMS are of all tensors of a payload together.
  update      sign   as above
              sgd    theta -= iDCT(chat)                      (delta already carries lr)
              adamw  delta = decay*delta + g (no lr); ghat = iDCT(chat) feeds AdamW (betas .9/.95, eps 1e-8,
                     denominator sqrt(vhat)+eps, scalars formed in float64 and rounded once), whose own
                     decoupled decay on 2-D tensors is the only one
              muon   2-D tensors: B = muon_momentum*B + iDCT(chat); theta -= lr * muon_scale * sqrt(longer side) *
                     orthogonalised(B) of muon_reference.py, B first scaled by the power of two that brings its
                     largest value to [1, 2); 1-D tensors: as sign
  stateless   The worker keeps no delta. From u = 0 it takes s local steps, each with the gradient at theta + u
              (clipped): sgd    u -= lr*g
                         sign   u -= lr*sign(g)
                         adamw  u -= lr * mhat / (sqrt(vhat) + eps), moments and step count of this round alone
              and then sends of d = -u (of d / rate with update adamw), where rate is the sum of the round's lr.
              The shared update then takes rate where the formulas above say lr, and counts rounds, not steps.
              The last round of a run is shorter where s does not divide the steps.
  overlap     With overlap 1, the payloads of a round are applied when the next round's have been sent, with the lr
              (rate) and the count of the round they belong to. The last step of a run applies its own as well.
  look_ahead  The gradient is taken at theta - lr*sign(delta), delta as the last step left it.
  missing     A worker missing from a round did everything up to and including the subtraction from
              its delta, but nobody (itself included) applies its payload. When the round is applied,
              what it sent goes back: delta += iDCT(scatter(idx, v)). A stateless client has no delta. With sum_k, so
              does what a present worker sent in the slots that the mean leaves out of a tile of which it has K.
  clip        Per worker, over all its tensors: norm = L2 (float64 sum), g *= min(1, clip/(norm + 1e-6)).

This file has no side effects; make_distro.py runs it and writes the golden files.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from aggregation_reference import aggregate
from inputs import F32, bf16
from muon_reference import orthogonalised


@dataclass(frozen=True)
class Options:
    chunk: int = 16
    k: int = 8
    k_rule: str = "scaled"                # scaled | fixed
    transform: str = "dct"                # dct | none
    values: str = "fp32"                  # fp32 | bf16 | int8 | 1bit
    feedback: bool = False
    aggregate: str = "mean_of_senders"    # mean_of_senders | mean_of_all
    sum_wire: str = "same"                # same | fp32 | bf16 | int8 | 1bit
    sum_k: int = 0                        # with a sum_wire
    update: str = "sign"                  # sign | sgd | adamw | muon
    muon_momentum: float = 0.9            # update = muon
    muon_scale: float = 0.1               # update = muon
    rule: str = "mean"                    # or one of aggregation_reference.py
    trim: float = 0.1                     # trimmed_mean
    decay: float = 0.999
    wd: float = 0.1                       # 2-D tensors only
    clip: float = 0.0                     # 0: no clipping
    betas: tuple = (0.9, 0.95)            # update = adamw
    eps: float = 1e-8                     # update = adamw
    client: str = "stateful"              # stateful | stateless
    local_steps: int = 1                  # s; stateless
    local_update: str = "sgd"             # sgd | sign | adamw; stateless
    overlap: int = 0                      # 0 | 1
    look_ahead: bool = False              # with overlap 1


# ---------------------------------------------------------------- tiles and transform

def tile_side(d, chunk):
    return max(s for s in range(1, min(d, chunk) + 1) if d % s == 0)


def tile_shape(shape, chunk):
    """(h, w); 1-D tensors have h = 1."""
    sides = [tile_side(d, chunk) for d in shape]
    return (1, sides[0]) if len(sides) == 1 else tuple(sides)


def split(x, chunk):
    """Tensor -> [tiles, h, w]."""
    h, w = tile_shape(x.shape, chunk)
    rows, cols = (1, x.shape[0]) if x.ndim == 1 else x.shape
    return x.reshape(rows // h, h, cols // w, w).transpose(0, 2, 1, 3).reshape(-1, h, w)


def join(tiles, shape):
    """[tiles, h, w] -> tensor: inverse of split."""
    _, h, w = tiles.shape
    rows, cols = (1, shape[0]) if len(shape) == 1 else shape
    return tiles.reshape(rows // h, cols // w, h, w).transpose(0, 2, 1, 3).reshape(shape)


@lru_cache(None)
def dct_basis(n):
    f, x = np.arange(n)[:, None], np.arange(n)[None, :]
    basis = np.sqrt(2.0 / n) * np.cos(np.pi * ((2 * x + 1) * f % (4 * n)) / (2.0 * n))
    basis[(2 * x + 1) * f % (2 * n) == n] = 0.0
    basis[0] = np.sqrt(1.0 / n)
    return basis


def dct(tiles, opt, dtype=np.float64):
    if opt.transform == "none":
        return tiles.copy()
    left, right = (dct_basis(s).astype(dtype) for s in tiles.shape[1:])
    return (left @ tiles.astype(dtype) @ right.T).astype(F32)


def idct(tiles, opt, dtype=np.float64):
    if opt.transform == "none":
        return tiles.copy()
    left, right = (dct_basis(s).astype(dtype) for s in tiles.shape[1:])
    return (left.T @ tiles.astype(dtype) @ right).astype(F32)


# ---------------------------------------------------------------- selection and value coding

def slots_per_tile(n, opt):
    if opt.k_rule == "fixed":
        return min(opt.k, n)
    return min(n, max(1, math.floor(opt.k * n / opt.chunk**2 + 0.5)))


def top_k(coef, k):
    """[tiles, n] -> indices [tiles, k] of the largest |coef|, ties to the lowest index, ascending."""
    order = np.argsort(-np.abs(coef), axis=1, kind="stable")
    return np.sort(order[:, :k], axis=1)


def encode(c, opt):
    """Coefficients [tiles, k] of one tensor -> (values as received, scale or None)."""
    if opt.values == "fp32":
        return c.copy(), None
    if opt.values == "bf16":
        return bf16(c), None
    if not c.any():
        return np.zeros_like(c), F32(0)
    if opt.values == "int8":
        scale = bf16(np.abs(c).max() / F32(127))
        return scale * np.clip(np.rint(c / scale), -127, 127).astype(F32), scale
    if opt.values == "1bit":
        total = 0.0
        for v in c.ravel():
            total += abs(float(v))
        scale = bf16(F32(total / c.size))
        return scale * np.where(c >= 0, F32(1), F32(-1)), scale
    raise ValueError(opt.values)


# ---------------------------------------------------------------- one round

def clip_gradients(grads, clip):
    """{name: g} -> ({name: clipped g}, norm)."""
    norm = math.sqrt(sum(float(np.sum(g.astype(np.float64) ** 2)) for g in grads.values()))
    coef = F32(min(1.0, clip / (norm + 1e-6))) if clip else F32(1)
    return {name: coef * g for name, g in grads.items()}, norm


def with_exponent_0(x):
    """Scaled by the power of two that brings the largest value to [1, 2)."""
    largest = float(np.abs(x).max())
    return np.ldexp(x, 1 - math.frexp(largest)[1]) if largest else x


class Run:
    """Weights (one copy: replicas agree bit for bit) and every worker's own state."""

    def __init__(self, params, workers, opt, dct_dtype=np.float64):
        def zeros():
            return {name: np.zeros_like(p) for name, p in params.items()}
        self.theta = {name: p.copy() for name, p in params.items()}
        self.delta = [zeros() for _ in range(workers)]
        self.way = [zeros() for _ in range(workers)]              # u: within a round of local steps
        self.local = [(zeros(), zeros()) for _ in range(workers)]  # its AdamW
        self.m, self.v = zeros(), zeros()
        self.opt, self.dtype, self.workers = opt, dct_dtype, workers
        self.steps, self.rounds, self.rate = 0, 0, F32(0)          # rate: of the open round
        self.in_flight = []

    def seen(self, worker, lr):
        """The weights at which a worker takes its gradient."""
        if self.opt.client == "stateless":
            return {name: p + self.way[worker][name] for name, p in self.theta.items()}
        if self.opt.look_ahead:
            return {name: p - lr * np.sign(self.delta[worker][name]) for name, p in self.theta.items()}
        return self.theta

    def local_step(self, worker, name, g, lr):
        opt, u, t = self.opt, self.way[worker][name], self.steps % self.opt.local_steps + 1
        if opt.local_update == "sgd":
            step = lr * g
        elif opt.local_update == "sign":
            step = lr * np.sign(g)
        else:
            (m, v), (b1, b2) = self.local[worker], opt.betas
            if t == 1:
                m[name], v[name] = np.zeros_like(g), np.zeros_like(g)
            m[name] = F32(b1) * m[name] + F32(1 - b1) * g
            v[name] = F32(b2) * v[name] + F32(1 - b2) * g * g
            step = lr * (m[name] / F32(1 - b1**t)) / (np.sqrt(v[name] / F32(1 - b2**t)) + F32(opt.eps))
        self.way[worker][name] = u - step

    def compress(self, worker, name, g, lr):
        """What the worker sends: the largest coefficients of its momentum, subtracted from it, or of its local delta."""
        opt = self.opt
        if opt.client == "stateless":
            delta = -self.way[worker][name] / (self.rate if opt.update == "adamw" else F32(1))
            self.way[worker][name] = np.zeros_like(delta)
        else:
            gain = F32(1) if opt.update == "adamw" else lr
            delta = F32(opt.decay) * self.delta[worker][name] + gain * g
        tiles = split(delta, opt.chunk)
        coef = dct(tiles, opt, self.dtype).reshape(len(tiles), -1)
        k = slots_per_tile(coef.shape[1], opt)
        idx = top_k(coef, k)
        raw = np.take_along_axis(coef, idx, axis=1)
        val, scale = encode(raw, opt)
        if opt.client == "stateful":
            removed = np.zeros_like(coef)
            np.put_along_axis(removed, idx, val if opt.feedback else raw, axis=1)
            removed = idct(removed.reshape(tiles.shape), opt, self.dtype)
            self.delta[worker][name] = delta - join(removed, delta.shape)
        return {"idx": idx, "val": val, "coef": raw, "scale": scale, "all": coef}

    def put_back(self, worker, payload, left_out=None):
        """What a worker sent, or with left_out[name], by tile and slot, that part of it."""
        for name, p in payload.items():
            h, w = tile_shape(self.theta[name].shape, self.opt.chunk)
            sent = np.zeros_like(p["all"])
            np.put_along_axis(sent, p["idx"], p["val"], axis=1)
            if left_out:
                sent *= left_out[name]
            sent = idct(sent.reshape(-1, h, w), self.opt, self.dtype)
            self.delta[worker][name] = self.delta[worker][name] + join(sent, self.theta[name].shape)

    def mean_as_sent(self, total, mean):
        """[tiles, n] sums and means -> (the means as received, the slots left out of full tiles)."""
        tiles, n = total.shape
        k = slots_per_tile(n, replace(self.opt, k=self.opt.sum_k)) if self.opt.sum_k else n
        kept = np.zeros(total.shape, bool)
        kept[np.arange(tiles)[:, None], top_k(total, k)] = True
        kept &= total != 0
        received = np.zeros_like(mean)
        if kept.any():
            received[kept] = encode(mean[kept], replace(self.opt, values=self.opt.sum_wire))[0]
        full = kept.sum(axis=1, keepdims=True) == k
        return received, (~kept & full).astype(F32)

    def aggregate(self, payloads, name, left_out):
        """Payloads of one tensor, in worker order -> decoded update, as tiles."""
        h, w = tile_shape(self.theta[name].shape, self.opt.chunk)
        total = np.zeros((self.theta[name].size // (h * w), h * w), F32)
        count = np.zeros_like(total)
        rows = np.arange(len(total))[:, None]
        for p in payloads:
            total[rows, p["idx"]] += p["val"]     # an index occurs once a payload
            count[rows, p["idx"]] += F32(1)
        divisor = np.maximum(count, F32(1)) if self.opt.aggregate == "mean_of_senders" else F32(len(payloads))
        mean = total / divisor
        if self.opt.sum_wire != "same":
            mean, left_out[name] = self.mean_as_sent(total, mean)
        return idct(mean.reshape(-1, h, w), self.opt, self.dtype)

    def aggregated(self, payloads):
        """By a rule: whole payloads -> {name: decoded update, as tiles}."""
        rows = [[] for _ in payloads]
        for row, payload in zip(rows, payloads):
            for p in payload.values():
                dense = np.zeros_like(p["all"])
                np.put_along_axis(dense, p["idx"], p["val"], axis=1)
                row += dense.ravel().tolist()
        flat = np.array(aggregate(self.opt.rule, rows, [1] * len(rows), self.opt.trim,
                                  self.opt.aggregate == "mean_of_senders"), F32)
        updates, at = {}, 0
        for name, p in payloads[0].items():
            h, w = tile_shape(self.theta[name].shape, self.opt.chunk)
            updates[name] = idct(flat[at: at + p["all"].size].reshape(-1, h, w), self.opt, self.dtype)
            at += p["all"].size
        return updates

    def apply(self, name, update, lr, number):
        """The step of round `number`, whose rate is lr."""
        opt, theta = self.opt, self.theta[name]
        if theta.ndim >= 2:
            theta = theta * (F32(1) - lr * F32(opt.wd))
        if opt.update == "sign":
            theta = theta - lr * np.sign(update)
        elif opt.update == "sgd":
            theta = theta - update
        elif opt.update == "muon" and theta.ndim < 2:
            theta = theta - lr * np.sign(update)
        elif opt.update == "muon":
            self.m[name] = F32(opt.muon_momentum) * self.m[name] + update
            size = F32(float(lr) * opt.muon_scale * math.sqrt(max(theta.shape)))
            theta = theta - size * orthogonalised(with_exponent_0(self.m[name]), self.dtype)
        else:
            t, (b1, b2) = number + 1, opt.betas     # scalars in float64, then rounded once
            self.m[name] = F32(b1) * self.m[name] + F32(1 - b1) * update
            self.v[name] = F32(b2) * self.v[name] + F32(1 - b2) * update * update
            mhat = self.m[name] / F32(1 - b1**t)
            vhat = self.v[name] / F32(1 - b2**t)
            theta = theta - lr * mhat / (np.sqrt(vhat) + F32(opt.eps))
        self.theta[name] = theta

    def step(self, gradient, lr, missing=lambda number: (), last=False):
        """gradient(worker, weights) -> {name: g}; missing(round) -> workers missing from it; last: the run's last step.

        Returns (payloads[worker][name] if any were sent, updates applied (each {name: tiles}), norms, gradients)."""
        opt, lr, norms, grads = self.opt, F32(lr), [], []
        self.rate = F32(np.float64(self.rate) + np.float64(lr)) if self.steps % opt.local_steps else lr
        for worker in range(self.workers):
            g, norm = clip_gradients(gradient(worker, self.seen(worker, lr)), opt.clip)
            norms.append(norm)
            grads.append(g)
            if opt.client == "stateless":
                for name in g:
                    self.local_step(worker, name, g[name], lr)
        closes = last or (self.steps + 1) % opt.local_steps == 0
        self.steps += 1
        if not closes:
            return [], [], norms, grads
        payloads = [{name: self.compress(worker, name, g[name], lr) for name in g} for worker, g in enumerate(grads)]
        present = {worker: p for worker, p in enumerate(payloads) if worker not in missing(self.rounds)}
        lost = [(worker, payloads[worker]) for worker in missing(self.rounds) if opt.client == "stateful"]
        self.in_flight.append((self.rounds, self.rate, present, lost))
        self.rounds += 1
        applied = []
        while len(self.in_flight) > (0 if last else opt.overlap):
            number, rate, present, lost = self.in_flight.pop(0)
            sent, left_out = list(present.values()), {}
            applied.append(self.aggregated(sent) if opt.rule != "mean" else
                           {name: self.aggregate([p[name] for p in sent], name, left_out) for name in self.theta})
            for name, update in applied[-1].items():
                self.apply(name, join(update, self.theta[name].shape), rate, number)
            for worker, payload in lost:
                self.put_back(worker, payload)
            for worker, payload in present.items() if opt.sum_k and opt.client == "stateful" else ():
                self.put_back(worker, payload, left_out)
        return payloads, applied, norms, grads
