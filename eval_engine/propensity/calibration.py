"""Whether propensities are right, held against random exposure.

What SNIPS needs of propensities is that held-out positives, weighted by 1/p, are spread over the items as all positives
are. Random exposure says how all positives are spread. So items are put into ten groups by their number of training
pairs (equal_count over held-out pairs, strata.py), and for each group

    heldout_share     its share of the held-out positives: the bias before weighting
    weighted_share    its share of the sum of 1/p over held-out positives
    random_share      its share of the randomly exposed positives, by 1 / exposure_probability

are set side by side. Right propensities make weighted_share and random_share equal but for noise. Shares need no scale:
most methods know p up to a factor only. Group 0 has the items without training pairs. Items in it that are not held
out either are out of reach of any weight.

Groups are by training pairs, not by all logged pairs: the second would put items into a group by the very pairs that
are weighted there. In a simulated log with true p, distance was 0.108 in this way, and 0.052 by training
pairs.

    distance = 1/2 sum over groups of |share - random_share|     0: equal; 1: nothing in common
    noise    = 1/2 sum over groups of sqrt(2 / pi (v + v'))      what right propensities give by chance, on average

v = s (1 - s) / n is the variance of a group's share s of n random positives, v' that of its weighted share:
sum over held-out positives of ((1 in the group, else 0) - share)^2 / p^2, over the square of the sum of 1/p.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.propensity.item_counts import Histogram
from eval_engine.propensity.power_law import Doubles
from eval_engine.propensity.strata import MOST, strata_edges


class Group(NamedTuple):
    """The items of one group: a row of propensity_calibration, without run_id."""

    group: int
    trained_low: int
    trained_high: int
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


def calibration(items: Histogram, weights: Doubles, squares: Doubles) -> Calibration:
    """The groups of items; weights, squares: sums of 1/p and 1/p^2 over the held-out positives of each row of items."""
    number = items.group
    n_groups = int(number.max(initial=0)) + 1
    shares = {
        name: _shares(number, sums, n_groups)
        for name, sums in {"heldout": items.positives, "weighted": weights, "random": items.random_inverse}.items()
    }
    groups = []
    for group in np.unique(number):
        inside = number == group
        sums = [int(c[inside].sum()) for c in (items.n_items, items.heldout, items.positives, items.random)]
        trained = int(items.trained_low[inside].min()), int(items.trained_high[inside].max())
        share = [None if s is None else float(s[group]) for s in shares.values()]
        groups.append(Group(int(group), *trained, *sums, *share))
    random, n_random = shares["random"], int(items.random.sum())
    if random is None:
        return Calibration(groups, None, None, None)
    variance = random * (1 - random) / n_random
    if (share_weighted := shares["weighted"]) is not None:
        inside_group = np.bincount(number, weights=squares, minlength=n_groups)
        outside_group = squares.sum() - inside_group
        moved = (1 - share_weighted) ** 2 * inside_group + share_weighted**2 * outside_group
        variance = variance + moved / weights.sum() ** 2
    noise = float(np.sqrt(2 / np.pi * variance).sum() / 2)
    return Calibration(groups, _distance(shares["heldout"], random), _distance(shares["weighted"], random), noise)


def group_edges(items: DataFrame) -> list[float]:
    """The edges of the groups, in training pairs per item: one Spark job, a row for each distinct number of them."""
    known = items.where(F.col("in_catalogue") & (F.col("trained") > 0) & (F.col("heldout") > 0))
    rows = known.groupBy("trained").agg(F.sum("heldout").alias("heldout")).collect()
    if not rows:
        return []
    trained, heldout = [float(row["trained"]) for row in rows], [int(row["heldout"]) for row in rows]
    return [float(edge) for edge in strata_edges(trained, heldout, min(MOST, len(rows)), "equal_count")]


def _shares(number: npt.NDArray[np.int64], sums: npt.ArrayLike, n_groups: int) -> npt.NDArray[np.float64] | None:
    by_group = np.bincount(number, weights=np.asarray(sums, float), minlength=n_groups)
    return by_group / by_group.sum() if by_group.sum() > 0 else None


def _distance(share: npt.NDArray[np.float64] | None, random: npt.NDArray[np.float64]) -> float | None:
    return None if share is None else float(np.abs(share - random).sum() / 2)
