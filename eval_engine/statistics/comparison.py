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

**No evidence is not equivalence.** Where few users tell two models apart, T has next to no error, however few users
there are. But a model that is worse by the margin would lose m = margin R_j in all, in hits of size s each, so that

    L = m / s            hits are lost at the margin, on average; s = sum a^2 / (sum a sum b), what a user's hit adds to
    R

and none of them is seen with chance exp(-L). So the test is by the score at the margin [Tango 1998], with lost and won
hits as Poisson numbers: of V = se^2 / s^2 hits in which the models differ, D = R_i - R_j says how many were lost and
how many won; at the margin L + g are lost and g won, g >= 0 by maximum likelihood, with the error

    se_0 = s sqrt(L + 2 g + (c - 1) L),       p = the larger of P(t > T / se) and P(Z > T / se_0)

c = -ln(1 - confidence) / z_confidence^2 = 1.1 makes the test of no lost hit exact: L > 3 hits must be at stake for 95
%, 300 hits at a margin of 1 %. users_equivalent: the users that would show equivalence with this power, if D stays as
it is,

    n_users ((z_confidence se_0 + z_{(1 + power) / 2} se) / T)^2,      the larger of the two tests

`hits`, the size of a hit of each model, is optional: without it the test is that of T alone.

se = 0: the difference has no sampling error. Identical models have D = 0, interval [0, 0], p = 1; another D has p = 0;
T <= 0 has p = 1, T > 0 has p = 0 (or that of L). Undefined is NaN, and users_needed None: a model without value, fewer
than two buckets; users_needed also if D = 0, or beyond 64 bits.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

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
    users_equivalent: Floats  # NaN: undefined, or the difference is not within the margin


def compare(
    models: Paired, n_users: int, confidence: float, margin: float, power: float = 0.8, hits: Floats | None = None
) -> list[Comparison]:
    """Every pair of models, (0, 1), (0, 2), .. (1, 2), ..; n_users: the number of users behind the values; hits: what a
    user's hit adds to the value of each model (hit_size).
    """
    if n_users < 0:
        raise ValueError(f"n_users cannot be negative, found {n_users}")
    units, users = np.array([models.n_units]), np.array([n_users])
    pairs = compare_groups(
        models.values[None],
        models.errors[None],
        units,
        users,
        confidence=confidence,
        margin=margin,
        power=power,
        hits=None if hits is None else np.asarray(hits, np.float64)[None],
    )
    numbers = (pairs.difference, pairs.standard_error, pairs.low, pairs.high, pairs.p, pairs.p_holm, pairs.p_fdr)
    found = []
    for n in range(pairs.first.size):
        difference, error, low, high, p, p_holm, p_fdr = (float(column[0, n]) for column in numbers)
        no_worse = float(pairs.p_no_worse_first[0, n]), float(pairs.p_no_worse_second[0, n])
        first, second = int(pairs.first[n]), int(pairs.second[n])
        needed = None if np.isnan(pairs.users_needed[0, n]) else int(pairs.users_needed[0, n])
        about = Comparison(first, second, difference, error, low, high, p, p_holm, p_fdr, *no_worse, needed)
        found.append(about)
    return found


def compare_groups(
    values: Floats,
    errors: Floats,
    n_units: Ints,
    n_users: Ints,
    *,
    confidence: float,
    margin: float,
    power: float,
    hits: Floats | None = None,
) -> Pairs:
    """Every pair of models in each group: values (n_groups, n_models), errors (n_groups, n_models, n_units), numbers of
    units and users (n_groups,); hits (n_groups, n_models): what a user's hit adds to a value, NaN where not known.
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
    sizes = np.full(values.shape, np.nan) if hits is None else hits
    no_worse, enough = [], np.zeros(difference.shape)
    for one, other, d in ((i, j, difference), (j, i, -difference)):
        above, spread_above = _differences(values, errors, n_units, one, other, 1 - margin)
        at_margin = _error_at_margin(d, error, margin * values[:, other], sizes[:, other], confidence)
        by_score = np.where(at_margin > 0, ndtr(-above / np.where(at_margin > 0, at_margin, 1.0)), 0.0)
        no_worse.append(np.maximum(_above_zero(above, spread_above, degrees), by_score))
        both = ndtri(confidence) * np.fmax(at_margin, spread_above) + ndtri((1 + power) / 2) * spread_above
        users = n_users[:, None] * (both / np.where(above > 0, above, np.nan)) ** 2
        enough = np.maximum(enough, np.ceil(users))  # NaN stays
    return Pairs(
        i,
        j,
        difference,
        error,
        difference - spread * error,
        difference + spread * error,
        p,
        holm(p),
        benjamini_hochberg(p),
        no_worse[0],
        no_worse[1],
        _users_needed(difference, error, n_users[:, None], effect),
        np.where((enough >= 1) & (enough < MOST_USERS), enough, np.nan),
    )


def hit_size(a: Floats, b: Floats, aa: Floats) -> Floats:
    """What a user's hit adds to a ratio, on average over hits; NaN without a hit. a, b, aa: the sums over users of
    numerators, denominators and squared numerators.
    """
    below = np.asarray(a, np.float64) * b
    size: Floats = np.divide(aa, below, out=np.full(below.shape, np.nan), where=below > 0)
    return size


def _error_at_margin(difference: Floats, error: Floats, loss: Floats, size: Floats, confidence: float) -> Floats:
    """se_0: the standard error of a difference, if the true one were a loss as large as the margin; NaN where the size
    of a hit is not known.
    """
    with np.errstate(all="ignore"):
        at_stake, net = np.maximum(loss, 0.0) / size, difference / size
        changed = np.maximum((error / size) ** 2, np.abs(net))
        lost, won = (changed - net) / 2, (changed + net) / 2
        # the likelihood of lost ~ Poisson(at_stake + g) and won ~ Poisson(g) has its maximum at this g
        half = (lost + won) / 2 - at_stake
        g = np.maximum((half + np.sqrt(half * half + 2 * won * at_stake)) / 2, 0.0)
        exact = -np.log1p(-confidence) / ndtri(confidence) ** 2 if confidence > 0.5 else 1.0
        found: Floats = size * np.sqrt(at_stake + 2 * g + max(exact - 1, 0.0) * at_stake)
    return found


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
