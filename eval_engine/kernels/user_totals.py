"""Sums over each user's positives: plain ones, those of the top k, and the best possible weighted gain; and how often
each item is in the top k.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.compiled import compiled

Doubles = npt.NDArray[np.float64]
COLUMNS = 4  # of a table that are added up at once: their sums stay in registers
FEW = 32  # positives of a user up to which insertion is the fastest sort


def user_totals(offsets: Ints, x: Doubles | Bools) -> Doubles:
    """The sum of x over each user's positives, added in their order."""
    out = np.zeros(offsets.size - 1)
    _totals(offsets, np.ascontiguousarray(x), out)
    return out


def totals_within(offsets: Ints, above: Ints, row: Ints, table: Doubles, cutoffs: Ints) -> Doubles:
    """The number of each user's positives with fewer than k candidates above them, and the sums over them of each
    column of a table, (n_cutoffs, 1 + n_columns, n_users). row: of each positive in the table (n_rows, n_columns),
    which has a multiple of COLUMNS columns; empty if the table is.
    """
    if table.shape[1] % COLUMNS:
        raise ValueError(f"the table has {table.shape[1]} columns, not a multiple of {COLUMNS}")
    order = np.argsort(cutoffs)
    out = np.zeros((cutoffs.size, 1 + table.shape[1], offsets.size - 1))
    _within(offsets, above, row, table, cutoffs[order], out)
    return out if (np.diff(order) == 1).all() else out[np.argsort(order)]


def totals_of_classes(offsets: Ints, above: Ints, own: Ints, n_classes: int, cutoffs: Ints) -> Doubles:
    """The number of each user's positives of each class with fewer than k candidates above them, (n_cutoffs, n_classes,
    n_users). own: the class of each positive, -1 for none.
    """
    order = np.argsort(cutoffs)
    out = np.zeros((cutoffs.size, n_classes, offsets.size - 1))
    _of_classes(offsets, above, own, cutoffs[order], np.empty(n_classes), out)
    return out if (np.diff(order) == 1).all() else out[np.argsort(order)]


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
def _within(offsets, above, row, table, cutoffs, out):  # type: ignore[no-untyped-def]
    """cutoffs rise."""
    n_cutoffs, n_columns = cutoffs.size, table.shape[1]
    for user in range(offsets.size - 1):
        first, last = offsets[user], offsets[user + 1]
        if _rising(above, first, last):  # as in a list: one pass for all cutoffs
            p = first
            for c in range(n_cutoffs):
                while p < last and above[p] < cutoffs[c]:
                    p += 1
                out[c, 0, user] = p - first
            for n in range(0, n_columns, COLUMNS):
                p, w, x, y, z = first, 0.0, 0.0, 0.0, 0.0
                for c in range(n_cutoffs):
                    for q in range(p, first + np.int64(out[c, 0, user])):
                        r = row[q]
                        w += table[r, n]
                        x += table[r, n + 1]
                        y += table[r, n + 2]
                        z += table[r, n + 3]
                    p = first + np.int64(out[c, 0, user])
                    out[c, 1 + n, user], out[c, 2 + n, user] = w, x
                    out[c, 3 + n, user], out[c, 4 + n, user] = y, z
            continue
        for c in range(n_cutoffs):
            for p in range(first, last):
                if above[p] < cutoffs[c]:
                    out[c, 0, user] += 1.0
                    for n in range(n_columns):
                        out[c, 1 + n, user] += table[row[p], n]


@compiled
def _rising(above, first, last):  # type: ignore[no-untyped-def]
    falls = 0
    for p in range(first + 1, last):  # no branch, so that LLVM vectorises the comparisons
        falls += above[p] < above[p - 1]
    return falls == 0


@compiled
def _of_classes(offsets, above, own, cutoffs, total, out):  # type: ignore[no-untyped-def]
    """cutoffs rise. total: room for a number of each class."""
    n_cutoffs, n_classes = cutoffs.size, total.size
    for user in range(offsets.size - 1):
        first, last = offsets[user], offsets[user + 1]
        if _rising(above, first, last):
            p, total[:] = first, 0.0
            for c in range(n_cutoffs):
                while p < last and above[p] < cutoffs[c]:
                    if own[p] >= 0:
                        total[own[p]] += 1.0
                    p += 1
                for g in range(n_classes):
                    out[c, g, user] = total[g]
            continue
        for p in range(first, last):
            if own[p] >= 0:
                for c in range(n_cutoffs):
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
