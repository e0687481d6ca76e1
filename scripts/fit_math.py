#!/usr/bin/env python3
"""Finds the polynomials of src/kernel/ir/math.inc: minimax fits by Remez exchange (needs mpmath).

Prints, for every function and precision, the Horner coefficients from the highest power down and the largest
weighted error in bits, so that math.inc can be checked or refitted."""
from mpmath import mp, mpf, matrix, lu_solve, exp, log, sin, cos, asin, atan, sinh, erf, erfc, sqrt, pi, cos as mcos, log as mlog

mp.prec = 240


def remez(f, w, lo, hi, n):
    """Polynomial of n coefficients minimising max |f - p| * w on [lo, hi]."""
    lo, hi = mpf(lo), mpf(hi)
    x = [(lo + hi) / 2 + (hi - lo) / 2 * mcos(pi * (2 * i + 1) / (2 * n + 2)) for i in range(n + 1)][::-1]
    grid = [(lo + hi) / 2 - (hi - lo) / 2 * mcos(pi * (i + mpf(1) / 2) / (24 * n)) for i in range(24 * n)]
    fg, wg = [f(t) for t in grid], [w(t) for t in grid]
    worst = mpf(0)
    for _ in range(8):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for i, t in enumerate(x):
            for j in range(n):
                a[i, j] = t ** j
            a[i, n] = (-1) ** i / w(t)
            b[i] = f(t)
        c = list(lu_solve(a, b))[:n]
        e = []
        for t, v, u in zip(grid, fg, wg):
            p = mpf(0)
            for k in reversed(c):
                p = p * t + k
            e.append((v - p) * u)
        worst = max(abs(v) for v in e)
        x2, best = [], 0
        for i in range(1, len(e)):
            if (e[i] > 0) != (e[best] > 0):
                x2.append(grid[best])
                best = i
            elif abs(e[i]) > abs(e[best]):
                best = i
        x2.append(grid[best])
        if len(x2) != n + 1:
            break
        x = x2
    return c, worst


def show(name, f, w, lo, hi, n32, n64):
    for kind, n in (("f32", n32), ("f64", n64)):
        if n is None:
            continue
        c, e = remez(f, w, lo, hi if not isinstance(hi, tuple) else hi[kind == "f64"], n)
        digits = 10 if kind == "f32" else 18
        print("%s %s (%.1f bits)" % (name, kind, float(mlog(e, 2))))
        print("    " + ", ".join(mp.nstr(k, digits) for k in reversed(c)))


def away(t):
    return t if abs(t) > mpf(10) ** -30 else mpf(10) ** -30


def outside(t):
    """A weight that is relative to t, and not 0 where Remez may put a point."""
    return t if abs(t) > mpf(10) ** -6 else mpf(10) ** -6


def of_square(f, lead):
    """(f(x) - lead(x)) / x^3 as a function of z = x^2."""
    def g(z):
        x = sqrt(away(z))
        return (f(x) - lead(x)) / x ** 3
    return g


def main():
    half, third = log(2) / 2, mpf(1) / 3
    show("exp: (e^r - 1 - r) / r^2", lambda r: (exp(away(r)) - 1 - away(r)) / away(r) ** 2, lambda r: outside(r) ** 2, -half, half, 5, 11)
    edge = ((sqrt(2) - 1) / (sqrt(2) + 1)) ** 2 * mpf("1.001")

    def log_tail(terms):
        def g(z):
            z = away(z)
            s = sqrt(z)
            v = log((1 + s) / (1 - s)) / s - 2
            for i in range(terms):
                v -= mpf(2) / (2 * i + 3) * z ** (i + 1)
            return v / z ** (terms + 1)
        return g
    show("log: (log((1+s)/(1-s)) / s - 2) / z", log_tail(0), lambda z: z, 0, edge, None, 8)
    show("log: (log(1+f) - f) / f^2", lambda f: (log(1 + away(f)) - away(f)) / away(f) ** 2, lambda f: outside(f) ** 2 / abs(log(1 + outside(f))), -third, third, 9, None)
    show("pow: the same less 2/3 z, / z^2", log_tail(1), lambda z: z * z, 0, edge, 3, 8)
    quarter = (pi / 4) ** 2 * mpf("1.03")
    show("sin: (sin r - r) / r^3", of_square(sin, lambda x: x), lambda z: z, 0, quarter, 3, 6)
    show("cos: (cos r - 1 + z/2) / z^2", lambda z: (cos(sqrt(away(z))) - 1 + away(z) / 2) / away(z) ** 2, lambda z: z * z, 0, quarter, 3, 6)
    show("asin: (asin x - x) / x^3", of_square(asin, lambda x: x), lambda z: z, 0, mpf(1) / 4, 5, 13)
    show("atan: (atan x - x) / x^3", of_square(atan, lambda x: x), lambda z: z, 0, 1, 9, 20)
    show("sinh: (sinh x - x) / x^3", of_square(sinh, lambda x: x), lambda z: z, 0, 1, 4, 8)
    show("erf: erf x / x - 1", lambda z: erf(sqrt(away(z))) / sqrt(away(z)) - 1, lambda z: 1, 0, mpf("0.86"), 7, 12)
    show("erf: -log(erfc a)", lambda a: -mlog(erfc(a)), lambda a: erfc(a), mpf("0.92"), (mpf(4), mpf(6)), 8, 20)


main()
