"""A ratio of sums over users, with its standard error and interval, from sums that merge exactly.

    R = A / B,    A = sum a_u,  B = sum b_u        over users with b_u > 0
    se = sqrt(n / (n - 1) * sum (a_u - R b_u)^2) / B       linearised (delta method), users independent
    interval = R -+ t_{n-1} se                             Student; of few hits or misses few_hits.py

With b_u = 1 this is the mean and its usual standard error. The five sums are exact: each user's a, b, aa, ab, bb is
rounded once to a multiple of 1e-12 and added as an integer, so any partitioning and any order of merging gives the same
bits. sum (a - R b)^2 = AA - 2 R AB + R^2 BB is taken in integers, where floats would cancel.

Undefined is NaN: no user (B = 0) has no value, a single user has no standard error. An unknown numerator is NaN: such
users are counted, and one of them makes the ratio undefined, since leaving them out would favour the model. Infinite
terms are errors, as is b < 0.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.statistics.few_hits import UNKNOWN_RANGE, Range, interval

Floats = npt.NDArray[np.float64]

SCALE = 10**12  # of the fixed point
LARGEST_SUM = 2**62  # of an int64 that is added to


class RatioSums(NamedTuple):
    """The sums over some users; integers, in units of 1e-12."""

    n_users: int  # with denominator > 0
    n_left_out: int  # with denominator 0
    a: int
    b: int
    aa: int
    ab: int
    bb: int
    n_unknown: int = 0  # with denominator > 0, and an unknown numerator


class Estimate(NamedTuple):
    """A value, its standard error and interval, and the numbers of users behind it."""

    value: float
    standard_error: float
    low: float
    high: float
    n_users: int
    n_left_out: int
    n_unknown: int = 0  # of the users; if there is one, the value is NaN


NO_USERS = RatioSums(0, 0, 0, 0, 0, 0, 0)


def ratio_sums(terms: tuple[Floats, Floats]) -> RatioSums:
    """The sums of these users; terms are their numerators and denominators."""
    a, b = (np.asarray(x, np.float64) for x in terms)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"a numerator and a denominator per user are expected, found shapes {a.shape} and {b.shape}")
    for u in np.flatnonzero(np.isinf(a) | ~np.isfinite(b) | (b < 0))[:1]:
        raise ValueError(
            f"user {u} has numerator {a[u]} and denominator {b[u]}: neither may be infinite, nor the denominator NaN "
            "or negative"
        )
    used, unknown = b > 0, np.isnan(a)
    n_unknown = int((used & unknown).sum())
    a, b = a[used & ~unknown], b[used & ~unknown]
    sums = exact_sum(a), exact_sum(b), exact_sum(a * a), exact_sum(a * b), exact_sum(b * b)
    return RatioSums(int(used.sum()), int((~used).sum()), *sums, n_unknown)


def merge(one: RatioSums, other: RatioSums) -> RatioSums:
    """The sums of both sets of users together."""
    return RatioSums(*(x + y for x, y in zip(one, other, strict=True)))


def estimate(sums: RatioSums, confidence: float, of: Range = UNKNOWN_RANGE) -> Estimate:
    """The ratio, its standard error and its two-sided interval. of: the values that it can take."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, found {confidence}")
    value, error = ratio(sums)
    if math.isnan(value):  # undefined: the one NaN, so that such estimates are equal
        return Estimate(math.nan, math.nan, math.nan, math.nan, sums.n_users, sums.n_left_out, sums.n_unknown)
    low, high = interval(value, error, effective_users(sums), sums.n_users - 1, confidence, of)
    return Estimate(value, error, float(low), float(high), sums.n_users, sums.n_left_out)


def ratio(sums: RatioSums) -> tuple[float, float]:
    """The ratio and its standard error."""
    return (math.nan, math.nan) if sums.b == 0 or sums.n_unknown else (sums.a / sums.b, _standard_error(sums))


def effective_users(sums: RatioSums) -> float:
    """B^2 / sum b^2: the number of users with equal denominators; at most the number of users."""
    return sums.b**2 / (sums.bb * SCALE) if sums.bb else 0.0


def _standard_error(sums: RatioSums) -> float:
    """From integers, which are exact and faster than fractions; the quotient of two integers is rounded once."""
    n, a, b = sums.n_users, sums.a, sums.b
    if n < 2:
        return math.nan
    squares = sums.aa * b * b - 2 * a * b * sums.ab + a * a * sums.bb  # below 0 only by the rounding of the products
    return math.sqrt(max(squares, 0) * SCALE * n / ((n - 1) * b**4))


def exact_sum(x: Floats) -> int:
    """The sum of the values, each rounded to a multiple of 1e-12, in units of 1e-12."""
    whole = np.floor(x)
    parts = np.rint((x - whole) * SCALE)
    largest = max(float(np.abs(whole).max(initial=0.0)), float(SCALE))
    if largest >= LARGEST_SUM:
        return sum(map(int, whole)) * SCALE + sum(map(int, parts))
    total = 0
    at_once = int(LARGEST_SUM // largest)  # the most that cannot overflow
    for start in range(0, x.size, at_once):
        some = slice(start, start + at_once)
        total += int(whole[some].astype(np.int64).sum()) * SCALE + int(parts[some].astype(np.int64).sum())
    return total
