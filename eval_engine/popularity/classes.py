"""Popularity classes from the counts of items [bqs].

    elbow       the elbows of the curve of counts (elbow.py)
    elbow_log   the elbows of the curve of their logarithms, which is what the text of the paper says
    share       low: the least popular items that together hold at most 20 % of the counts; the others are high
    quantile    a third of the items each

    low: count <= low_at_most      high: count > high_above      middle: between      unseen: count 0

Items with equal counts are in one class. Where a curve has no elbows, classes are those of `quantile`, and `reason`
says why. The elbows depend on how much the curve is smoothed: `stability` has the smallest and the largest class over
nearby windows (10 points more or less, and 0.5 to 1.5 times the window), and classes are `fragile` if low or high
changes by more than a quarter.
"""

from typing import NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Floats, Ints
from eval_engine.popularity.elbow import Elbows, curve, default_window, elbows
from eval_engine.popularity.settings import LOW_SHARE, Method

METHODS: tuple[str, ...] = get_args(Method)
CLASSES = ("unseen", "low", "middle", "high")
FRAGILE = 0.25


class Stability(NamedTuple):
    """The smallest and largest number of items of a class over nearby windows."""

    n_low: tuple[int, int]
    n_high: tuple[int, int]


class Thresholds(NamedTuple):
    """The counts that separate the classes, and how they were found."""

    method: str  # that was asked for
    used: str  # quantile, where the curve has no elbows
    low_at_most: float
    high_above: float
    n_unseen: int
    n_low: int
    n_middle: int
    n_high: int
    stability: Stability | None  # of elbows
    fragile: bool
    reason: str  # why the method used is not the one asked for; else empty
    remark: str

    def class_of(self, counts: Ints) -> npt.NDArray[np.int64]:
        """The number of each count's class in CLASSES."""
        counts = np.asarray(counts)
        seen = 1 + (counts > self.low_at_most) + (counts > self.high_above)
        classes: npt.NDArray[np.int64] = np.where(counts > 0, seen, 0)
        return classes


class PopularityClasses(NamedTuple):
    """The classes of some items."""

    n_low: int
    n_middle: int
    n_high: int
    low_at_most: float
    high_above: float
    class_of_each: npt.NDArray[np.str_]
    thresholds: Thresholds


def popularity_classes(counts: npt.ArrayLike, method: Method = "elbow", share: float = LOW_SHARE) -> PopularityClasses:
    """The class of each item: unseen, low, middle or high; counts: the number of training positives of each item.

    >>> popularity_classes([1] * 20 + [80], method="share").n_low
    20
    """
    given = np.asarray(counts)
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise ValueError(f"counts: one number for each item is expected, found {given.dtype} of shape {given.shape}")
    for item in np.flatnonzero(~(given >= 0) | (given != np.floor(given)) | np.isinf(given))[:1]:
        raise ValueError(f"counts: item {item} has the count {given[item]}; a count is a whole number, 0 or more")
    whole = given.astype(np.int64)
    found = thresholds(*np.unique(whole, return_counts=True), method=method, share=share)
    names = np.array(CLASSES)[found.class_of(whole)]
    return PopularityClasses(
        found.n_low, found.n_middle, found.n_high, found.low_at_most, found.high_above, names, found
    )


def thresholds(counts: Ints, n_items: Ints, method: str, share: float = LOW_SHARE) -> Thresholds:
    """The thresholds, from distinct counts in rising order and the number of items with each."""
    if method not in METHODS:
        raise ValueError(f"method: {method!r} is none of {', '.join(METHODS)}")
    some = counts > 0
    n_unseen = int(n_items[~some].sum())
    counts, n_items = counts[some], n_items[some]
    if not counts.size:
        reason = "no item has a training positive"
        return Thresholds(method, method, 0.0, 0.0, n_unseen, 0, 0, 0, None, False, reason, "")
    if method in ("elbow", "elbow_log"):
        rho, logarithmic = curve(counts, n_items), method == "elbow_log"
        found = elbows(rho, logarithmic=logarithmic)
        if not found.reason:
            return _of_elbows(method, found, counts, n_items, n_unseen, _nearby(rho, logarithmic))
        return _named(method, "quantile", _quantiles(counts, n_items), counts, n_items, n_unseen, found.reason)
    low_high = _quantiles(counts, n_items) if method == "quantile" else _share(counts, n_items, share)
    return _named(method, method, low_high, counts, n_items, n_unseen, "")


