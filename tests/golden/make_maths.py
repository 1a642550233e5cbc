"""Golden values of the elementary functions that replicas agree on: writes maths.json beside itself.

    python tests/golden/make_maths.py

Definitions, every operation rounded to float64 in the order written, none fused:

    split(a) = (h, a - h) with t = (2^27 + 1) * a and h = t - (t - a)

    cos_pi(x)   of |x|: n = the integer nearest 2x, the lesser of two, r = x - n / 2, s = r * r, (h, l) = split(r)
      sine      S_i = the float64 nearest (-1)^i pi^(2i+1) / (2i+1)!;  p = Horner of S_1 .. S_8 in s
                P = the float32 nearest pi, Q = the float64 nearest pi - P
                h * P + (l * P + r * (Q + s * p))
      cosine    C_i = the float64 nearest (-1)^i pi^2i / (2i)!;  q = Horner of C_2 .. C_8 in s
                H = the float64 nearest pi^2 / 2, L = the float64 nearest pi^2 / 2 - H
                e = ((h * h - s) + 2 * h * l) + l * l          so that s + e is r^2
                w = 1 - H * s;  w + (((1 - w) - H * s) + (s * (s * q) - (H * e + L * s)))
      result    by n mod 4: cosine, -sine, -cosine, sine

    log(x)      x = 2^k m, 1/sqrt 2 <= m < sqrt 2 (m below the float64 nearest sqrt 2), f = m - 1
                s = f / (2 + f), z = s * s, R = z * (Horner of 2/3, 2/5, ... 2/21 in z), half = 0.5 * f * f
                A = the float64 nearest ln 2 with its last 32 bits 0, B = the float64 nearest ln 2 - A
                k * A - ((half - (s * (half + R) + k * B)) - f)
      Source of the form f - (half - s (half + R)): Sun's fdlibm, e_log.c.

    normal      Rng::normal of thinwire/base/rng.h, of two uniform numbers u, v in turn:
                sqrt(-2 log(1 - u)) * cos_pi(2 v)

Coefficients and the true values come from the module decimal. The script asserts that the definitions are within
0.9 units in the last place of the true values, over many more points than it writes.

File: {"cos_pi": [[x, value, nearest], ...], "log": likewise}, hexadecimal float64: an argument, the definition's value, and
the float64 nearest the true value; and "normal": {"seed", "stream", "values"}, the first values in turn.
"""

import json
import math
import random
import struct
from decimal import Decimal, getcontext
from pathlib import Path

HERE = Path(__file__).resolve().parent
getcontext().prec = 60


def decimal_pi():
    """Machin: pi = 16 atan(1/5) - 4 atan(1/239)."""
    def atan_inverse(n):
        total, term, i = Decimal(0), Decimal(1) / n, 0
        while abs(term) > Decimal(10) ** -58:
            total += term / (2 * i + 1) * (-1) ** i
            term /= n * n
            i += 1
        return total
    return 16 * atan_inverse(5) - 4 * atan_inverse(239)


PI = decimal_pi()
LN2 = Decimal(2).ln()


def series(first, y):
    """Sum of (-1)^i y^(2i + first) / (2i + first)!: cosine from 0, sine from 1."""
    total, term, i = Decimal(0), y if first else Decimal(1), first
    while abs(term) > Decimal(10) ** -55:
        total += term
        term *= -y * y / ((i + 1) * (i + 2))
        i += 2
    return total


def true_cos_pi(x):
    x = abs(Decimal(x)) % 2
    if x > 1:
        x = 2 - x
    if x > Decimal("0.5"):
        return -true_cos_pi(1 - x)
    # Near a right angle the sine of what is left keeps all digits.
    return series(1, PI * (Decimal("0.5") - x)) if x > Decimal("0.25") else series(0, PI * x)


def true_log(x):
    return Decimal(x).ln()


def nearest_float32(value):
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def without_last_bits(value, bits):
    (pattern,) = struct.unpack("<Q", struct.pack("<d", float(value)))
    return struct.unpack("<d", struct.pack("<Q", pattern >> bits << bits))[0]


