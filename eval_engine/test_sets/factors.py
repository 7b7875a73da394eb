"""The factors of users and items in the weight of a pair, from counts of pairs: w(u, i) = factor(u) factor(i).

    WTD, WTD_H    factor(u) = w_u, factor(i) = w_i^q;   w = P_mar / P_mnar,   P_mnar = count / total of the training
    pairs
    SKEW          factor(u) = 1, factor(i) = 1 / count
    REG, FULL     1

Zero support: strategies.py. A factor of 0 means that no pair of the user or item can be drawn. Constant factors of all
weights change no draw, so that under laplace the number of users and items does not matter.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.test_sets.strategies import Weighing

Doubles = npt.NDArray[np.float64]
LEAST, LARGEST = 1e-290, 1e290  # weights: log(U) / w of a weight between them is neither 0 nor infinite

SMALLEST = 5e-324  # not 0, which would mean that a pair cannot be drawn: the pair is named in an error instead


class Counts(NamedTuple):
    """Pairs of each user, or of each item."""

    trained: npt.NDArray[np.int64]  # training pairs
    random: npt.NDArray[np.int64] | None  # pairs of the random sample


class Totals(NamedTuple):
    """The sums of counts, and how many users or items there are."""

    n_trained: int
    n_random: int
    n: int  # users, or items


def user_factors(weighing: Weighing, counts: Counts, totals: Totals) -> Doubles:
    """factor(u) of each user."""
    if weighing.strategy in ("WTD", "WTD_H"):
        return _ratio(weighing, counts, totals)
    return np.ones(counts.trained.size)


def item_factors(weighing: Weighing, counts: Counts, totals: Totals) -> Doubles:
    """factor(i) of each item."""
    if weighing.strategy in ("WTD", "WTD_H"):
        w = _ratio(weighing, counts, totals)
        if weighing.exponent == 2:
            return w * w  # the same on every platform
        with np.errstate(over="ignore", under="ignore"):
            return w if weighing.exponent == 1 else np.where(w > 0, np.maximum(w**weighing.exponent, SMALLEST), 0.0)
    if weighing.strategy == "SKEW":
        n = counts.trained.astype(np.float64)
        if weighing.zero_support == "laplace":
            return 1 / (n + 1)
        return np.where(n > 0, 1 / np.maximum(n, 1), 1.0 if weighing.zero_support == "missing_is_one" else 0.0)
    return np.ones(counts.trained.size)


def without_support(weighing: Weighing, counts: Counts, of: str) -> npt.NDArray[np.bool_]:
    """Whether a user or item (of: user, item) has no support."""
    if weighing.strategy in ("WTD", "WTD_H"):
        missing = counts.trained == 0
        return missing | (counts.random == 0) if weighing.strategy == "WTD" and counts.random is not None else missing
    if weighing.strategy == "SKEW" and of == "item":
        return counts.trained == 0
    return np.zeros(counts.trained.size, np.bool_)


def _ratio(weighing: Weighing, counts: Counts, totals: Totals) -> Doubles:
    """P_mar / P_mnar of each user or item."""
    add = int(weighing.zero_support == "laplace")
    logged = (counts.trained + add) / (totals.n_trained + add * totals.n)
    if weighing.strategy == "WTD":
        assert counts.random is not None
        target = (counts.random + add) / (totals.n_random + add * totals.n)
    else:
        target = np.full(logged.size, 1 / totals.n if totals.n else np.nan)
    missing = 1.0 if weighing.zero_support == "missing_is_one" else 0.0
    known = (logged > 0) & (target > 0)
    return np.where(known, target / np.where(known, logged, 1.0), missing)