def _quantiles(counts: Ints, n_items: Ints) -> tuple[float, float]:
    """The counts that come nearest to a third and two thirds of the items at or below them; of equally near ones the
    first, and the last.
    """
    ends = np.concatenate([[0], np.cumsum(n_items)])
    below = np.concatenate([[0], counts])
    low, high = (np.abs(3 * ends - part * ends[-1]) for part in (1, 2))
    return float(below[low.argmin()]), float(below[high.size - 1 - high[::-1].argmin()])


def _share(counts: Ints, n_items: Ints, share: float) -> tuple[float, float]:
    """The largest count at or below which items hold at most this share of all counts, twice: there is no middle."""
    held = np.cumsum(counts * n_items)
    last = int(np.searchsorted(held, share * held[-1] * (1 + 1e-12), side="right"))
    at_most = float(counts[last - 1]) if last else 0.0
    return at_most, at_most


def _named(
    method: str, used: str, low_high: tuple[float, float], counts: Ints, n_items: Ints, n_unseen: int, reason: str
) -> Thresholds:
    low, high = low_high
    n_low, n_middle, n_high = _sizes(low, high, counts, n_items)
    empty = [
        name
        for name, n in zip(("low", "middle", "high"), (n_low, n_middle, n_high), strict=True)
        if not n and not (name == "middle" and used == "share")
    ]
    remark = f"no item is in class {' or '.join(empty)}" if empty else ""
    return Thresholds(method, used, low, high, n_unseen, n_low, n_middle, n_high, None, False, reason, remark)


def _of_elbows(
    method: str, found: Elbows, counts: Ints, n_items: Ints, n_unseen: int, nearby: list[Elbows]
) -> Thresholds:
    own = _named(method, method, (found.low_at_most, found.high_above), counts, n_items, n_unseen, "")
    sizes = [_sizes(one.low_at_most, one.high_above, counts, n_items) for one in nearby if not one.reason]
    low, high = ([size[n] for size in sizes] for n in (0, 2))
    stability = Stability((min(low), max(low)), (min(high), max(high)))
    moved = [
        name
        for name, n, ends in (("low", own.n_low, stability.n_low), ("high", own.n_high, stability.n_high))
        if max(n - ends[0], ends[1] - n) > FRAGILE * n
    ]
    remarks = [one for one in (own.remark, found.remark) if one]
    if moved:
        ranges = {"low": stability.n_low, "high": stability.n_high}
        shown = " and ".join(f"{name} has {ranges[name][0]:,} to {ranges[name][1]:,} items" for name in moved)
        remarks.append(f"fragile: over nearby smoothing windows {shown}; method elbow_log or share depends on less")
    if failed := sum(bool(one.reason) for one in nearby):
        remarks.append(f"{failed} of {len(nearby)} nearby smoothing windows give no elbows")
    fragile = bool(moved or failed)
    return own._replace(stability=stability, fragile=fragile, remark="; ".join(remarks))


def _nearby(rho: Floats, logarithmic: bool) -> list[Elbows]:
    """The elbows with other windows: 10 points more or less, and 0.5 to 1.5 times."""
    window = default_window(rho.size)
    windows = {window + n for n in range(-10, 11)} | {round(window * n / 10) for n in range(5, 16)}
    return [elbows(rho, w, logarithmic) for w in sorted(windows) if 5 <= w <= rho.size]


def _sizes(low: float, high: float, counts: Ints, n_items: Ints) -> tuple[int, int, int]:
    is_low, is_high = counts <= low, counts > high
    return int(n_items[is_low].sum()), int(n_items[~is_low & ~is_high].sum()), int(n_items[is_high].sum())
