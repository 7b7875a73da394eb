"""Whether propensities are right, held against random exposure.

What SNIPS needs of propensities is that held-out positives, weighted by 1/p, are spread over the items as all positives
are. Random exposure says how all positives are spread. So items are put into ten groups by their number of logged pairs
(equal_count over held-out pairs, strata.py), and for each group

    heldout_share     its share of the held-out positives: the bias before weighting
    weighted_share    its share of the sum of 1/p over held-out positives
    random_share      its share of the randomly exposed positives, by 1 / exposure_probability

are set side by side. Right propensities make weighted_share and random_share equal but for noise. Shares need no scale:
most methods know p up to a factor only. Group 0 has the items that were never logged: no weight reaches them, and
its random_share is the part of the positives that no estimate from this log can see.

    distance = 1/2 sum over groups of |share - random_share|     0: equal; 1: nothing in common
    noise    = 1/2 sum over groups of sqrt(2 s (1 - s) / (pi n))   what n random positives give by chance alone
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.propensity.item_counts import Histogram
from eval_engine.propensity.strata import MOST, strata_edges, strata_of


class Group(NamedTuple):
    """The items of one group: a row of propensity_calibration, without run_id."""

    group: int
    count_low: int
    count_high: int
    n_items: int
    heldout: int
    positives: int
    random_positives: int
    heldout_share: float | None
    weighted_share: float | None
    random_share: float | None


class Calibration(NamedTuple):
    """The groups, and how far the shares are from those of random exposure; None without any."""

    groups: list[Group]
    distance_heldout: float | None
    distance_weighted: float | None
    distance_noise: float | None


def calibration(items: Histogram, weights: npt.NDArray[np.float64]) -> Calibration:
    """The groups of items; weights: the sum of 1/p over the held-out positives of the items with each count."""
    number = _groups(items)
    n_groups = int(number.max(initial=0)) + 1
    shares = {
        name: _shares(number, sums, n_groups)
        for name, sums in {"heldout": items.positives, "weighted": weights, "random": items.random_inverse}.items()
    }
    groups = []
    for group in np.unique(number):
        inside = number == group
        sums = [int(c[inside].sum()) for c in (items.n_items, items.heldout, items.positives, items.random)]
        counts = items.counts[inside]
        share = [None if s is None else float(s[group]) for s in shares.values()]
        groups.append(Group(int(group), int(counts.min()), int(counts.max()), *sums, *share))
    random, n_random = shares["random"], int(items.random.sum())
    if random is None:
        return Calibration(groups, None, None, None)
    noise = float(np.sqrt(2 * random * (1 - random) / (np.pi * n_random)).sum() / 2)
    return Calibration(groups, _distance(shares["heldout"], random), _distance(shares["weighted"], random), noise)


def _groups(items: Histogram) -> npt.NDArray[np.int64]:
    """The group of each count."""
    number = np.zeros(items.counts.size, np.int64)
    logged = items.counts > 0
    tested = int((logged & (items.heldout > 0)).sum())
    if tested:
        counts, heldout = items.counts[logged].astype(float), items.heldout[logged]
        edges = strata_edges(counts, heldout, min(MOST, tested), "equal_count")
        number[logged] = strata_of(counts, edges)
    else:
        number[logged] = 1
    return number


def _shares(number: npt.NDArray[np.int64], sums: npt.ArrayLike, n_groups: int) -> npt.NDArray[np.float64] | None:
    by_group = np.bincount(number, weights=np.asarray(sums, float), minlength=n_groups)
    return by_group / by_group.sum() if by_group.sum() > 0 else None


def _distance(share: npt.NDArray[np.float64] | None, random: npt.NDArray[np.float64]) -> float | None:
    return None if share is None else float(np.abs(share - random).sum() / 2)
