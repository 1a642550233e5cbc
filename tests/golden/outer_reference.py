"""Steps of local SGD, DiLoCo and their overlaps in plain numpy: the reference behind outer_*.safetensors.

Sources: Douillard et al., "DiLoCo", arXiv 2311.08105; "Streaming DiLoCo with overlapping communication", arXiv
         2501.18512; Kale, Douillard, Donchev, "Eager Updates For Overlapped Communication and Computation in
         DiLoCo", arXiv 2502.12996 (algorithms 1-3); local SGD with the same outer step: "Exploring Scaling Laws
         for Local SGD in Large Language Model Training", arXiv 2409.13198; SparseLoCo: Sarfi et al.,
         "Communication Efficient LLM Pre-training with SparseLoCo", arXiv 2508.15706.

Every worker m has its own weights theta_m and its own optimizer; theta_c are the weights all agree on. A *fragment* is
a set of whole tensors, and its buffer is these tensors in order, each padded with zeros to a multiple of 16. Without
streaming there is one fragment.

    inner step   theta_m by AdamW (or Muon) on the worker's own gradient at theta_m, clipped to its own global norm
    sending      Delta_m = start - theta_m         start = theta_c (eager: theta_c + e_m)
                 c_m = w_m * Delta_m               w_m the worker's share; with feedback c_m += r_m, and then
                                                   r_m = c_m - Q(c_m)
                 R = Q(sum of Q(c_m), float32, in worker order)        Q: wire_reference.py
    outer step   nesterov  v = mu*v + R;  theta_c -= lr * (R + mu*v)           v = 0 at first
                 momentum  v = mu*v + R;  theta_c -= lr * v
                 sgd       theta_c -= lr * R
                 average   the same with lr 1
                 int1, and errors in weights: R is the sum itself, unless sum_wire says how it is coded
    errors       in weights (error_in): nothing is added to c_m; after R was applied, theta_m = theta_c - r_m instead of
                 theta_c, where r_m = (c_m - Q(c_m)) / w_m, or Delta_m where w_m is 0. After the last step theta_m =
                 theta_c.
    overlap
      none       R is applied at once; theta_m = theta_c
      inner      R of step c is applied after step c + overlap_steps, then
                 theta_m = (1 - mix) * theta_c + mix * theta_m
      delayed    at the sending of outer step t, R of outer step t-1 is applied (t = 1: no outer step at all);
                 theta_m = theta_c
      eager      at the sending of outer step t, R of outer step t - depth is applied (t <= depth: none); then with q^t
                 = Q(c_m) of step t, absent ones 0, and D = q^t - q^(t-depth): the outer step once more on D, which
                 moves e_m with a momentum u_m of its own; theta_m = theta_c + e_m
    overlap_after
                 The first so many sends of each fragment are as with `none`, whatever `overlap` says; those after them as
                 if the run began there, but for theta_c and v. So `eager` has e_m = u_m = 0 and q = 0 before.
    schedule     after c steps (from 1), fragment p of P is sent when c % H == ((p+1)*H // P) % H
    last step    The fragments that are not due are sent too: with `inner`, what is in flight of them is applied early, in
                 the usual way, before that. Then everything in flight is applied in order, one outer step each;
                 e_m = u_m = 0; theta_m = theta_c.
    streaming    P = ceil(layers / fragment_layers); layer l is in fragment l % P, the embedding in fragment 0, the
                 final norm and the head in fragment P-1.
    slices       P = slices; fragment p has of each tensor, padded to L lines of 16, the lines floor(L*p/P) to
                 floor(L*(p+1)/P) - 1

    rule         Instead of the sum, R = the aggregate of Q(c_m) / w_m by a rule of aggregation_reference.py, with weights
                 w_m; it is not coded again.
    sparseloco   (SparseLoCo) instead of c_m: r_m = decay * r_m + Delta_m; the largest entries of r_m are sent as
                 two-bit values and what they are received as is taken out of r_m; R = sum of w_m * what is received,
                 in float32, in worker order; with aggregate = mean_of_senders each entry is divided by the sum of
                 the w_m of those that sent it. Which, and as what: wire_reference.py. With a sum_wire, R as it is
                 sent: of each chunk the K entries of the largest |sum| (ties: lowest index; zeros never; K as for k, from
                 sum_k; sum_k 0: all), divided by the sum of the w_m of those that sent it, or of all, and coded with one
                 scale for a tensor's whole chunks and one for its shorter last one (distro_reference.py; 2bit:
                 wire_reference.py). With sum_k, what a worker sent of the entries that R leaves out of a chunk of which
                 it has K goes back into r_m.
    clusters     The workers of a cluster share theta_m: its gradient is the sum of (w_i / W) * g_i over them, in
                 order, W = sum of their w_i; towards the other clusters it is one worker with weight W. With within =
                 distro theta_m follows DisTrO among them instead, fed with n * (w_i / W) * g_i in a cluster of n
                 (distro_reference.py, its defaults).

    members      The weights may change between outer steps (unequal workers; a round's shares). A worker of weight 0
                 is inactive: it takes no steps, and its contribution is 0. One that comes enters with theta_m = theta_c and
                 all that is its own (optimizer, e, u, r, what it sent before) zero. It contributes to a fragment for
                 the first time when it has been there since that fragment was sent before; until then the others'
                 weights are divided by their sum.

Definitions
  precision    float32; every product is rounded before it is added. dtype=float64 does all but the coding in
               float64, to see how far rounding alone leads a trace astray.
  AdamW        t counts from 1: m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*(g*g);
               theta = theta * (1 - lr*wd) - lr/(1-b1^t) * (m / (sqrt(v)/sqrt(1-b2^t) + eps)); scalars are formed in
               float64 and rounded once; no decay (wd) of norms. Never reset, never averaged.
  Muon         muon_reference.py, for matrices; AdamW for the embedding, the head and norms.
  clip         norm = L2 of all the worker's gradients (float64 sum); g *= min(1, clip / (norm + 1e-6)).
  padding      int2 has no code for 0, so the padding is not zero while it is sent: it counts in the block's scales, and
               in the sum. What a worker keeps (R, q, r) is zero there.

This file has no side effects; make_outer.py runs it and writes the golden files.
"""

