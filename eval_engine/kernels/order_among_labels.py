"""Where a user's labelled pairs stand to one another, by their places in the full list: no score is looked at again.

Of two labelled pairs the one with fewer candidates above it has the higher score, and two with the same number above are level. Pairs of a
partial list whose place is not known stand below all others, and to one another in an order nobody knows.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.rank_facts import UNKNOWN

Doubles = npt.NDArray[np.float64]
FEW = 4096  # comparisons of pairs of a user that are cheaper than sorting


class Ahead(NamedTuple):
    """For each positive, the (weighted) number of the user's other positives above it, and of those level with it."""

    before: Doubles
    level: Doubles


def places_among(offsets: Ints, above: Ints, tied: Ints, positive: Bools) -> tuple[Ints, Ints]:
    """(above, tied) of each positive among the user's labelled pairs only, int32 (n_positives,) both."""
    n = int(positive.sum())
    inside, level = np.empty(n, np.int32), np.empty(n, np.int32)
    _places_among(offsets, above, tied, positive, inside, level)
    return inside, level


def ahead(offsets: Ints, above: Ints, weight: Doubles | None) -> Ahead:
    """How much of the user's other positives is above and level with each positive; offsets and above are of the positives."""
    found = Ahead(np.empty(above.size), np.empty(above.size))
    _ahead(offsets, above, np.empty(0) if weight is None else weight, *found)
    return found


def pairs_won(
    offsets: Ints, above: Ints, tied: Ints, positive: Bools, weight: Doubles | None, level: float
) -> tuple[Doubles, Doubles]:
    """The (weighted) number of pairs of a positive and a negative of each user in which the positive is above, a level pair counting `level`; and the number of all pairs."""
    won, total = np.empty(offsets.size - 1), np.empty(offsets.size - 1)
    _pairs_won(offsets, above, tied, positive, np.empty(0) if weight is None else weight, level, won, total)
    return won, total


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
    """How many are less than one, and how many equal; without a branch, so that many are compared at once."""
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
        done, group, total = 0.0, 0, 0.0  # weight above the present group, where it starts, its weight
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
def _pairs_won(offsets, above, tied, positive, weight, level, won, total):  # type: ignore[no-untyped-def]
    for user in range(offsets.size - 1):
        start, end = offsets[user], offsets[user + 1]
        row, good = above[start:end], positive[start:end]
        n_positive = unknown_positive = unknown_negative = 0
        for p in range(row.size):
            n_positive += good[p]
            unknown = tied[start + p] == UNKNOWN
            unknown_positive += unknown & good[p]
            unknown_negative += unknown & (not good[p])
        wins = pairs = 0.0
        if n_positive * row.size <= FEW and not weight.size:
            pairs = n_positive * (row.size - n_positive) * 1.0
            for p in range(row.size):
                if good[p]:
                    one, below, same = row[p], 0, 0
                    for q in range(row.size):  # without a branch, so that many are compared at once
                        below += (row[q] > one) & (not good[q])
                        same += (row[q] == one) & (not good[q])
                    wins += below + level * same
        elif n_positive * (end - start) <= FEW:
            for p in range(start, end):
                if positive[p]:
                    for q in range(start, end):
                        if not positive[q]:
                            w = weight[p] * weight[q]
                            pairs += w
                            wins += w if above[p] < above[q] else level * w if above[p] == above[q] else 0.0
        else:
            order = np.argsort(above[start:end], kind="mergesort")
            passed = group_positive = group_negative = 0.0  # positives above the present group; inside it
            for n in range(end - start + 1):
                if n == end - start or (n and above[start + order[n]] != above[start + order[n - 1]]):
                    wins += passed * group_negative + level * group_positive * group_negative
                    pairs += group_negative
                    passed, group_positive, group_negative = passed + group_positive, 0.0, 0.0
                if n < end - start:
                    p = start + order[n]
                    w = weight[p] if weight.size else 1.0
                    if positive[p]:
                        group_positive += w
                    else:
                        group_negative += w
            pairs *= passed
        won[user] = np.nan if unknown_positive and unknown_negative else wins
        total[user] = pairs
