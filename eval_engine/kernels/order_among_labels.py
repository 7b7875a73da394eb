"""The order of a user's labelled pairs among themselves, from their places in the full list; scores are not read.

Of two labelled pairs the one with fewer candidates above it has the higher score, and two with the same number above
are tied. Pairs of a partial list with an unknown place rank below all others; their order among themselves is unknown.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.rank_facts import UNKNOWN

Doubles = npt.NDArray[np.float64]
FEW = 4096  # pairwise comparisons of a user up to which comparing is cheaper than sorting


class Ahead(NamedTuple):
    """For each positive, the (weighted) number of the user's other positives above it, and of those tied with it."""

    before: Doubles
    level: Doubles


def places_among(offsets: Ints, above: Ints, tied: Ints, positive: Bools) -> tuple[Ints, Ints]:
    """(above, tied) of each positive among the user's labelled pairs only, int32 (n_positives,) both."""
    n = int(positive.sum())
    inside, level = np.empty(n, np.int32), np.empty(n, np.int32)
    _places_among(offsets, above, tied, positive, inside, level)
    return inside, level


def ahead(offsets: Ints, above: Ints, weight: Doubles | None) -> Ahead:
    """The (weighted) number of the user's other positives above and tied with each positive; offsets and above are of
    the positives.
    """
    found = Ahead(np.empty(above.size), np.empty(above.size))
    _ahead(offsets, above, np.empty(0) if weight is None else weight, *found)
    return found


def negatives_below(
    offsets: Ints, above: Ints, tied: Ints, positive: Bools, weight: Doubles | None
) -> tuple[Doubles, Doubles, Doubles]:
    """The (weighted) number of the user's negatives below each positive and of those tied with it, (n_positives,); and
    of all negatives of each user.

    Where a positive and a negative both have an unknown place, the positive's first number is NaN.
    """
    n = int(positive.sum())
    below, same, total = np.empty(n), np.empty(n), np.empty(offsets.size - 1)
    _negatives_below(offsets, above, tied, positive, np.empty(0) if weight is None else weight, below, same, total)
    return below, same, total


@compiled
def _places_among(offsets, above, tied, positive, inside, level):  # type: ignore[no-untyped-def]
    at = 0
    for user in range(offsets.size - 1):
        start, end = offsets[user], offsets[user + 1]
        row, unknown, good = above[start:end], tied[start:end] == UNKNOWN, positive[start:end]
        n_unknown = unknown.sum()
        for p in range(row.size):
            if not good[p]:
                continue
            if unknown[p]:
                inside[at], level[at] = row.size - n_unknown, UNKNOWN if n_unknown > 1 else 0
            else:
                better, same = _above_and_level(row, row[p])
                inside[at], level[at] = better, same - 1
            at += 1


@compiled
def _above_and_level(row, one):  # type: ignore[no-untyped-def]
    """The number of values below `one`, and of those equal to it; without a branch, so that the loop is vectorised."""
    better = same = 0
    for q in range(row.size):
        better += row[q] < one
        same += row[q] == one
    return better, same


@compiled
def _ahead(offsets, above, weight, before, level):  # type: ignore[no-untyped-def]
    for user in range(offsets.size - 1):
        start, end = offsets[user], offsets[user + 1]
        row = above[start:end]
        if row.size**2 <= FEW and not weight.size:
            for p in range(row.size):
                better, same = _above_and_level(row, row[p])
                before[start + p], level[start + p] = better, same - 1
            continue
        order = np.argsort(row, kind="mergesort")
        done, group, total = 0.0, 0, 0.0  # weight above the current group, start of the group, its weight
        for n in range(row.size):
            p = start + order[n]
            if n and above[p] != above[start + order[group]]:
                _close(order, start, group, n, done, total, weight, before, level)
                done, group, total = done + total, n, 0.0
            total += weight[p] if weight.size else 1.0
        _close(order, start, group, row.size, done, total, weight, before, level)


@compiled
def _close(order, start, group, end, done, total, weight, before, level):  # type: ignore[no-untyped-def]
    for n in range(group, end):
        p = start + order[n]
        before[p] = done
        level[p] = total - (weight[p] if weight.size else 1.0) if end - group > 1 else 0.0


@compiled
def _negatives_below(offsets, above, tied, positive, weight, below, same, total):  # type: ignore[no-untyped-def]
    at = 0
    for user in range(offsets.size - 1):
        start, end = offsets[user], offsets[user + 1]
        row, good = above[start:end], positive[start:end]
        n_positive, unknown_negative, negatives = 0, False, 0.0
        for p in range(row.size):
            n_positive += good[p]
            if not good[p]:
                negatives += weight[start + p] if weight.size else 1.0
                unknown_negative |= tied[start + p] == UNKNOWN
        total[user] = negatives
        if n_positive * row.size <= FEW and not weight.size:
            n = at
            for p in range(row.size):
                if good[p]:
                    one, under, level = row[p], 0, 0
                    for q in range(row.size):  # without a branch, so that the loop is vectorised
                        under += (row[q] > one) & (not good[q])
                        level += (row[q] == one) & (not good[q])
                    below[n], same[n] = under, level
                    n += 1
        elif n_positive * row.size <= FEW:
            n = at
            for p in range(row.size):
                if good[p]:
                    under_w = level_w = 0.0
                    for q in range(row.size):
                        if not good[q]:
                            w = weight[start + q]
                            under_w += w if row[q] > row[p] else 0.0
                            level_w += w if row[q] == row[p] else 0.0
                    below[n], same[n] = under_w, level_w
                    n += 1
        else:
            _sorted_below(row, good, weight[start:end] if weight.size else weight, below[at:], same[at:])
        n = at
        for p in range(row.size):
            if good[p]:
                if unknown_negative and tied[start + p] == UNKNOWN:
                    below[n] = np.nan
                n += 1
        at += n_positive


@compiled
def _sorted_below(row, good, weight, below, same):  # type: ignore[no-untyped-def]
    """The same for one user, by sorting: groups of tied pairs from the last one up."""
    number = np.cumsum(good) - 1  # of each positive among the positives
    order = np.argsort(row, kind="mergesort")
    passed, end = 0.0, row.size  # negatives below the current group, and its end
    while end > 0:
        start, level = end, 0.0
        while start > 0 and row[order[start - 1]] == row[order[end - 1]]:
            start -= 1
            q = order[start]
            if not good[q]:
                level += weight[q] if weight.size else 1.0
        for n in range(start, end):
            if good[order[n]]:
                below[number[order[n]]], same[number[order[n]]] = passed, level
        passed, end = passed + level, start