import math
from dataclasses import dataclass

import numpy as np

import distro_reference
from aggregation_reference import aggregate
from inputs import F32
from muon_reference import muon
from wire_reference import Margins, as_received, coded_values, largest, sparse_as_received

LINE = 16


@dataclass(frozen=True)
class Options:
    sync_every: int = 4            # H
    outer: str = "nesterov"        # nesterov | momentum | sgd | average
    outer_lr: float = 0.7
    outer_momentum: float = 0.9
    wire: str = "fp32"             # fp32 | bf16 | fp8 | fp4 | int2 | int1
    sum_wire: str = "same"         # same | fp32 | bf16 | fp8 | fp4; sparseloco: same | fp32 | bf16 | int8 | 2bit | 1bit
    error_feedback: bool = False
    error_in: str = "buffer"       # buffer | weights
    overlap: str = "none"          # none | inner | delayed | eager
    overlap_steps: int = 1         # inner
    mix: float = 0.5               # inner
    depth: int = 1                 # eager
    overlap_after: int = 0         # sends of a fragment
    fragment_layers: int = 0       # 0: one fragment
    slices: int = 0                # 0: none
    chunk: int = 0                 # sparseloco; 0: dense
    k: int = 64                    # sparseloco
    decay: float = 0.95            # sparseloco
    aggregate: str = "mean_of_all" # sparseloco; or mean_of_senders
    sum_k: int = 0                 # sparseloco, with a sum_wire
    rule: str = "mean"             # or one of aggregation_reference.py
    trim: float = 0.1              # trimmed_mean
    clusters: tuple = ()           # workers of each cluster; (): each alone
    within: str = "allreduce"      # allreduce | distro: what the workers of a cluster do at every step
    optimizer: str = "adamw"       # adamw | muon: the inner one
    clip: float = 0.0              # 0: none
    betas: tuple = (0.9, 0.95)
    eps: float = 1e-8
    wd: float = 0.1


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple
    role: str                      # embedding | matrix | norm | head
    layer: int                     # -1: none
    grad_scale: float

    @property
    def count(self):
        return math.prod(self.shape)


