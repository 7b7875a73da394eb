"""Every pair of models: which is better, by how much, how surely, and how many users it would take to tell.

    D = R_i - R_j,  se of its linearised errors, t = t_{G-1}                  paired.py
    interval = D -+ t_{(1 + confidence) / 2} se,    p = 2 P(t > |D| / se)
    p_holm, p_fdr: p adjusted over all defined pairs of the call              multiplicity.py

    no worse: T = R_i - (1 - margin) R_j > 0, se of e_i - (1 - margin) e_j,   p_no_worse_first = P(t > T / se)
    and p_no_worse_second with i and j swapped. Both below 1 - confidence: the models are equivalent (two one-sided tests). Not adjusted.
    The margin is relative, so it is for values above 0 of which more is better.

    users_needed = n_users ((z_{(1 + confidence) / 2} + z_power) se / |D|)^2, rounded up: as se falls with the root of the users

se = 0: what is seen is certain. Identical models have D = 0, interval [0, 0], p = 1; another D has p = 0; T <= 0 has p = 1, T > 0 has p = 0.
Undefined is NaN, and users_needed None: a model without value, fewer than two buckets; users_needed also if D = 0, or beyond 64 bits.
"""

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from eval_engine.statistics.multiplicity import benjamini_hochberg, holm
from eval_engine.statistics.paired import Difference, Paired, difference

MOST_USERS = 2**63 - 1  # a BIGINT


class Comparison(NamedTuple):
    """What is known of one model against another; first and second are their rows."""

    first: int
    second: int
    difference: float  # first - second
    standard_error: float
    low: float
    high: float
    p: float
    p_holm: float
    p_fdr: float
    p_no_worse_first: float  # small: the first is no worse than the second by more than the margin
    p_no_worse_second: float
    users_needed: int | None


def compare(models: Paired, n_users: int, confidence: float, margin: float, power: float = 0.8) -> list[Comparison]:
    """Every pair of models, (0, 1), (0, 2), .. (1, 2), ..; n_users are those that the values rest on."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, found {confidence}")
    if not 0 <= margin < 1:
        raise ValueError(f"margin must be a share from 0 to below 1, found {margin}")
    if not (1 - confidence) / 2 < power < 1:
        raise ValueError(
            f"power must be below 1 and above (1 - confidence) / 2 = {(1 - confidence) / 2:g}, found {power}"
        )
    if n_users < 0:
        raise ValueError(f"n_users cannot be negative, found {n_users}")
    spread = float(stdtrit(max(models.n_units - 1, 1), (1 + confidence) / 2))
    effect = float(ndtri((1 + confidence) / 2) + ndtri(power))  # in standard errors, seen with this power
    pairs = list(combinations(range(len(models.values)), 2))
    differences = [difference(models, i, j) for i, j in pairs]
    p = np.array([_two_sided(d) for d in differences], np.float64)
    return [
        Comparison(
            first=i,
            second=j,
            difference=d.value,
            standard_error=d.standard_error,
            low=d.value - spread * d.standard_error,
            high=d.value + spread * d.standard_error,
            p=float(p[n]),
            p_holm=float(p_holm),
            p_fdr=float(p_fdr),
            p_no_worse_first=_above_zero(difference(models, i, j, 1 - margin)),
            p_no_worse_second=_above_zero(difference(models, j, i, 1 - margin)),
            users_needed=_users_needed(d, n_users, effect),
        )
        for n, ((i, j), d, p_holm, p_fdr) in enumerate(
            zip(pairs, differences, holm(p), benjamini_hochberg(p), strict=True)
        )
    ]


def _two_sided(d: Difference) -> float:
    """p of no difference."""
    if d.standard_error == 0:
        return 1.0 if d.value == 0 else 0.0
    return float(2 * stdtr(d.degrees, -abs(d.value) / d.standard_error)) if d.degrees else math.nan


def _above_zero(d: Difference) -> float:
    """p of a difference of 0 or less."""
    if d.standard_error == 0:
        return 0.0 if d.value > 0 else 1.0
    return float(stdtr(d.degrees, -d.value / d.standard_error)) if d.degrees else math.nan


def _users_needed(d: Difference, n_users: int, effect: float) -> int | None:
    if d.value == 0 or n_users == 0:
        return None
    ratio = effect * d.standard_error / abs(d.value)
    users = n_users * ratio * ratio  # NaN, or inf
    return max(1, math.ceil(users)) if users < MOST_USERS else None
