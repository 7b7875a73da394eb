"""Edges of strata of more propensities than can be collected, from a few histograms: exact, in any order of pairs.

The bit pattern of a double above 0, read as an integer, rises with its value. A histogram counts test pairs by the
first bits of the pattern, and has the least and the largest propensity of each bin. Each edge of equal_count

    the largest p with X (2 below(p) + n(p)) < 2 x total        X strata, upper edge of stratum x; below: pairs below p

is in one bin, or it is the largest propensity of the bin before. The next histogram divides these bins only, by 12
more bits, for all edges together. Five histograms reach the last bit; a bin with one propensity needs no further one.
Their number does not grow with pairs or strata.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eval_engine.errors import DataError
from eval_engine.kernels.arrays import Ints
from eval_engine.propensity.strata import (
    MOST,
    Doubles,
    Kind,
    equal_width_edges,
    no_pairs,
    refuse_few,
    refuse_undefined,
)

SHIFTS = (48, 36, 24, 12, 0)  # bits of the pattern that a histogram leaves out: 4,096 bins of each bin before


class Bins(NamedTuple):
    """Test pairs by the first bits of their propensity, in rising order."""

    key: Ints  # the first bits
    n: Ints  # test pairs
    low: Doubles  # their least propensity
    high: Doubles


NO_BINS = Bins(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))
Count = Callable[[int, Ints], Bins]  # (number of the histogram, bins of the one before that are divided) -> their bins


def bins_of(propensity: Doubles, level: int, divided: Ints) -> Bins:
    """One histogram of some pairs. divided: sorted keys of the bins of the histogram before; not used by the first."""
    p = np.ascontiguousarray(propensity, np.float64)
    refuse_undefined(p)
    bits: Ints = p.view(np.int64)
    if level:
        inside = np.isin(bits >> SHIFTS[level - 1], divided)
        p, bits = p[inside], bits[inside]
    return added([Bins(bits >> SHIFTS[level], np.ones(p.size, np.int64), p, p)])


def added(parts: Iterable[Bins]) -> Bins:
    """Histograms of several sets of pairs as one."""
    key, n, low, high = (np.concatenate(column) for column in zip(NO_BINS, *parts, strict=True))
    keys, place = np.unique(key, return_inverse=True)
    counts, least, largest = np.zeros(keys.size, np.int64), np.full(keys.size, np.inf), np.full(keys.size, -np.inf)
    np.add.at(counts, place, n)
    np.minimum.at(least, place, low)
    np.maximum.at(largest, place, high)
    return Bins(keys, counts, least, largest)


def search_edges(count: Count, asked: Sequence[tuple[Kind, int]]) -> list[Doubles]:
    """The upper edges of all strata but the last, of every kind and number of strata.

    >>> p = np.repeat([0.1, 0.2, 0.4, 0.9], [50, 25, 20, 5])
    >>> asked = [("equal_width", 2), ("equal_count", 2)]
    >>> edges = search_edges(lambda level, divided: bins_of(p, level, divided), asked)
    >>> [own.tolist() for own in edges]
    [[0.5], [0.1]]
    """
    bins = count(0, np.empty(0, np.int64))
    total = int(bins.n.sum())
    if not total:
        raise DataError(no_pairs())
    low, high = float(bins.low[0]), float(bins.high[-1])
    searched = {(n, x): _Edge(n, 2 * x * total) for kind, n in asked if kind == "equal_count" for x in range(1, n)}
    distinct = _Distinct(max((n for _, n in asked), default=1))
    for level in range(len(SHIFTS)):
        if level:
            open_bins = {edge.bin for edge in searched.values() if edge.bin is not None} | distinct.bins
            if not open_bins:
                break
            bins = count(level, np.array(sorted(open_bins), np.int64))
        parent = bins.key >> (SHIFTS[level - 1] - SHIFTS[level]) if level else np.zeros(bins.key.size, np.int64)
        for edge in searched.values():
            edge.narrow(bins, parent)
        distinct.narrow(bins, parent)
    for _, n in asked:
        refuse_few(n, distinct.at_least)
    return [
        equal_width_edges(low, high, n)
        if kind == "equal_width"
        else np.array([searched[n, x].value for x in range(1, n)], np.float64)
        for kind, n in asked
    ]


@dataclass
class _Edge:
    """The search for one edge of equal_count."""

    n_strata: int
    bound: int  # 2 x total
    bin: int | None = 0  # that it may be in; None: it is found
    below: int = 0  # pairs below this bin
    value: float = -np.inf  # the largest propensity below this bin; in the end the edge

    def narrow(self, bins: Bins, parent: Ints) -> None:
        """Go on to the bin inside the present one."""
        if self.bin is None:
            return
        own = slice(*np.searchsorted(parent, [self.bin, self.bin + 1]))
        key, n, low, high = (column[own] for column in bins)
        up_to = self.below + np.cumsum(n)
        # the first bin whose largest propensity may be beyond the edge; beyond it every propensity is
        crossing = int(np.searchsorted(self.n_strata * (2 * up_to - 1), self.bound, side="left"))
        if crossing:
            self.value = float(high[crossing - 1])
        if crossing == key.size:
            self.bin = None
            return
        self.bin, self.below = int(key[crossing]), int(up_to[crossing] - n[crossing])
        if low[crossing] == high[crossing]:
            if self.n_strata * (2 * self.below + int(n[crossing])) < self.bound:
                self.value = float(low[crossing])
            self.bin = None


class _Distinct:
    """The number of different propensities, as far as it is below the largest number of strata."""

    def __init__(self, enough: int) -> None:
        self._enough = min(enough, MOST)
        self._known = 0
        self.at_least = 0
        self.bins: set[int] = {0}  # with more than one propensity; empty if the number is known, or enough

    def narrow(self, bins: Bins, parent: Ints) -> None:
        """Count inside the bins that are left."""
        if not self.bins:
            return
        mine = np.isin(parent, sorted(self.bins))
        several = mine & (bins.low < bins.high)
        self._known += int(mine.sum() - several.sum())
        self.at_least = self._known + 2 * int(several.sum())
        self.bins = set(bins.key[several].tolist()) if self.at_least < self._enough else set()