class Layout:
    """Tensors one after another, each padded to a multiple of 16."""

    def __init__(self, tensors):
        self.tensors, self.offsets, self.total = tensors, [], 0
        for tensor in tensors:
            self.offsets.append(self.total)
            self.total += -(-tensor.count // LINE) * LINE
        self.real = np.zeros(self.total, bool)
        self.decays = np.zeros(self.total, bool)
        for tensor, at in zip(tensors, self.offsets):
            self.real[at: at + tensor.count] = True
            self.decays[at: at + tensor.count] = tensor.role != "norm"

    def join(self, values, dtype=F32):
        out = np.zeros(self.total, dtype)
        for tensor, at in zip(self.tensors, self.offsets):
            out[at: at + tensor.count] = np.ravel(values[tensor.name])
        return out

    def split(self, flat):
        return {t.name: flat[at: at + t.count].reshape(t.shape) for t, at in zip(self.tensors, self.offsets)}

    def fragments(self, fragment_layers, slices=0):
        """For each fragment where its buffer's values lie, and the names of its tensors."""
        if slices:
            places, names = [], []
            for p in range(slices):
                parts = []
                for tensor, at in zip(self.tensors, self.offsets):
                    lines = -(-tensor.count // LINE)
                    parts.append(np.arange(at + lines * p // slices * LINE, at + lines * (p + 1) // slices * LINE))
                places.append(np.concatenate(parts))
                names.append([t.name for t, part in zip(self.tensors, parts) if part.size])
            return places, names
        layers = max(t.layer for t in self.tensors) + 1
        count = -(-layers // fragment_layers) if fragment_layers else 1
        places, names = [[] for _ in range(count)], [[] for _ in range(count)]
        for i, tensor in enumerate(self.tensors):
            p = tensor.layer % count if tensor.layer >= 0 else 0 if tensor.role == "embedding" else count - 1
            end = self.offsets[i + 1] if i + 1 < len(self.tensors) else self.total
            places[p].append(np.arange(self.offsets[i], end))
            names[p].append(tensor.name)
        return [np.concatenate(p) for p in places], names


class Run:
    """All workers (below: clusters, where there are any) of a run.

    gradient(step, worker, weights) -> flat gradient at flat weights. `weights` of the workers, or {first step: weights}."""

    def __init__(self, layout, start, opt, weights, steps, gradient, dtype=F32):
        self.layout, self.opt, self.steps, self.gradient, self.f = layout, opt, steps, gradient, dtype
        self.changes = weights if isinstance(weights, dict) else {0: weights}
        weights = self.changes[0]
        self.clusters = opt.clusters or tuple((worker,) for worker in range(len(weights)))
        self.weights = [F32(sum(weights[i] for i in cluster)) for cluster in self.clusters]
        self.within = [[F32(weights[i] / sum(weights[j] for j in c)) if len(c) > 1 else F32(1) for i in c]
                       for c in self.clusters]
        self.places, self.names = layout.fragments(opt.fragment_layers, opt.slices)
        workers, zeros = range(len(self.clusters)), lambda: np.zeros(layout.total, dtype)
        self.theta_c = start.astype(dtype)
        self.theta = [self.theta_c.copy() for _ in workers]
        self.adam = [(zeros(), zeros()) for _ in workers]
        self.muon = [{} for _ in workers]
        settings = distro_reference.Options(wd=opt.wd, clip=opt.clip)
        transform = F32 if dtype is np.float64 else np.float64   # rounded otherwise, like all else
        self.distro = [distro_reference.Run(layout.split(self.theta_c), len(cluster), settings, transform)
                       for cluster in self.clusters]
        self.seen = []                                           # what DisTrO sent and applied
        self.v, self.e, self.u, self.r = zeros(), *([zeros() for _ in workers] for _ in range(3))
        self.sent = [[[] for _ in self.places] for _ in workers]   # q^1, q^2, ... of a worker and fragment
        self.sums = [[] for _ in self.places]                      # R^1, R^2, ... of a fragment
        self.applied = [0 for _ in self.places]                    # how many of them
        self.settled = [0 for _ in self.places]                    # how many sends came before the overlap
        self.sent_at = [[] for _ in self.places]
        self.done, self.margins, self.norms = 0, Margins(), []
        self.entered = [0 if w else None for w in self.weights]    # after so many steps; None: away

    # ------------------------------------------------------------ members

    def change_weights(self):
        if self.done == 0 or self.done not in self.changes:
            return
        self.weights = [F32(w) for w in self.changes[self.done]]
        for m, w in enumerate(self.weights):
            if w == 0:
                self.entered[m] = None
            elif self.entered[m] is None:
                self.enter(m)

    def enter(self, m):
        self.entered[m] = self.done
        self.theta[m] = self.theta_c.copy()
        for own in (*self.adam[m], self.e[m], self.u[m], self.r[m]):
            own[:] = 0
        self.muon[m] = {}
        for parts in self.sent[m]:
            parts[:] = [np.zeros_like(q) for q in parts]

    def away(self, m):
        return self.entered[m] is None

    def shares(self, p):
        """The weight of each worker's pseudo-gradient of a fragment; 0: it has nothing to contribute yet."""
        before = self.sent_at[p][-1] if self.sent_at[p] else 0
        there = [not self.away(m) and self.entered[m] <= before for m in range(len(self.theta))]
        if there == [not self.away(m) for m in range(len(self.theta))]:
            return self.weights
        total = sum(float(w) for w, counts in zip(self.weights, there) if counts)
        return [F32(float(w) / total) if counts else F32(0) for w, counts in zip(self.weights, there)]

    # ------------------------------------------------------------ inner

    def clipped(self, g):
        norm = math.sqrt(float(np.sum(g.astype(np.float64) ** 2)))
        self.norms.append(norm)
        return g * self.f(F32(min(1.0, self.opt.clip / (norm + 1e-6)))) if self.opt.clip else g

    def adamw(self, worker, g, lr):
        f, (b1, b2), t = self.f, self.opt.betas, self.done + 1
        m, v = self.adam[worker]
        m[:] = f(F32(b1)) * m + f(F32(1 - b1)) * g
        v[:] = f(F32(b2)) * v + f(F32(1 - b2)) * (g * g)
        shrink = np.where(self.layout.decays, f(F32(1 - float(lr) * self.opt.wd)), f(1))
        step, root = f(F32(float(lr) / (1 - b1**t))), f(F32(math.sqrt(1 - b2**t)))
        return self.theta[worker] * shrink - step * (m / (np.sqrt(v) / root + f(F32(self.opt.eps))))

    def inner_step(self, worker, g, lr):
        old, self.theta[worker] = self.theta[worker], self.adamw(worker, g, lr)
        for tensor, at in zip(self.layout.tensors, self.layout.offsets):
            if self.opt.optimizer == "muon" and tensor.role == "matrix":
                place, momentum = slice(at, at + tensor.count), self.muon[worker].setdefault(tensor.name, self.f(0))
                theta, momentum = muon(old[place].reshape(tensor.shape), momentum, g[place].reshape(tensor.shape), lr,
                                       self.opt.wd)
                self.theta[worker][place], self.muon[worker][tensor.name] = theta.ravel(), momentum

    def distro_steps(self, lr):
        for theta, distro, cluster, shares in zip(self.theta, self.distro, self.clusters, self.within):
            def gradient(i, weights, cluster=cluster, shares=shares):
                flat = self.gradient(self.done, cluster[i], self.layout.join(weights, self.f))
                return self.layout.split(self.f(F32(len(cluster)) * shares[i]) * flat)
            distro.theta = self.layout.split(theta.copy())
            payloads, applied, norms, _ = distro.step(gradient, lr)
            theta[:] = self.layout.join(distro.theta, self.f)
            self.norms += norms
            self.seen.append((payloads, applied))

    def inner_steps(self, lr):
        if self.opt.within == "distro":
            return self.distro_steps(lr)
        for worker, (cluster, shares) in enumerate(zip(self.clusters, self.within)):
            if self.away(worker):
                continue
            g = np.zeros(self.layout.total, self.f)
            for member, share in zip(cluster, shares):
                g = g + self.f(share) * self.gradient(self.done, member, self.theta[worker])
            self.inner_step(worker, self.clipped(g), lr)

    # ------------------------------------------------------------ outer

    def direction(self, momentum, x):
        """The outer step along x; `momentum` is updated."""
        f, lr, mu = self.f, self.f(F32(self.opt.outer_lr)), self.f(F32(self.opt.outer_momentum))
        if self.opt.outer in ("sgd", "average"):
            return (lr if self.opt.outer == "sgd" else f(1)) * x
        momentum[:] = mu * momentum + x
        return lr * (x + mu * momentum) if self.opt.outer == "nesterov" else lr * momentum

    def contribution(self, worker, delta, place, share):
        """The worker's pseudo-gradient as received, padding included; keeps what feedback needs."""
        in_weights = self.opt.error_feedback and self.opt.error_in == "weights"
        if share == 0:
            if in_weights:
                self.r[worker][place] = delta
            return np.zeros_like(delta)
        if self.opt.chunk:
            return self.sparse_contribution(worker, delta)
        c = self.f(share) * delta
        if self.opt.error_feedback and not in_weights:
            c = c + self.r[worker][place]
        q = as_received(c, self.opt.wire, self.margins)
        if self.opt.error_feedback:
            lost = (c - q) / self.f(share) if in_weights else c - q
            self.r[worker][place] = np.where(self.layout.real[place], lost, 0)
        return q

    def sparse_contribution(self, worker, delta):
        """One fragment only; the padding takes no part."""
        self.r[worker] = self.f(F32(self.opt.decay)) * self.r[worker] + delta
        received = np.zeros_like(delta)
        for tensor, at in zip(self.layout.tensors, self.layout.offsets):
            kept = self.r[worker][at: at + tensor.count]
            received[at: at + tensor.count] = sparse_as_received(kept, self.opt.chunk, self.opt.k, self.margins)
        self.r[worker] = self.r[worker] - received
        return received

    def mean_as_sent(self, contributions):
        """sparseloco: R as received; what it leaves out goes back to its senders."""
        total = senders = np.zeros_like(contributions[0])
        for q, weight in zip(contributions, self.weights):
            total = total + self.f(weight) * q
            senders = senders + self.f(weight) * (q != 0).astype(self.f)
        divisor = senders if self.opt.aggregate == "mean_of_senders" else self.f(sum(self.weights))
        mean = total / np.where(total != 0, divisor, 1)
        chunk, out, left_out = self.opt.chunk, np.zeros_like(total), np.zeros(total.shape, bool)
        for tensor, at in zip(self.layout.tensors, self.layout.offsets):
            whole = tensor.count // chunk * chunk
            for begin, end in ((at, at + whole), (at + whole, at + tensor.count)):
                part = slice(begin, end)
                if begin == end:
                    continue
                kept = np.zeros(end - begin, bool)
                kept[largest(total[part], chunk, self.opt.sum_k or chunk, Margins())] = True
                for first in range(0, end - begin, chunk):
                    tile = slice(first, min(first + chunk, end - begin))
                    full = (kept[tile] & (total[part][tile] != 0)).sum() == kept[tile].sum()
                    left_out[part][tile] = full & ~kept[tile]
                kept &= total[part] != 0
                out[part][kept] = coded_values(mean[part][kept], self.opt.sum_wire)
        for r, q in zip(self.r, contributions) if self.opt.sum_k else ():
            r += np.where(left_out, q, 0)
        return out

    def reduced(self, contributions):
        """Its codes follow from those of the contributions, exact ties included, so they have no margins."""
        of_senders = self.opt.aggregate == "mean_of_senders"
        if self.opt.rule != "mean":
            values = contributions if self.opt.chunk else [q / self.f(w) for q, w in zip(contributions, self.weights)]
            return np.array(aggregate(self.opt.rule, values, self.weights, self.opt.trim, of_senders), self.f)
        if self.opt.chunk and self.opt.sum_wire != "same":
            return self.mean_as_sent(contributions)
        total = np.zeros_like(contributions[0])
        for q, weight in zip(contributions, self.weights):
            total = total + (self.f(weight) * q if self.opt.chunk else q)
        if of_senders:
            senders = sum(self.f(weight) * (q != 0) for q, weight in zip(contributions, self.weights))
            total = np.where(senders > 0, total / np.where(senders > 0, senders, 1), total).astype(self.f)
        in_weights = self.opt.error_feedback and self.opt.error_in == "weights"
        same = self.opt.sum_wire == "same"
        gathered = self.opt.chunk or (same and (self.opt.wire == "int1" or in_weights))
        return total if gathered else as_received(total, self.opt.wire if same else self.opt.sum_wire, Margins())

    def send(self, p):
        place, real = self.places[p], self.layout.real[self.places[p]]
        start = [self.theta_c[place] + e[place] if self.opt.overlap == "eager" else self.theta_c[place] for e in self.e]
        shares = self.shares(p)
        parts = [self.contribution(m, start[m] - self.theta[m][place], place, shares[m]) for m in range(len(self.theta))]
        for worker, q in enumerate(parts):
            self.sent[worker][p].append(np.where(real, q, 0))
        self.sums[p].append(np.where(real, self.reduced(parts), 0))
        self.sent_at[p].append(self.done)

    def in_flight(self, p):
        return len(self.sums[p]) - self.applied[p]

    def apply(self, p):
        """Outer step with the oldest sum in flight of a fragment."""
        place = self.places[p]
        v = self.v[place]
        self.theta_c[place] -= self.direction(v, self.sums[p][self.applied[p]])
        self.v[place] = v
        self.applied[p] += 1

    def take_global(self, p):
        for theta in self.theta:
            theta[self.places[p]] = self.theta_c[self.places[p]]

    def keep_errors(self, p):
        for m, theta in enumerate(self.theta):
            if not self.away(m):
                theta[self.places[p]] = self.theta_c[self.places[p]] - self.r[m][self.places[p]]

    def mix(self, p):
        place, alpha = self.places[p], self.f(F32(self.opt.mix))
        for theta in self.theta:
            theta[place] = (self.f(1) - alpha) * self.theta_c[place] + alpha * theta[place]

    def correct(self, p):
        """Eager: the own part is ahead of the consensus."""
        place, depth = self.places[p], self.opt.depth
        for m, sent in enumerate(self.sent):
            q, u = sent[p][self.settled[p]:], self.u[m][place]
            self.e[m][place] -= self.direction(u, q[-1] - q[-1 - depth] if len(q) > depth else q[-1])
            self.u[m][place] = u
            self.theta[m][place] = self.theta_c[place] + self.e[m][place]

    def due(self, p):
        h = self.opt.sync_every
        return self.done % h == ((p + 1) * h // len(self.places)) % h

    def arrive(self, p):
        self.apply(p)
        self.mix(p)

    def outer_step(self, p):
        """Sends a fragment, and applies the sums that its overlap says are due."""
        self.send(p)
        waits = self.opt.overlap == "none" or len(self.sums[p]) <= self.opt.overlap_after
        if self.opt.overlap == "inner" and self.opt.overlap_steps == 0 and not waits:
            self.arrive(p)
        if waits:
            self.settled[p] = len(self.sums[p])
            self.apply(p)
            self.take_global(p)
            if self.opt.error_feedback and self.opt.error_in == "weights":
                self.keep_errors(p)
        elif self.opt.overlap == "delayed":
            if self.in_flight(p) > 1:
                self.apply(p)
            self.take_global(p)
        elif self.opt.overlap == "eager":
            if self.in_flight(p) > self.opt.depth:
                self.apply(p)
            self.correct(p)

    def drain(self, p):
        while self.in_flight(p):
            self.apply(p)
        for e, u in zip(self.e, self.u):
            e[self.places[p]], u[self.places[p]] = 0, 0
        self.take_global(p)

    def step(self, lr):
        """One step of everyone; returns the fragments whose consensus weights changed."""
        before = list(self.applied)
        self.change_weights()
        self.inner_steps(lr)
        self.done += 1
        last, inner = self.done == self.steps, self.opt.overlap == "inner"
        for p in range(len(self.places)):
            if inner and self.in_flight(p) and (last or self.sent_at[p][-1] + self.opt.overlap_steps == self.done):
                self.arrive(p)
            if self.due(p) or last:
                self.outer_step(p)
            if last:
                self.drain(p)
        return [p for p in range(len(self.places)) if self.applied[p] != before[p]]
