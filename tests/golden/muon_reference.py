"""Muon's step in plain numpy, for a matrix [rows, columns] with gradient g.

Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024), with the step size of Liu et
al., "Muon is Scalable for LLM Training" (arXiv 2502.16982).

    B      = 0.95*B + g
    N      = g + 0.95*B                                   Nesterov
    X      = N / max(|N|, 1e-7)                           Frobenius norm
    5 times: A = X X';  X = 3.4445*X + (-4.7750*A + 2.0315*A A) X       of the transpose where rows > columns
    theta  = theta * (1 - lr*wd) - lr * 0.2*sqrt(max(rows, columns)) * X

The iteration is computed in float64 and rounded to float32 once, all else in float32.
"""

import math

import numpy as np

from inputs import F32

MOMENTUM, COEFFICIENTS, ITERATIONS = 0.95, (3.4445, -4.7750, 2.0315), 5


def orthogonalised(n, dtype=np.float64):
    a, b, c = (dtype(x) for x in COEFFICIENTS)
    x = n.astype(dtype)
    x = x / max(dtype(np.sqrt((x * x).sum())), dtype(1e-7))
    x = x.T if x.shape[0] > x.shape[1] else x
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x.T if n.shape[0] > n.shape[1] else x).astype(F32)


def muon(theta, momentum, g, lr, wd, dtype=np.float64):
    """One matrix -> (weights, B)."""
    mu = F32(MOMENTUM)
    momentum = mu * momentum + g
    size = F32(float(lr) * 0.2 * math.sqrt(max(theta.shape)))
    return theta * F32(1 - float(lr) * wd) - size * orthogonalised(g + mu * momentum, dtype), momentum
