"""Test sets: holdout over the held-out positives of a test set, the mean over its draws.

    S_u    the user's positives among the pairs of the set; users without one do not count, in no metric
    R      = mean over draws d of R_d,  R_d = sum_u a_ud / sum_u b_ud
    e_g    = mean over d of (A_gd - R_d B_gd) / B_d: what bucket g of users moves R by

The error over users is that of e_g; the standard deviation of R_d over draws stands beside it. Which pairs are in a
set: test_sets/rule.py. Held-out positives that are not in the set are no positives; in AUC they are no negatives
either.
"""

from typing import NamedTuple

import numpy as np

from eval_engine.estimators.estimator import Doubles, Estimator, Words
from eval_engine.estimators.holdout import HOLDOUT
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.kernels.arrays import Ints

IN_SET = Words("users with a held-out positive in the set", "users without a held-out positive in the set")
WORDS = {
    "labelled": IN_SET,
    "positive": IN_SET,
    "several": IN_SET,
    "both": Words(
        "users with a held-out positive in the set and another candidate",
        "users without a held-out positive in the set and another candidate",
    ),
}


class CombinedDraws(NamedTuple):
    """Values of models, what each bucket of users adds to their errors, and the spread over draws."""

    values: Doubles  # (n_models,)
    errors: Doubles  # (n_models, n_buckets)
    sd: Doubles  # (n_models,): over draws; NaN for one draw


def with_positive_in_set(batch: UserBatch, labelled: Labelled, users: Ints | slice, kind: str) -> Doubles:
    """1 for users with a positive in the set, else 0; also for metrics that count all users."""
    return (labelled.n_positive > 0).astype(np.float64)


def combine_draws(a: Doubles, b: Doubles) -> CombinedDraws:
    """From numerators and denominators (n_models, n_draws, n_buckets). NaN numerators make a model undefined.

    >>> combine_draws(np.array([[[1.0, 0], [1, 1]]]), np.array([[[1.0, 1], [1, 1]]])).values.tolist()
    [0.75]
    """
    below = b.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = a.sum(axis=2) / below  # (n_models, n_draws)
        errors = ((a - each[:, :, None] * b) / below[:, :, None]).mean(axis=1)
    sd = each.std(axis=1, ddof=1) if each.shape[1] > 1 else np.full(each.shape[0], np.nan)
    return CombinedDraws(each.mean(axis=1), errors, sd)


TEST_SET = HOLDOUT._replace(
    name="test_set",
    label="test set",
    needs=frozenset({"heldout", "test_sets"}),
    user_weight=with_positive_in_set,
    words=WORDS,
    over="of the held-out pairs of the test set",
    caveat="a mean of pairs that were drawn from the logged ones, over the draws of the set",
    undefined="a draw has no user with a positive",
)
COMBINED: Estimator = TEST_SET._replace(combine=combine_draws)
