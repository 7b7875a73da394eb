"""The gain of each user's positives by their places in the list, cut off at k.

    hits       1                         of precision and recall
    discount   1 / log2(rank + 1)        of DCG
    inverse    1 / rank                  of average precision
    power      p ** (rank - 1)           of RBP; written power(p)

A positive with `above` items above it and `tied` items tied with it has one of the ranks above + 1 .. above + tied + 1:

    expected     the mean of its gain over these ranks, those beyond k giving 0
    strict       its gain at the last of them
    optimistic   its gain at the first of them

Of several tied positives only one can have the last place, and one the first. The bounds of a metric are over orders
that exist, with the user's ties broken one way: the tied positives after the others, or before them, one place each
(`broken`). For a sample the others may be items without a label.

An unknown place (tied = UNKNOWN: a partial list) gives 0 if k <= above, else NaN.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled

Doubles = npt.NDArray[np.float64]
TIES = {"expected": 0, "strict": 1, "optimistic": 2}
GAINS = ("hits", "discount", "inverse")
FEW = 4096  # pairs of a user's positives up to which comparing is cheaper than sorting
SHORT = 1024  # up to this cutoff the table is built without reading the ranks


@lru_cache(maxsize=64)
def gain_table(gain: str, length: int) -> tuple[Doubles, Doubles]:
    """The gain at each rank 0..length (at 0: 0), and the sum of the gains up to it; float64 (length + 1,) both."""
    rank = np.arange(1, length + 1, dtype=np.float64)
    if gain.startswith("power("):
        at = float(gain[len("power(") : -1]) ** (rank - 1)
    else:
        at = {"hits": np.ones(length), "discount": 1 / np.log2(rank + 1), "inverse": 1 / rank}[gain]
    gains = np.concatenate([[0.0], at])
    return gains, np.cumsum(gains)


def gained(
    gain: str, places: tuple[Ints, Ints, Ints], cutoffs: Sequence[int], ties: str, weight: Doubles | None = None
) -> Doubles:
    """The sum over each user's positives of their (weighted) gain at each cutoff, float64 (n_cutoffs, n_users); places:
    offsets, above, tied of the positives.
    """
    policy, ks, (gains, sums) = _settings(gain, places, cutoffs, ties)
    offsets, above, tied = places
    out = np.zeros((ks.size, offsets.size - 1))
    order = np.argsort(-ks, kind="stable")  # the largest cutoff first: a place beyond it is beyond all
    _gained(offsets, above, tied, np.empty(0) if weight is None else weight, gains, sums, ks[order], policy, out)
    return out[::-1] if (np.diff(order) == -1).all() else out[np.argsort(order)]


def gain_of_each(gain: str, above: Ints, tied: Ints, k: int, ties: str) -> Doubles:
    """The gain of each positive at k."""
    each: Doubles = gained(gain, (np.arange(above.size + 1), above, tied), (k,), ties)[0]
    return each


def gained_after(places: tuple[Ints, Ints, Ints], cutoffs: Sequence[int], ties: str, level: Doubles) -> Doubles:
    """The sum over each user's positives of 1 / rank where another positive, tied with it, comes before it. level: the
    (weighted) number of tied positives. Otherwise as `gained`.

    Of two tied positives the later one has rank above + 2 at best and above + tied + 1 at worst: in the bounds each of
    the two gets half of that.
    """
    policy, ks, (gains, sums) = _settings("inverse", places, cutoffs, ties)
    offsets, above, tied = places
    out = np.zeros((ks.size, offsets.size - 1))
    _gained_after(offsets, above, tied, level, gains, sums, ks, policy, out)
    return out


def broken(places: tuple[Ints, Ints, Ints], weight: Doubles | None, after: bool) -> Ints:
    """`above` of each positive once all ties are broken: tied positives after (True) or before all other items that
    they are tied with, one place each, the heaviest where it moves a falling gain most; int32 (n_positives,). Unknown
    places stay.

    >>> broken((np.array([0, 2]), np.array([3, 3]), np.array([4, 4])), None, after=True).tolist()  # 2 of 5 tied items
    [6, 7]
    """
    offsets, above, tied = places
    out = np.array(above, np.int32)
    _broken(offsets, above, tied, np.empty(0) if weight is None else weight, after, out)
    return out


def interpolated(table: Doubles, place: Doubles) -> Doubles:
    """The table at each place, linear between whole numbers, as np.interp; its last value beyond its end. No place is
    negative or NaN.
    """
    out = np.empty(place.size)
    _interpolated(table, place, out)
    return out


def _settings(
    gain: str, places: tuple[Ints, Ints, Ints], cutoffs: Sequence[int], ties: str
) -> tuple[int, Ints, tuple[Doubles, Doubles]]:
    for k in cutoffs:
        if k < 1:
            raise ValueError(f"k must be at least 1, found {k}")
    if ties not in TIES:
        raise ValueError(f"unknown tie policy {ties!r}: one of {', '.join(TIES)}")
    length = max(cutoffs, default=1)
    if length > SHORT:
        _, above, tied = places
        last = int((above + np.maximum(tied, 0)).max(initial=0)) + 1  # largest rank of a positive
        length = min(length, max(SHORT, 2 ** last.bit_length()))  # a power of two, so that few tables are built
    return TIES[ties], np.minimum(np.array(cutoffs, np.int64), length), gain_table(gain, length)


@compiled
def _interpolated(table, place, out):  # type: ignore[no-untyped-def]
    last = table.size - 1
    for i in range(place.size):
        at = int(min(place[i], last))
        out[i] = table[last] if at == last else (table[at + 1] - table[at]) * (place[i] - at) + table[at]


@compiled
def _broken(offsets, above, tied, weight, after, out):  # type: ignore[no-untyped-def]
    for user in range(offsets.size - 1):
        start, end = offsets[user], offsets[user + 1]
        some = False
        for p in range(start, end):
            some |= tied[p] > 0
        if not some:
            continue
        if (end - start) ** 2 <= FEW:
            for p in range(start, end):
                if tied[p] <= 0:
                    continue
                same = before = 0
                for q in range(start, end):
                    if above[q] == above[p]:
                        same += 1
                        first = q < p
                        if weight.size and weight[q] != weight[p]:
                            first = (weight[q] < weight[p]) == after
                        before += first
                out[p] = (above[p] + tied[p] + 1 - same if after else above[p]) + before
            continue
        order = np.argsort(above[start:end], kind="mergesort")
        first = 0
        while first < order.size:
            a, level = above[start + order[first]], tied[start + order[first]]
            last = first
            while last < order.size and above[start + order[last]] == a:
                last += 1
            n = last - first
            if level > 0:
                place = a + level + 1 - n if after else a
                members = order[first:last]
                if weight.size and n > 1:  # before: the heaviest first; after: the heaviest last
                    own = np.empty(n)
                    for q in range(n):
                        own[q] = weight[start + members[q]] if after else -weight[start + members[q]]
                    members = members[np.argsort(own, kind="mergesort")]
                for q in range(n):
                    out[start + members[q]] = place + q
            first = last


@compiled
def _gained(offsets, above, tied, weight, gains, sums, cutoffs, policy, out):  # type: ignore[no-untyped-def]
    """cutoffs: in falling order."""
    for user in range(offsets.size - 1):
        for p in range(offsets[user], offsets[user + 1]):
            first, level = np.int64(above[p]), np.int64(tied[p])
            w = weight[p] if weight.size else 1.0
            if w == 0.0 and level >= 0:
                continue
            if level == 0 or (policy == 2 and level > 0) or level < 0:
                one = w * gains[first + 1] if level >= 0 and first < cutoffs[0] else np.nan
                for n in range(cutoffs.size):
                    if first >= cutoffs[n]:
                        break
                    out[n, user] += one
                continue
            for n in range(cutoffs.size):
                k = cutoffs[n]
                if first >= k:
                    break
                if policy == 1:
                    one = gains[first + level + 1] if first + level + 1 <= k else 0.0
                else:
                    one = (sums[min(first + level + 1, k)] - sums[first]) / (level + 1)
                out[n, user] += one * w


@compiled
def _gained_after(offsets, above, tied, weight, gains, sums, cutoffs, policy, out):  # type: ignore[no-untyped-def]
    """With a = above, t = tied: the mean over orders of (1 / rank where the other positive comes first) is the sum over
    places p = 0..t of (p / t) / (a + p + 1) / (t + 1), cut off at k, and p / (a + p + 1) = 1 - (a + 1) / (a + p + 1).
    """
    for user in range(offsets.size - 1):
        for p in range(offsets[user], offsets[user + 1]):
            first, level, w = np.int64(above[p]), np.int64(tied[p]), weight[p]
            if w == 0.0:
                continue
            for n in range(cutoffs.size):
                k = cutoffs[n]
                if first >= k:
                    continue
                if level < 1:  # unknown place: a known place with a tied positive has tied >= 1
                    one = np.nan
                elif policy == 2:
                    one = gains[first + 2] / 2 if first + 2 <= k else 0.0
                elif policy == 1:
                    one = gains[first + level + 1] / 2 if first + level + 1 <= k else 0.0
                else:
                    last = min(first + level + 1, k)
                    one = ((last - first) - (first + 1) * (sums[last] - sums[first])) / (level * (level + 1.0))
                out[n, user] += w * one
