"""The chance that a positive is among the first k of itself and n sampled negatives, from its place in the full list.

Of M negatives, A stand above the positive and T are tied with it. n of the M are drawn without replacement, H of them
above it; it is among the first k if H <= k - 1.

    expected     mean over t = 0 .. T of F(A + t),  F(a) = P(H <= k - 1), H hypergeometric: a of M are above, n drawn
    strict       F(A + T)          optimistic  F(A)

    F(a) - F(a + 1) = n / M * P(k - 1 of the other n - 1 drawn are among a of M - 1)

so that F over a tied block costs one product a step. n is at most M. NaN where the place is not known (T < 0).
"""

from math import exp, lgamma

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.gain import TIES

Doubles = npt.NDArray[np.float64]


def chance_among_negatives(above: Doubles, tied: Doubles, population: Doubles, k: int, n: int, ties: str) -> Doubles:
    """The chance for each positive: numbers of negatives above it, tied with it, and of all."""
    if k < 1 or n < 1:
        raise ValueError(f"k and the number of negatives must be at least 1, found {k} and {n}")
    places: list[Ints] = [np.ascontiguousarray(x, np.int64) for x in (above, tied, population)]
    out = np.empty(places[0].size)
    _chances(*places, k, n, TIES[ties], out)
    return out


@compiled
def _log_choose(n, k):  # type: ignore[no-untyped-def]
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)


@compiled
def _point(h, a, m, n):  # type: ignore[no-untyped-def]
    """P(H = h): a of m are above, n drawn."""
    if h < 0 or h > a or h > n or n - h > m - a:
        return 0.0
    return exp(_log_choose(a, h) + _log_choose(m - a, n - h) - _log_choose(m, n))


@compiled
def _at_most(h, a, m, n):  # type: ignore[no-untyped-def]
    """P(H <= h)."""
    if h >= n or h >= a:
        return 1.0
    first = max(0, n - (m - a))
    if h < first:
        return 0.0
    total = 0.0
    for one in range(first, h + 1):
        total += _point(one, a, m, n)
    return min(total, 1.0)


@compiled
def _chances(above, tied, population, k, n, policy, out):  # type: ignore[no-untyped-def]
    for i in range(above.size):
        a, t, m = above[i], tied[i], population[i]
        drawn = min(n, m)
        if t < 0:
            out[i] = np.nan
        elif t == 0 or policy == 2:
            out[i] = _at_most(k - 1, a, m, drawn)
        elif policy == 1:
            out[i] = _at_most(k - 1, a + t, m, drawn)
        else:
            f = _at_most(k - 1, a, m, drawn)
            total, step, known = f, 0.0, False
            for x in range(a, a + t):
                if x >= k - 1:  # below: every number above is at most k - 1
                    if not known or step == 0.0:
                        step, known = drawn / m * _point(k - 1, x, m - 1, drawn - 1), True
                    f = max(0.0, f - step)
                    # P(H = k - 1) from x to x + 1 of m - 1
                    rest = m - 1 - x
                    if rest > 0:
                        step *= (x + 1) / (x + 2 - k) * (rest - drawn + k) / rest
                    else:
                        step = 0.0
                total += f
            out[i] = total / (t + 1)