def taylor(power):
    return float((-1) ** (power // 2) * PI ** power / math.factorial(power))


SINE = [taylor(2 * i + 1) for i in range(1, 9)]
COSINE = [taylor(2 * i) for i in range(2, 9)]
PI_HIGH = nearest_float32(PI)
PI_LOW = float(PI - Decimal(PI_HIGH))
SQUARE_HIGH = float(PI * PI / 2)
SQUARE_LOW = float(PI * PI / 2 - Decimal(SQUARE_HIGH))
ATANH = [2 / (2 * i + 1) for i in range(1, 11)]
LN2_HIGH = without_last_bits(LN2, 32)
LN2_LOW = float(LN2 - Decimal(LN2_HIGH))
ROOT2 = float(Decimal(2).sqrt())


def horner(coefficients, x):
    total = 0.0
    for c in reversed(coefficients):
        total = total * x + c
    return total


def split(a):
    t = 134217729.0 * a
    h = t - (t - a)
    return h, a - h


def sine(r):
    h, l = split(r)
    s = r * r
    return h * PI_HIGH + (l * PI_HIGH + r * (PI_LOW + s * horner(SINE, s)))


def cosine(r):
    h, l = split(r)
    s = r * r
    e = ((h * h - s) + 2 * h * l) + l * l
    w = 1 - SQUARE_HIGH * s
    return w + (((1 - w) - SQUARE_HIGH * s)
                + (s * (s * horner(COSINE, s)) - (SQUARE_HIGH * e + SQUARE_LOW * s)))


def cos_pi(x):
    x = abs(x)
    n = int(2 * x)
    if 2 * x - n > 0.5:
        n += 1
    r = x - n / 2
    return [cosine, lambda r: -sine(r), lambda r: -cosine(r), sine][n % 4](r)


def log(x):
    m, k = math.frexp(x)
    m, k = 2 * m, k - 1
    if m >= ROOT2:
        m, k = m / 2, k + 1
    f = m - 1
    s = f / (2 + f)
    z = s * s
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + z * horner(ATANH, z)) + k * LN2_LOW)) - f)


MASK = 2 ** 64 - 1


def mix_bits(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def normals(seed, stream, count):
    key = mix_bits(mix_bits(seed) ^ stream * 0xD6E8FEB86659FD93 & MASK)
    uniform = [(mix_bits((key + 0x9E3779B97F4A7C15 * i) & MASK) >> 11) * 2.0 ** -53 for i in range(2 * count)]
    return [math.sqrt(-2.0 * log(1.0 - u)) * cos_pi(2 * v) for u, v in zip(uniform[::2], uniform[1::2])]


def cosine_points(rng, count):
    """[0, 2): what Rng::normal and the cosine schedule ask for, and both signs of all quarters."""
    points = [i / 16 for i in range(-33, 34)] + [1e-3, 1e-9, 1e-17, 2 ** -1000]
    points += [math.nextafter(i / 4, side) for i in range(-8, 9) for side in (-9, 9)]
    points += [t / steps for steps in (7, 50, 1999) for t in range(0, steps, max(1, steps // 25))]
    points += [1e6 + 0.3, -12345.678]
    return points + [2 * rng.getrandbits(53) * 2.0 ** -53 for _ in range(count)]


def log_points(rng, count):
    """(0, 1]: what Rng::normal asks for; around 1 and the borders of m; and some of all sizes."""
    points = [1.0, 2.0, 0.5, 2.0 ** -53, 1 - 2.0 ** -53, 1 - 2.0 ** -52, 1 + 2.0 ** -52, 10.0, math.e]
    points += [ROOT2, math.nextafter(ROOT2, 0), ROOT2 / 2, math.nextafter(ROOT2 / 2, 0)]
    points += [2.0 ** -1022, 1.7976931348623157e308, 1e-300, 1e300, 3e-5, 0.999, 1.001]
    points += [1 - rng.getrandbits(53) * 2.0 ** -53 for _ in range(count)]
    return points + [2.0 ** rng.uniform(-1000, 1000) for _ in range(count // 8)]


def error(value, true):
    """In units of the last place of the float64 nearest the true value."""
    return float(abs(Decimal(value) - true) / Decimal(math.ulp(float(true))))


def table(function, true_function, points):
    return [[x.hex(), function(x).hex(), float(true_function(x)).hex()] for x in points]


if __name__ == "__main__":
    for function, true_function, points in ((cos_pi, true_cos_pi, cosine_points), (log, true_log, log_points)):
        worst = max(error(function(x), true_function(x)) for x in points(random.Random(2), 20000)
                    if true_function(x) != 0)
        assert worst < 0.9, (function.__name__, worst)
        print(f"{function.__name__}: at most {worst:.3f} units in the last place")
    golden = {"cos_pi": table(cos_pi, true_cos_pi, cosine_points(random.Random(1), 150)),
              "log": table(log, true_log, log_points(random.Random(1), 150))}
    rows = [f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for name, rows in golden.items()]
    values = normals(1, 2, 200)
    normal = {"seed": 1, "stream": 2, "values": [x.hex() for x in values]}
    rows.append('"normal": ' + json.dumps(normal).replace(", ", ",\n"))
    (HERE / "maths.json").write_text("{" + ",\n".join(rows) + "}\n")
    for name in ("SINE", "COSINE", "ATANH"):
        print(name, ", ".join(f"{c!r}" for c in globals()[name]))
    for name in ("PI_HIGH", "PI_LOW", "SQUARE_HIGH", "SQUARE_LOW", "LN2_HIGH", "LN2_LOW", "ROOT2"):
        print(name, repr(globals()[name]))
