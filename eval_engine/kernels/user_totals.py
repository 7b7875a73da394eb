"""Sums over each user's positives: plain ones, those of the top k, and the best possible weighted gain; and how often
each item is in the top k.
"""

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


def totals_within(offsets: Ints, above: Ints, x: Doubles, cutoffs: Ints) -> Doubles:
    """The sum of x over each user's positives with fewer than k candidates above them, (n_cutoffs, n_users); without x
    their number.
    """
    order = np.argsort(cutoffs)
    out = np.zeros((cutoffs.size, offsets.size - 1))
    _within(offsets, above, np.ascontiguousarray(x, np.float64), cutoffs[order], out)
    return out if (np.diff(order) == 1).all() else out[np.argsort(order)]


def totals_of_classes(offsets: Ints, above: Ints, own: Ints, n_classes: int, cutoffs: Ints) -> Doubles:
    """The number of each user's positives of each class with fewer than k candidates above them, (n_cutoffs, n_classes,
    n_users). own: the class of each positive, -1 for none.
    """
    out = np.zeros((cutoffs.size, n_classes, offsets.size - 1))
    _of_classes(offsets, above, own, cutoffs, out)
    return out


def counts_within(offsets: Ints, which: Ints, n_items: int, cutoffs: Ints) -> Ints:
    """How many users have each item among the first k of their list, (n_cutoffs, n_items). which: the number of each
    item of the lists.
    """
    counts = np.zeros((cutoffs.size, n_items), np.int64)
    _counts(offsets, np.ascontiguousarray(which), cutoffs, counts)
    return counts


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
def _within(offsets, above, x, cutoffs, out):  # type: ignore[no-untyped-def]
    n_cutoffs = cutoffs.size
    for user in range(offsets.size - 1):
        p, last, total = offsets[user], offsets[user + 1], 0.0
        for c in range(n_cutoffs):
            while p < last and above[p] < cutoffs[c]:
                if p > offsets[user] and above[p] < above[p - 1]:
                    break
                total += x[p] if x.size else 1.0
                p += 1
            out[c, user] = total
        rising = True  # the places of a list rise, so that the rest is beyond every cutoff
        for q in range(p, last):
            rising = rising and above[q] >= cutoffs[n_cutoffs - 1]
        if not rising:
            for c in range(n_cutoffs):
                total = 0.0
                for q in range(offsets[user], last):
                    if above[q] < cutoffs[c]:
                        total += x[q] if x.size else 1.0
                out[c, user] = total


@compiled
def _of_classes(offsets, above, own, cutoffs, out):  # type: ignore[no-untyped-def]
    for user in range(offsets.size - 1):
        for p in range(offsets[user], offsets[user + 1]):
            if own[p] >= 0:
                for c in range(cutoffs.size):
                    if above[p] < cutoffs[c]:
                        out[c, own[p], user] += 1.0


@compiled
def _counts(offsets, which, cutoffs, counts):  # type: ignore[no-untyped-def]
    for user in range(offsets.size - 1):
        for c in range(cutoffs.size):
            for p in range(offsets[user], min(offsets[user + 1], offsets[user] + cutoffs[c])):
                counts[c, which[p]] += 1


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
