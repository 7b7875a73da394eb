"""Propensities from popularity: item counts n follow a power law P(n) ~ n^-alpha from xmin on, and the chance of an
item to be logged is

    power    p_i ~ n_i^((gamma + 1) / 2)    [simpson] eq. 7, for all n_i >= 1; gamma is given, or the fitted alpha

scaled so that the largest count has propensity 1. An item that was never logged has no propensity: NaN.

Fit (Clauset, Shalizi and Newman 2009), counts of 0 left out. Each distinct count but the largest is tried as xmin:

    closed_form    alpha = 1 + n_tail / sum_{x >= xmin} ln(x / (xmin - 1/2))
    exact          the alpha > 1 of largest likelihood, -n_tail ln zeta(alpha, xmin) - alpha sum_{x >= xmin} ln x
    KS             max over the distinct counts x >= xmin of
                   | #(xmin <= X < x) / n_tail - (1 - zeta(alpha, x) / zeta(alpha, xmin)) |

The xmin of least KS is chosen, the first of equals. closed_form is what the package powerlaw computes with
discrete=True, estimate_discrete=True, and what the numbers of [simpson] were made with. The empirical share is that of
counts below x, as there; with counts up to x, another xmin would be chosen in a quarter of cases.

Only the distinct counts are needed, and how many items have each.
"""

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.errors import DataError
from eval_engine.propensity.zeta import scaled_log_zeta

Method = Literal["closed_form", "exact"]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
STEP = 1e-20  # of the complex step, by which ln zeta is differentiated
COARSE = 64  # every 64th count is looked at first


class PowerLaw(NamedTuple):
    """A power law fitted to item counts."""

    alpha: float
    xmin: int
    ks: float  # distance of the fit from the counts, 0 to 1
    n_tail: int  # items with a count of xmin or more
    largest: int  # count

    def propensity(self, n: npt.ArrayLike, gamma: float | None = None) -> Doubles:
        """The propensity of items with these counts; gamma: alpha unless given."""
        return power(n, self.alpha if gamma is None else gamma, self.largest)


def power_law(counts: npt.ArrayLike, method: Method = "closed_form") -> PowerLaw:
    """The power law of the counts, one for each item.

    >>> law = power_law([1] * 600 + [2] * 150 + [3] * 70 + [5] * 20 + [9] * 6 + [30])
    >>> round(law.alpha, 3), law.xmin
    (2.907, 2)
    >>> law.propensity([30, 3, 0]).round(4).tolist()
    [1.0, 0.0111, nan]
    """
    values, numbers = np.unique(whole_counts(counts), return_counts=True)
    return fit_power_law(values, numbers, method)


def fit_power_law(values: Ints, numbers: Ints, method: Method = "closed_form") -> PowerLaw:
    """The power law of counts, given as distinct values in rising order, and how many items have each."""
    values, numbers = values[values > 0], numbers[values > 0]
    if values.size < 2:
        raise DataError(
            f"item counts: {values.size} different counts above 0, but a power law is fitted to two or more. "
            "Give gamma, or another method of propensity."
        )
    x, log_x = values.astype(float), np.log(values)
    n_tail: Ints = numbers[::-1].cumsum()[::-1][:-1]  # of each count and those above it
    logs: Doubles = (numbers * log_x)[::-1].cumsum()[::-1][:-1]
    if method == "closed_form":
        alphas = 1 + n_tail / (logs - n_tail * np.log(x[:-1] - 0.5))
    elif method == "exact":
        alphas = _most_likely(x[:-1], logs / n_tail - log_x[:-1])
    else:
        raise ValueError(f"method {method!r} is not known: closed_form, exact")
    first, ks = _least_ks(x, log_x, numbers, alphas)
    return PowerLaw(float(alphas[first]), int(values[first]), ks, int(n_tail[first]), int(values[-1]))


def power(n: npt.ArrayLike, gamma: float, largest: int) -> Doubles:
    """n^((gamma + 1) / 2), scaled to 1 at the largest count; NaN for a count of 0."""
    counts = whole_counts(n)
    return as_propensity(counts, np.log(np.maximum(counts, 1) / largest) * (gamma + 1) / 2, f"gamma = {gamma:g}")


def as_propensity(counts: Ints, log_propensity: Doubles, setting: str) -> Doubles:
    """The propensities of these logarithms, NaN where the count is 0; an error if one is too small for a double."""
    propensity = np.where(counts > 0, np.exp(log_propensity), np.nan)
    if (zero := propensity == 0).any():
        raise DataError(
            f"propensity: items with {counts[zero].max():,} logged pairs get a propensity of 0 with {setting}, so that "
            "1/propensity is infinite. Counts this concentrated follow no power law: give gamma, 1 to 3 as a rule."
        )
    return propensity


def whole_counts(n: npt.ArrayLike) -> Ints:
    """Counts as integers; an error if one is none."""
    counts = np.asarray(n)
    if counts.dtype.kind not in "iu" and not (counts == np.floor(counts)).all():
        raise DataError(f"item counts: {counts[counts != np.floor(counts)][0]} is not a whole number.")
    if counts.size and counts.min() < 0:
        raise DataError(f"item counts: {counts.min()} is below 0. A count is a number of logged pairs.")
    return counts.astype(np.int64)


def _most_likely(xmin: Doubles, mean_log: Doubles) -> Doubles:
    """The alpha of largest likelihood for each xmin; mean_log: of ln(x / xmin) over the tail.

    The likelihood is concave in alpha; its derivative is 0 where the mean of ln(x / xmin) under the law,
    -d/dalpha ln(xmin^alpha zeta(alpha, xmin)), equals mean_log. Found by bisection of ln(alpha - 1).
    """

    def too_small(alpha: Doubles) -> npt.NDArray[np.bool_]:
        return -scaled_log_zeta(alpha + 1j * STEP, xmin).imag / STEP > mean_log

    low, high = np.full(xmin.size, -30.0), np.log(1 / mean_log + 10)
    while (more := too_small(1 + np.exp(high))).any():
        high[more] += 1
    for _ in range(64):
        middle = (low + high) / 2
        small = too_small(1 + np.exp(middle))
        low, high = np.where(small, middle, low), np.where(small, high, middle)
    return 1 + np.exp((low + high) / 2)


def _least_ks(x: Doubles, log_x: Doubles, numbers: Ints, alphas: Doubles) -> tuple[int, float]:
    """The place of the first xmin of least KS, and its KS.

    Some xmin are tried first, so that others can be given up after a few counts. That changes no result.
    """
    below = np.concatenate([[0], np.cumsum(numbers)])[:-1]  # items with a smaller count
    n_items = int(numbers.sum())
    best, least = -1, np.inf
    coarse = np.arange(0, alphas.size, COARSE)
    for first in (*coarse, *np.setdiff1d(np.arange(alphas.size), coarse)):
        alpha, n_tail = alphas[first], n_items - below[first]
        at_first = scaled_log_zeta(alpha, x[first])
        ks = 0.0
        for stride in (COARSE, 1):
            tail = slice(first, None, stride)
            log_above = -alpha * (log_x[tail] - log_x[first]) + scaled_log_zeta(alpha, x[tail]) - at_first
            empirical = (below[tail] - below[first]) / n_tail
            ks = float(np.abs(empirical + np.expm1(log_above)).max())
            if ks > least:
                break
        if ks < least or (ks == least and first < best):
            best, least = int(first), ks
    return best, least
