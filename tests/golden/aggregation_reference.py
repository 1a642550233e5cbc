"""The rules by which members' contributions become one, in plain Python: the reference behind aggregation.json and the
traces of runs that use a rule (outer_reference.py).

Sources: norm clipping: Sun et al. 2019, arXiv 1911.07963, with the median norm as the threshold; the coordinate-wise
trimmed mean: Yin et al. 2018, arXiv 1803.01498; the majority vote: Bernstein et al. 2018, arXiv 1802.04434.

Definitions, for members m of weight w_m (adding up to 1) with values x_m; "sent" are values that are not zero:
    norm_clipping   sum of w_m * min(1, N / |x_m|) * x_m, with N the median of the norms |x_m|
    trimmed_mean    of n values at a coordinate the b smallest and the b largest are left out, b = ceil(trim * n), at most
                    (n - 1) // 2, so that one is left; the weighted mean of the rest
    majority_vote   s * sign(sum of w_m * sign(x_m)) * (sum of w_m over those that sent), with s the median of the
                    members' RMS, each over what the member sent
    of senders      divided by the weight of those that sent a value there and were not left out (norm_clipping,
                    trimmed_mean), or not multiplied by it (majority_vote)

All of it is in float64. This file has no side effects.
"""

import math
from statistics import median


def norm(values):
    return math.sqrt(sum(x * x for x in values))


def rms(values):
    sent = [x for x in values if x]
    return norm(sent) / math.sqrt(len(sent)) if sent else 0.0


def norm_clipping(members, weights, trim, of_senders):
    limit = median(norm(x) for x in members)
    factors = [min(1.0, limit / norm(x)) if any(x) else 1.0 for x in members]
    out = []
    for column in zip(*members):
        total = sum(w * f * x for w, f, x in zip(weights, factors, column))
        sent = sum(w for w, x in zip(weights, column) if x)
        out.append(total / sent if of_senders and sent else total)
    return out


def trimmed_mean(members, weights, trim, of_senders):
    n = len(members)
    b = min(math.ceil(round(trim * n, 9)), (n - 1) // 2)
    out = []
    for column in zip(*members):
        rest = sorted((x, m) for m, x in enumerate(column))[b: n - b]
        if of_senders:
            rest = [(x, m) for x, m in rest if x]
        weight = sum(weights[m] for _, m in rest)
        out.append(sum(weights[m] * x for x, m in rest) / weight if rest else 0.0)
    return out


def majority_vote(members, weights, trim, of_senders):
    size = median(rms(x) for x in members)
    out = []
    for column in zip(*members):
        votes = sum(math.copysign(w, x) for w, x in zip(weights, column) if x)
        sent = sum(w for w, x in zip(weights, column) if x)
        sign = (votes > 0) - (votes < 0)
        out.append(sign * size * (1.0 if of_senders else sent))
    return out


RULES = {"norm_clipping": norm_clipping, "trimmed_mean": trimmed_mean, "majority_vote": majority_vote}


def aggregate(rule, members, weights, trim, of_senders=False):
    """members: a sequence of values each; weights: of any sum."""
    total = sum(float(w) for w in weights)
    return RULES[rule]([[float(x) for x in values] for values in members], [float(w) / total for w in weights], trim,
                       of_senders)
