"""Every pair of models: which is better, by how much, with what certainty, and how many users would show the
difference.

    D = R_i - R_j,  se of its linearised errors, t = t_{G-1}                  paired.py
    interval = D -+ t_{(1 + confidence) / 2} se,    p = 2 P(t > |D| / se)
    p_holm, p_fdr: p adjusted over all defined pairs of the call              multiplicity.py

    no worse: T = R_i - (1 - margin) R_j > 0, se of e_i - (1 - margin) e_j,   p_no_worse_first = P(t > T / se)
    and p_no_worse_second with i and j swapped. Both below 1 - confidence: the models are equivalent (two one-sided
    tests). Not adjusted. The margin is relative, so it is for values above 0 of which more is better.

    users_needed = n_users ((z_{(1 + confidence) / 2} + z_power) se / |D|)^2, rounded up;
    se is proportional to 1 / sqrt(n_users)

se = 0: the difference has no sampling error. Identical models have D = 0, interval [0, 0], p = 1; another D has p = 0;
T <= 0 has p = 1, T > 0 has p = 0. Undefined is NaN, and users_needed None: a model without value, fewer than two
buckets; users_needed also if D = 0, or beyond 64 bits.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from eval_engine.kernels.arrays import Floats, Ints
from eval_engine.statistics.multiplicity import benjamini_hochberg, holm
from eval_engine.statistics.paired import Paired

MOST_USERS = 2.0**63 - 1024  # a BIGINT


class Comparison(NamedTuple):
    """The comparison of two models; first and second are their rows."""

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


class Pairs(NamedTuple):
    """The same for every pair of models in several groups, (n_groups, n_pairs) each; pairs ordered as in `compare`."""

    first: Ints  # (n_pairs,)
    second: Ints
    difference: Floats
    standard_error: Floats
    low: Floats
    high: Floats
    p: Floats
    p_holm: Floats
    p_fdr: Floats
    p_no_worse_first: Floats
    p_no_worse_second: Floats
    users_needed: Floats  # NaN: undefined


def compare(models: Paired, n_users: int, confidence: float, margin: float, power: float = 0.8) -> list[Comparison]:
    """Every pair of models, (0, 1), (0, 2), .. (1, 2), ..; n_users: the number of users behind the values."""
    if n_users < 0:
        raise ValueError(f"n_users cannot be negative, found {n_users}")
    units, users = np.array([models.n_units]), np.array([n_users])
    pairs = compare_groups(
        models.values[None], models.errors[None], units, users, confidence=confidence, margin=margin, power=power
    )
    numbers = (pairs.difference, pairs.standard_error, pairs.low, pairs.high, pairs.p, pairs.p_holm, pairs.p_fdr)
    found = []
    for n in range(pairs.first.size):
        difference, error, low, high, p, p_holm, p_fdr = (float(column[0, n]) for column in numbers)
        no_worse = float(pairs.p_no_worse_first[0, n]), float(pairs.p_no_worse_second[0, n])
        needed = float(pairs.users_needed[0, n])
        first, second = int(pairs.first[n]), int(pairs.second[n])
        users_needed = None if np.isnan(needed) else int(needed)
        found.append(Comparison(first, second, difference, error, low, high, p, p_holm, p_fdr, *no_worse, users_needed))
    return found


def compare_groups(
    values: Floats, errors: Floats, n_units: Ints, n_users: Ints, *, confidence: float, margin: float, power: float
) -> Pairs:
    """Every pair of models in each group: values (n_groups, n_models), errors (n_groups, n_models, n_units), numbers of
    units and users (n_groups,).
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, found {confidence}")
    if not 0 <= margin < 1:
        raise ValueError(f"margin must be a share from 0 to below 1, found {margin}")
    if not (1 - confidence) / 2 < power < 1:
        raise ValueError(
            f"power must be below 1 and above (1 - confidence) / 2 = {(1 - confidence) / 2:g}, found {power}"
        )
    i, j = np.array(list(combinations(range(values.shape[1]), 2)), np.int64).reshape(-1, 2).T
    degrees = np.maximum(n_units - 1, 0)[:, None].astype(np.float64)
    spread = stdtrit(np.maximum(degrees, 1), (1 + confidence) / 2)
    effect = float(ndtri((1 + confidence) / 2) + ndtri(power))  # in standard errors, detected with this power
    difference, error = _differences(values, errors, n_units, i, j, 1.0)
    p = _two_sided(difference, error, degrees)
    no_worse = [
        _above_zero(*_differences(values, errors, n_units, one, other, 1 - margin), degrees)
        for one, other in ((i, j), (j, i))
    ]
    return Pairs(
        i,
        j,
        difference,
        error,
        difference - spread * error,
        difference + spread * error,
        p,
        np.array([holm(row) for row in p]).reshape(p.shape),
        np.array([benjamini_hochberg(row) for row in p]).reshape(p.shape),
        no_worse[0],
        no_worse[1],
        _users_needed(difference, error, n_users[:, None], effect),
    )


def _differences(
    values: Floats, errors: Floats, n_units: Ints, i: Ints, j: Ints, share: float
) -> tuple[Floats, Floats]:
    """R_i - share R_j for every group and pair, and its standard error."""
    moved = errors[:, i] - share * errors[:, j]
    inflation = np.where(n_units > 1, n_units / np.maximum(n_units - 1, 1), np.nan)[:, None]
    return values[:, i] - share * values[:, j], np.sqrt(inflation * np.einsum("gpb,gpb->gp", moved, moved))


def _two_sided(difference: Floats, error: Floats, degrees: Floats) -> Floats:
    """Two-sided p-value of the hypothesis: no difference."""
    t = np.abs(difference) / np.where(error > 0, error, np.nan)
    p = np.where(degrees > 0, 2 * stdtr(np.maximum(degrees, 1), -t), np.nan)
    return np.where(error == 0, np.where(difference == 0, 1.0, 0.0), p)


def _above_zero(difference: Floats, error: Floats, degrees: Floats) -> Floats:
    """One-sided p-value of the hypothesis: a difference of 0 or less."""
    t = difference / np.where(error > 0, error, np.nan)
    p = np.where(degrees > 0, stdtr(np.maximum(degrees, 1), -t), np.nan)
    return np.where(error == 0, np.where(difference > 0, 0.0, 1.0), p)


def _users_needed(difference: Floats, error: Floats, n_users: Ints, effect: float) -> Floats:
    """The number of users that would show the difference; NaN where the difference is 0, there is no user, or the
    number exceeds 64 bits.
    """
    known = (difference != 0) & (n_users > 0)
    ratio = effect * error / np.where(known, np.abs(difference), np.nan)
    users = np.maximum(1.0, np.ceil(n_users * ratio * ratio))
    return np.where(users < MOST_USERS, users, np.nan)
