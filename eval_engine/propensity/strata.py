"""Strata of the propensity of test pairs: edges from all test pairs, right-closed, numbered from 1 (least propensity).

    equal_width    X intervals of equal length between the least and the largest propensity of a test pair. As published
                   code does it: counts are skewed, so that 90 to 99 % of the pairs are in stratum 1
    equal_count    stratum 1 + floor(X (F(p-) + F(p)) / 2), F the distribution of propensities over test pairs: about
                   equally many pairs in each, and pairs of equal propensity in one

X is 1 to 10. A stratum may hold no pair: equal_count leaves one out where a single propensity holds more than 1/X of
the pairs. Only the distinct propensities are needed, and how many test pairs have each; strata_search.py does without
them.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from eval_engine.errors import ConfigError, DataError

Kind = Literal["equal_width", "equal_count"]
Doubles = npt.NDArray[np.float64]
MOST = 10  # strata


def strata_edges(propensity: npt.ArrayLike, n_pairs: npt.ArrayLike, n_strata: int, kind: Kind) -> Doubles:
    """The upper edges of all strata but the last, in rising order; n_pairs: test pairs with each propensity.

    >>> strata_edges([0.1, 0.2, 0.4, 0.9], [50, 25, 20, 5], 2, "equal_width").tolist()
    [0.5]
    >>> strata_edges([0.1, 0.2, 0.4, 0.9], [50, 25, 20, 5], 2, "equal_count").tolist()
    [0.1]
    """
    if not 1 <= n_strata <= MOST:
        raise ConfigError(f"strata: {n_strata} strata, but 1 to {MOST} are possible.")
    p, n = _distinct(propensity, n_pairs)
    refuse_few(n_strata, p.size)
    if kind == "equal_width":
        return equal_width_edges(p[0], p[-1], n_strata)
    if kind != "equal_count":
        raise ConfigError(f"strata: kind {kind!r} is not known: equal_width, equal_count.")
    below = np.cumsum(n) - n
    numbers = 1 + n_strata * (2 * below + n) // (2 * int(n.sum()))  # in integers, so exact
    last = np.searchsorted(numbers, np.arange(1, n_strata), side="right")
    return np.concatenate([[-np.inf], p])[last]  # -inf: the first strata hold no pair


def equal_width_edges(low: float, high: float, n_strata: int) -> Doubles:
    """The inner edges of intervals of equal length; low, high: the least and the largest propensity of a test pair."""
    inner = np.arange(1, n_strata) / n_strata
    return low * (1 - inner) + high * inner


def strata_of(propensity: npt.ArrayLike, edges: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The stratum of each propensity, 1 to len(edges) + 1; an error if one is missing.

    >>> strata_of([0.1, 0.5, 0.6], [0.5]).tolist()
    [1, 1, 2]
    """
    p = np.asarray(propensity, float)
    refuse_undefined(p)
    return 1 + np.searchsorted(np.asarray(edges, float), p, side="left")


def _distinct(propensity: npt.ArrayLike, n_pairs: npt.ArrayLike) -> tuple[Doubles, npt.NDArray[np.int64]]:
    """The different propensities that test pairs have, in rising order, and the number of pairs of each."""
    p, n = np.asarray(propensity, float), np.asarray(n_pairs, np.int64)
    p, n = p[n > 0], n[n > 0]
    if not p.size:
        raise DataError(no_pairs())
    refuse_undefined(p)
    values, place = np.unique(p, return_inverse=True)
    return values, np.bincount(place, weights=n).astype(np.int64)


def no_pairs() -> str:
    """The message where there is nothing to put into strata."""
    return "strata: there are no test pairs. Give held-out pairs as inputs.heldout."


def refuse_few(n_strata: int, n_distinct: int) -> None:
    """An error if there are fewer different propensities than strata."""
    if n_distinct < n_strata:
        raise DataError(
            f"strata: {n_strata} strata of test pairs with {n_distinct} different propensities, so that some strata "
            f"would be empty whatever their edges are. Use at most {n_distinct} strata, or none: evaluate.strata: []."
        )


def refuse_undefined(p: Doubles) -> None:
    """An error if a propensity is NaN, or not above 0."""
    bad = ~(p > 0)
    if bad.any():
        raise DataError(
            f"strata: {bad.sum():,} of {p.size:,} propensities are missing or not above 0 (first: {p[bad][0]}). "
            "Run jobs/propensity.py on this feedback."
        )
