"""Strata of propensity: the mean of holdout within each stratum, weighted by the stratum's share [simpson] eq. 4.

    R = sum_x s_x R_x,   R_x = A_x / B_x: holdout of the positives of stratum x,   s_x = n_x / n

    stratified            n_x: test pairs in x, as published
    stratified_balanced   n_x: sum of 1 / p of the test pairs in x

Bucket g of users moves R by e_g = sum_x [s_x (A_xg - R_x B_xg) / B_x + R_x (n_xg - s_x n_g) / n]: the shares are
estimated too. Edges and propensities count as given. A stratum without a positive is left out, and the shares of the
others are scaled to 1. One stratum is holdout itself. evaluation/strata.py computes it from the slices of holdout.

**No hit is not certainty.** A stratum without a hit may have a ratio up to 1 - 0.025^(1 / B_x), the upper end of
Clopper and Pearson's interval for B_x users; s_x times that is the half-width of a normal error that is added.

    1 / sum_x (s_x^2 / B_x)        the effective number of users, for intervals of few hits: a stratum with a large
    share
                                   and few users decides
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from eval_engine.estimators.estimator import Doubles, Estimator
from eval_engine.estimators.holdout import WORDS

NEEDS = frozenset({"heldout", "propensity"})


class Combined(NamedTuple):
    """Values of models, and what each bucket of users adds to their errors."""

    values: Doubles  # (n_models,)
    errors: Doubles  # (n_models, n_buckets)
    left_out: float  # share of the strata without a positive
    users: Doubles  # (n_models,): effective number of users
    unseen: Doubles  # (n_models,): standard deviation of what strata without a hit may add


def combine_strata(a: Doubles, b: Doubles, n: Doubles) -> Combined:
    """From numerators and denominators (n_models, n_strata, n_buckets), and weights of test pairs (n_strata,
    n_buckets). NaN numerators make a model undefined.
    """
    used = b.sum(axis=(0, 2)) > 0
    every = n.sum()
    a, b, n = a[:, used], b[:, used], n[used]
    total = n.sum()
    if not used.any() or not total > 0:
        nothing = np.full((a.shape[0], a.shape[2]), np.nan)
        return Combined(nothing[:, 0], nothing, 1.0, np.zeros(a.shape[0]), np.zeros(a.shape[0]))
    share = n.sum(axis=1) / total
    below = b.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = a.sum(axis=2) / below  # (n_models, n_strata); NaN where a model has no user in a stratum
        users = 1 / (share * share / below).sum(axis=1)
        most = share * (1 - 0.025 ** (1 / below)) / ndtri(0.975)
        unseen = np.sqrt((np.where(ratio == 0, most, 0.0) ** 2).sum(axis=1))
        errors = ((share / below)[:, :, None] * (a - ratio[:, :, None] * b)).sum(axis=1)
    moved = n - share[:, None] * n.sum(axis=0)
    errors += np.einsum("mx,xg->mg", ratio, moved) / total
    return Combined(
        ratio @ share, errors, float(1 - total / every), users, np.where((ratio == 0).all(axis=1), 0.0, unseen)
    )


STRATIFIED = Estimator(
    "stratified",
    "stratified",
    "naive",
    None,
    NEEDS,
    words=WORDS,
    over="of the held-out pairs, by stratum of propensity",
    caveat="strata weighted by their share of the test pairs, as published",
    combine=combine_strata,
    undefined="a stratum has no user with a positive",
)
STRATIFIED_BALANCED = STRATIFIED._replace(
    name="stratified_balanced",
    label="stratified, balanced",
    role="estimate",
    caveat="strata weighted by their sum of 1 / propensity",
)
