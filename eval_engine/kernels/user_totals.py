"""Sums over each user's positives: plain ones, and the best possible weighted gain."""

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.compiled import compiled

Doubles = npt.NDArray[np.float64]
FEW = 32  # positives of a user up to which insertion is the fastest sort


def user_totals(offsets: Ints, x: Doubles | Bools) -> Doubles:
    """The sum of x over each user's positives, added in their order."""
    out = np.zeros(offsets.size - 1)
    _totals(offsets, np.ascontiguousarray(x), out)
    return out


def ideal_totals(offsets: Ints, weight: Doubles, gains: Doubles, cutoffs: Ints) -> Doubles:
    """The largest sum of weight times gain that any order of a user's positives gives, (n_cutoffs, n_users): weights in
    falling order. gains: at each rank from 0 (rank 0: 0); ranks beyond its end gain nothing.
    """
    out = np.zeros((cutoffs.size, offsets.size - 1))
    longest = int(np.diff(offsets).max(initial=0))
    _ideal(offsets, weight, gains, cutoffs, np.empty(longest), out)
    return out


@compiled
def _totals(offsets, x, out):  # type: ignore[no-untyped-def]
    for user in range(offsets.size - 1):
        total = 0.0
        for p in range(offsets[user], offsets[user + 1]):
            total += x[p]
        out[user] = total


@compiled
def _ideal(offsets, weight, gains, cutoffs, ordered, out):  # type: ignore[no-untyped-def]
    for user in range(offsets.size - 1):
        first, n = offsets[user], offsets[user + 1] - offsets[user]
        if n <= FEW:
            for i in range(n):
                w, place = weight[first + i], i
                while place > 0 and ordered[place - 1] < w:
                    ordered[place] = ordered[place - 1]
                    place -= 1
                ordered[place] = w
        else:
            ordered[:n] = np.sort(weight[first : first + n])[::-1]
        for c in range(cutoffs.size):
            total = 0.0
            for i in range(min(n, cutoffs[c], gains.size - 1)):
                total += ordered[i] * gains[i + 1]
            out[c, user] = total
