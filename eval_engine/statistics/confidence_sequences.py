"""Asymptotic confidence sequences: intervals that hold at every look, not only at one that was planned.

    half-width = c(n) se,    c(n) = sqrt( 2 (n r^2 + 1) / (n r^2) ln( sqrt(n r^2 + 1) / alpha ) )
    r^2 = (-2 ln alpha + ln(-2 ln alpha) + 1) / n_0

[Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2024, Time-uniform central limit theory, eqs 10 and 14]. se is the
standard error of a mean, or of a ratio, over n users, and n grows from look to look. n_0 is the number of users at
which the sequence is tightest, about 1.5 times as wide as an ordinary interval; it must be fixed before the first look.
Over all looks, from some first n on, at most a share alpha of series ever leaves the truth out. A daily look at
ordinary intervals leaves it out sooner or later: the law of the iterated logarithm.

A difference from a fixed estimate of other users (a baseline with standard error se_0) has se^2 + se_0^2 in place of
se^2, and n se^2 / (se^2 + se_0^2) users: one over the variance is the time of a Brownian motion in both cases.

What it does not cover: values of separate days, or of a window that moves, are no growing sample; nor is a baseline
that moves. Undefined is NaN: no users, or no standard error.
"""

import numpy as np

from eval_engine.kernels.arrays import Floats


def sequence_factor(n_users: Floats | float, alpha: float, tightest_at: float) -> Floats:
    """Half-width over standard error after so many users. alpha: of both sides together.

    >>> round(float(sequence_factor(10_000, 0.05, tightest_at=10_000)), 3)
    3.035
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, found {alpha}")
    if not tightest_at > 0:
        raise ValueError(f"tightest_at is a number of users above 0, found {tightest_at}")
    n = np.asarray(n_users, np.float64)
    growth = np.where(n > 0, n, np.nan) * (_log_part(alpha) / tightest_at)  # n r^2
    return np.sqrt(2 * (growth + 1) / growth * np.log(np.sqrt(growth + 1) / alpha))


def _log_part(alpha: float) -> float:
    """r^2 n_0."""
    inside = -2 * np.log(alpha)
    return float(inside + np.log(inside) + 1)
