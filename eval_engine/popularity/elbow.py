"""The two elbows of a popularity curve [bqs] 3.2, 4.3: where items stop being rarely, and begin to be very often liked.

    rho   the counts of the items in rising order, counts above 0 only
    s     = savgol(rho, window w, order 2)             w = max(5, N // 5)
    idx   = the first index with |d2| <= min |d2| + 1e-12 max s      d2: second differences of s
    left  = elbow of (x, -s) on [0, idx)       low: rho <= rho[left]
    right = elbow of (x, s) on [idx, N)        high: rho > rho[right]

The elbow of a curve: both axes scaled to [0, 1] and rotated by minus the angle of the chord; the lowest point. Of
points within 1e-9 of the lowest, the last on the left side and the first on the right side: otherwise rounding would
decide.

The result depends on the window (stability.py): an inflection point is where a second difference is nearest to 0, and a
curve may have several. Above MOST_POINTS items the curve is read at that many evenly spaced places.
"""

from typing import NamedTuple

import numpy as np
from scipy.signal import savgol_filter

from eval_engine.kernels.arrays import Floats, Ints

FEWEST = 25  # items
MOST_POINTS = 50_000  # of a curve: the cost of smoothing grows with the square
TIED = 1e-9  # heights of a curve that is scaled to [0, 1]
ZERO = 1e-12  # of second differences, relative to the largest count


class Elbows(NamedTuple):
    """Counts at the elbows; NaN and a reason where the curve has none."""

    low_at_most: float
    high_above: float
    inflection: int  # index, from 0
    reason: str  # why there are none; empty otherwise
    remark: str  # what else is to be known


NONE = Elbows(np.nan, np.nan, -1, "", "")


def curve(counts: Ints, n_items: Ints) -> Floats:
    """The counts in rising order, of distinct counts and the number of items with each."""
    order = np.argsort(counts)
    ends = np.cumsum(n_items[order])
    total = int(ends[-1]) if ends.size else 0
    place = np.arange(total)
    if total > MOST_POINTS:
        place = np.round(np.linspace(0, total - 1, MOST_POINTS)).astype(np.int64)
    return counts[order][np.searchsorted(ends, place, side="right")].astype(np.float64)


def default_window(n: int) -> int:
    """The number of points that are smoothed together."""
    return max(5, n // 5)


def elbows(rho: Floats, window: int | None = None, logarithmic: bool = False) -> Elbows:
    """The elbows of a rising curve of counts above 0."""
    n_distinct = np.unique(rho).size
    if rho.size < FEWEST:
        return NONE._replace(reason=f"fewer than {FEWEST} items have a count")
    if n_distinct < 3:
        return NONE._replace(reason=f"the items have {n_distinct} different counts, and 3 are needed")
    y = np.log(rho) if logarithmic else rho
    s = savgol_filter(y, min(rho.size, max(5, window or default_window(rho.size))), 2)
    bent = np.abs(np.diff(s, 2))
    idx = int(np.argmax(bent <= bent.min() + ZERO * np.abs(s).max()))
    if idx < 2:
        return NONE._replace(inflection=idx, reason="the curve has its inflection point at its beginning")
    left, right = elbow(-s[:idx], last=True), idx + elbow(s[idx:], last=False)
    remark = "the curve has no left elbow" if left == idx - 1 else ""
    return Elbows(float(rho[left]), float(rho[right]), idx, "", remark)


def elbow(y: Floats, last: bool) -> int:
    """The index of the lowest point after rotation; of equal ones the last, or the first."""
    height = rotated(y)
    lowest = np.flatnonzero(height <= height.min() + TIED)
    return int(lowest[-1 if last else 0])


def rotated(y: Floats) -> Floats:
    """The heights of points (0, y[0]), (1, y[1]) .. in the unit square, rotated so that the chord is level."""
    x = np.linspace(0.0, 1.0, y.size) if y.size > 1 else np.zeros(1)
    span = y.max() - y.min()
    scaled = (y - y.min()) / span if span > 0 else np.zeros(y.size)
    angle = np.arctan2(scaled[-1] - scaled[0], x[-1] - x[0])
    heights: Floats = np.cos(angle) * scaled - np.sin(angle) * x
    return heights
