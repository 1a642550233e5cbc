"""Low-rank optimizers in plain numpy, for a matrix W [rows, columns] with gradient G.

Sources: GaLore, Zhao et al. 2024 (arXiv 2403.03507, algorithm 2). All in float64.

    one side:   rows <= columns   R = P'G      step = P D        P [rows, r]
                else              R = G Q      step = D Q'       Q [columns, r]
    two sides:                    R = P'G Q    step = P D Q'
    D      = m^ / (sqrt(v^) + eps)          Adam's of R, bias-corrected; b1 0.9, b2 0.95, eps 1e-8
    theta  = theta * (1 - lr*wd) - lr * scale * step

The basis is renewed at the end of step t if (t - offset) mod every = 0 and t > 0, with offset = i*every // n for the
i-th of n such matrices:

    one side:   P = orth(G R')    or   Q = orth(G'R)
    two sides:  P = orth(G Q) and Q = orth(G'P), both of the bases before

With one side the sum over the larger dimension takes every n-th index only, n = larger // 2r (at least 1), from index
k mod n on in the k-th renewal, k = (t + every - offset) // every.

orth: the Q of a QR decomposition whose R has a positive diagonal. Before step 0 there are 4 such iterations, with whole
sums, from P = signs (and Q = signs): entry i (row-major, of P' [r, rows]) is 1 where bit i mod 64 of
splitmix64(s + i // 64) is set, else -1, with s = derive(derive(run's seed, position of the tensor + 1), 1 for P, 2 for Q) and derive(a, b) = splitmix64(
splitmix64(a) ^ b * 0xD6E8FEB86659FD93).

At a renewal moments are kept, or rotated: with T = P_new' P_old, m = T m and v = (T*T) v, elementwise square; of Q
likewise from the right.
"""

import numpy as np

from inputs import splitmix64

MASK = 2**64 - 1
B1, B2, EPS, FIRST_ITERATIONS = 0.9, 0.95, 1e-8, 4


def derive(a, b):
    return int(splitmix64(int(splitmix64(a)) ^ (b * 0xD6E8FEB86659FD93 & MASK)))


def signs(shape, seed):
    count = int(np.prod(shape))
    words = [int(splitmix64(seed + i & MASK)) for i in range((count + 63) // 64)]
    bits = [words[i // 64] >> (i % 64) & 1 for i in range(count)]
    return (2.0 * np.array(bits) - 1).reshape(shape)


def orth(a):
    q, r = np.linalg.qr(a)
    return q * np.sign(np.diag(r))


class Matrix:
    """Bases and moments of one matrix. index: position of its tensor; turn, turns: i and n above."""

    def __init__(self, shape, rank, every, index, turn, turns, sides=1, rotate=False, seed=1):
        rows, columns = shape
        self.left, self.right = sides == 2 or rows <= columns, sides == 2 or rows > columns
        self.shape, self.rank, self.every, self.rotate = shape, rank, every, rotate
        self.offset, self.seed = turn * every // turns, derive(seed, index + 1)
        self.p = self.q = None
        core = (rank if self.left else rows, rank if self.right else columns)
        self.m, self.v = np.zeros(core), np.zeros(core)

    def change(self, x, p, q, square=False):
        """x, a core under the bases p and q, under the present ones."""
        if self.left:
            t = self.p.T @ p
            x = (t * t if square else t) @ x
        if self.right:
            t = self.q.T @ q
            x = x @ (t * t if square else t).T
        return x

    def iterate(self, g, taken=slice(None)):
        if self.left and self.right:
            self.p, self.q = orth(g @ self.q), orth(g.T @ self.p)
        elif self.left:
            self.p = orth(g[:, taken] @ self.project(g)[:, taken].T)
        else:
            self.q = orth(g[taken].T @ self.project(g)[taken])

    def start(self, g):
        if self.p is not None or self.q is not None:
            return
        if self.left:
            self.p = signs((self.rank, self.shape[0]), derive(self.seed, 1)).T
        if self.right:
            self.q = signs((self.rank, self.shape[1]), derive(self.seed, 2)).T
        for _ in range(FIRST_ITERATIONS):
            self.iterate(g)

    def refresh(self, g, t):
        """Renews the bases if it is time; returns those of before, or None."""
        if t == 0 or (t - self.offset) % self.every:
            return None
        old = self.p, self.q
        apart = max(max(self.shape) // (2 * self.rank), 1)
        self.iterate(g, slice((t + self.every - self.offset) // self.every % apart, None, apart))
        if self.rotate:
            self.m, self.v = self.change(self.m, *old), self.change(self.v, *old, square=True)
        return old

    def project(self, g):
        g = self.p.T @ g if self.left else g
        return g @ self.q if self.right else g

    def lift(self, x):
        x = self.p @ x if self.left else x
        return x @ self.q.T if self.right else x

    def adam(self, r, t):
        self.m = B1 * self.m + (1 - B1) * r
        self.v = B2 * self.v + (1 - B2) * r * r
        return self.m / (1 - B1 ** (t + 1)) / (np.sqrt(self.v / (1 - B2 ** (t + 1))) + EPS)


def check():
    """The iteration leads to what the SVD says, from which side ever, and keeps signs."""
    rng = np.random.default_rng(3)
    for shape in ((6, 7), (7, 6), (7, 7)):
        g = rng.standard_normal(shape) * 0.5 ** np.arange(shape[1])
        u, _, vt = np.linalg.svd(g)
        for sides in (1, 2):
            x = Matrix(shape, 2, 1, 0, 0, 1, sides)
            x.start(g)
            for t in range(1, 200):
                x.refresh(g, t)
            for ours, true in ((x.p, u[:, :2]), (x.q, vt[:2].T)):
                assert ours is None or np.abs(np.abs(np.sum(ours * true, axis=0)) - 1).max() < 1e-12
            before = x.project(g)
            x.refresh(g, 200)
            assert np.abs(x.project(g) - before).max() < 1e-12


check()
