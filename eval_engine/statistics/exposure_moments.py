"""Moments of uniform drawing by user and by item, numpy only: the terms of the tests in statistics/uniformity.py.

A user draws e of N candidates without replacement.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
MOST = 4096.0


class Draws(NamedTuple):
    """Terms of the moments of T, per user or summed over users."""

    p: Any
    variance: Any  # p (1 - p)
    mean: Any  # e (1 - p)
    c: Any
    c_over_n: Any
    cc: Any
    cc_n: Any  # c^2 (N - 1)
    ccc_n: Any  # c^3 (N - 1)
    skew: Any  # c (1 - 2 p)
    skew_n: Any  # c^2 (1 - 2 p)^2 (N - 1) N / (N - 2)


def draws(exposed: Ints, candidates: Ints) -> Draws:
    """The terms of each user; 0 < exposed <= candidates."""
    e, n = np.asarray(exposed, np.float64), np.asarray(candidates, np.float64)
    p = e / n
    variance = p * (1 - p)
    c = variance * n / np.maximum(n - 1, 1)
    skewed = c * (1 - 2 * p)
    return Draws(
        p,
        variance,
        e * (1 - p),
        c,
        c / n,
        c * c,
        c * c * (n - 1),
        c**3 * (n - 1),
        skewed,
        skewed**2 * (n - 1) * n / np.maximum(n - 2, 1),
    )


class Overlap(NamedTuple):
    """Moments of the number of logged items among the exposed, per user or summed over users."""

    mean: Any
    variance: Any
    third: Any


def overlap(exposed: Ints, logged: Ints, n_items: int) -> Overlap:
    """The moments for each user who draws this many of all items: hypergeometric."""
    e, n = np.asarray(exposed, np.float64), float(n_items)
    share = np.asarray(logged, np.float64) / n
    mean = e * share
    variance = mean * (1 - share) * (n - e) / max(n - 1, 1)
    return Overlap(mean, variance, variance * (n - 2 * e) * (1 - 2 * share) / max(n - 2, 1))


class Frames(NamedTuple):
    """Powers of d = (sum of 1 / p over a user's exposures) / (the user's candidates) - 1, per user or summed."""

    d: Any
    dd: Any
    ddd: Any


def frames(inverse: Floats, candidates: Ints) -> Frames:
    """The terms of each user; inverse: the sum of 1 / p. d is cut at MOST, so that sums of its powers stay exact."""
    d = np.minimum(inverse / np.asarray(candidates, np.float64) - 1, MOST)
    return Frames(d, d**2, d**3)


def deviance(observed: Floats, mean: Floats, events: Floats) -> Floats:
    """Twice the log-likelihood ratio of each count against a binomial with this mean and number of events. It orders
    counts by their tail probabilities, and z does not: a count of 3 where 0.1 is expected is less extreme than one of
    60 where 25 are expected.
    """
    missed, others = events - observed, events - mean
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.where(observed > 0, observed * np.log(observed / mean), 0.0)
        misses = np.where(missed > 0, missed * np.log1p((mean - observed) / others), 0.0)
    return np.asarray(np.maximum(0.0, 2 * (hits + misses)))
