"""Whether items were drawn uniformly: exposures per item against those expected from uniform drawing.

User u draws e_u of N_u candidates without replacement, each set of e_u as likely as any other. With p = e_u / N_u, item
i among the candidates is drawn

    E_i = sum p            V_i = sum p (1 - p)            sums over the users with i among their candidates

times, plus or minus sqrt(V_i). Two tests, each sensitive to deviations that the other misses:

    all items     T = sum_i (O_i - E_i)^2
    one item      O_i against the binomial of mean E_i over the users with i among their
                  candidates; the smallest p of all items, times their number (Bonferroni)

and of both together p = 2 min(p_all, p_one), which is Holm's correction of the smaller of two.

T is Pearson's chi-square but for its scale where users draw from all items: there V_i is the same for all, and with c_u
= p (1 - p) N_u / (N_u - 1), T / sum c_u has N - 1 degrees of freedom: the counts of a user sum to e_u, so X_ui and X_uj
have covariance -c_u / N_u, which takes one degree of freedom and puts N / (N - 1) on the rest. Where candidates differ,
T weighs an item by V_i instead of evenly. So it needs no grouping of items that expect few exposures, and its moments
are known: |X_u - p|^2 is a constant, so that T is a constant plus 2 sum_{u<v} (X_u - p_u).(X_v - p_v), whose terms are
uncorrelated. With d_i = sum of c_u over users with i among their candidates, m the mean of N_u weighted by c_u
(harmonic), r_u = 1 - 2 p_u:

    mean       sum_u e_u (1 - p_u) = sum_i V_i
    variance   2 [ (1 - 1/m) sum d_i^2  -  sum c_u^2 (N_u - 1) ]
    third      8 [ (1 - 1/m) sum d_i^3  -  3 (1 - 1/m) sum d_i^2 sum c_u^2 / sum c_u  +  2 sum c_u^3 (N_u - 1) ]
                   (three users)
               + 4 [ (sum c_u r_u / sum c_u)^2 (1 - 1/m) m / (m - 2) sum d_i^2
                     -  sum c_u^2 r_u^2 (N_u - 1) N_u / (N_u - 2) ]
                   (two users, hypergeometric)

exact where all users draw from the same items, however few exposures an item expects and however large e/N; elsewhere
off by the order of 1/N. p_all is the upper tail of the gamma distribution with these three moments (Pearson's type
III), half a step of T (T changes in steps of 2) below the value. Exposures that are more even than chance are no
failure.

Users with e_u = N_u had no choice of items and are left out. One user, or one item: there is no test (NaN). Items that
are no user's candidate (V_i = 0) are not tested.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammainc, gammaincc, ndtr

from eval_engine.statistics.exposure_moments import Draws, Floats, Overlap


class Chi(NamedTuple):
    """The test of all items."""

    statistic: float  # T, scaled to the mean and variance of a chi-square with `freedom` degrees of freedom
    freedom: float
    p: float


def chi_square(squares: float, total: Draws, dd: float, ddd: float) -> Chi:
    """The test of all items: squares is T, total the sum over users, dd and ddd are the sums over items of d_i^2
    and d_i^3.
    """
    if total.c <= 0:
        return Chi(math.nan, math.nan, math.nan)
    m = total.c / total.c_over_n
    kept = 1 - 1 / m
    variance = 2 * (kept * dd - total.cc_n)
    if variance <= 1e-9 * dd:
        return Chi(math.nan, math.nan, math.nan)
    three = kept * ddd - 3 * kept * dd * total.cc / total.c + 2 * total.ccc_n
    two = (total.skew / total.c) ** 2 * kept * m / max(m - 2, 1) * dd - total.skew_n
    spread = math.sqrt(variance)
    freedom = 2 * total.mean**2 / variance
    return Chi(
        freedom * squares / total.mean,
        freedom,
        gamma_tail((squares - 1 - total.mean) / spread, (8 * three + 4 * two) / spread**3),
    )


def gamma_tail(z: float, skewness: float) -> float:
    """P(Z >= z) of the shifted gamma distribution of mean 0, variance 1 and this skewness; skewness 0: normal."""
    if abs(skewness) < 1e-4:
        return float(ndtr(-z))
    shape = 4 / skewness**2
    tail, at = (gammaincc, z) if skewness > 0 else (gammainc, -z)
    return float(tail(shape, max(0.0, shape + math.sqrt(shape) * at)))


def two_sided(observed: npt.ArrayLike, mean: npt.ArrayLike, events: npt.ArrayLike) -> Floats:
    """Twice the tail probability of a count of independent Bernoulli events with this expected count; 0 < mean <
    events.

    The tail is the binomial's: exact where all events have the same probability; where probabilities differ, no sum
    with this mean has wider tails (Hoeffding 1956). A normal distribution would call a count of 49 where 25 are
    expected one in a million; it is one in 70,000.
    """
    o, mean, n = (np.asarray(x, np.float64) for x in (observed, mean, events))
    at_least = np.where(o > 0, betainc(np.maximum(o, 1), np.maximum(n - o, 0) + 1, mean / n), 1.0)
    at_most = np.where(o < n, betainc(np.maximum(n - o, 1), o + 1, 1 - mean / n), 1.0)
    return np.minimum(1.0, 2 * np.minimum(at_least, at_most))


def overlap_p(observed: int, expected: Overlap) -> tuple[float, float]:
    """z, and twice the tail probability of a number of overlaps: a gamma distribution with the three moments, and a
    continuity correction of half a step.
    """
    if expected.variance <= 0:
        return math.nan, math.nan
    spread = math.sqrt(expected.variance)
    skewness, above = expected.third / spread**3, observed - expected.mean
    tails = gamma_tail((above - 0.5) / spread, skewness), gamma_tail((-above - 0.5) / spread, -skewness)
    return above / spread, min(1.0, 2 * min(tails))


def both(p_all: float, p_one: float, n_items: int) -> float:
    """The p of the two tests together, p_one being the smallest of n items; an undefined test is ignored."""
    known = [p for p in (p_all, n_items * p_one) if not math.isnan(p)]
    return min(1.0, len(known) * min(known)) if known else math.nan


def rounded(x: float) -> float | None:
    """To 6 digits, so that the result does not depend on the order of addition; NaN becomes None."""
    return None if math.isnan(x) else float(f"{x:.6g}")
