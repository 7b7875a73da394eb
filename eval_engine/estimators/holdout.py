"""Holdout: metrics of the logged pairs that were kept from training, as most papers report.

    S_u: positives among the user's held-out pairs, ranked among all items but the training pairs
    recall      mean over users with a positive of the share of S_u in the top k
    ndcg        DCG over the ideal of min(k, |S_u|) positives; precision: hits / k; AUC: positives against all other
                candidates

Candidates that are not held out count as negatives. The platform chose what was logged, so this is a mean over logged
pairs, not over the catalogue: it is biased towards items that the platform showed.
"""

import numpy as np

from eval_engine.estimators.estimator import Doubles, Estimator, Words
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.kernels.arrays import Ints

WITH_POSITIVE = Words("users with a held-out positive", "users without a held-out positive")
WORDS = {
    "labelled": WITH_POSITIVE,
    "positive": WITH_POSITIVE,
    "several": WITH_POSITIVE,
    "both": Words(
        "users with a held-out positive and another candidate",
        "users without a held-out positive and another candidate",
    ),
}


def held_out(batch: UserBatch) -> Labelled:
    """The held-out pairs; all other candidates count as negatives."""
    return batch.complete("heldout")


def with_positive(batch: UserBatch, labelled: Labelled, users: Ints | slice, kind: str) -> Doubles:
    """1 for users with a held-out positive, else 0; also for metrics that count all users."""
    return (labelled.all_positives > 0).astype(np.float64)


def share_of_user(batch: UserBatch, labelled: Labelled) -> Doubles:
    """Each positive's weight: 1 / the number of the user's positives."""
    return np.repeat(1 / np.maximum(labelled.n_positive, 1), np.diff(labelled.offsets))


HOLDOUT = Estimator(
    "holdout",
    "held-out pairs",
    "naive",
    None,
    frozenset({"heldout"}),
    means=("macro", "mean", "pairs"),
    pairs=held_out,
    user_weight=with_positive,
    words=WORDS,
    over="of the held-out pairs",
    caveat="a mean of logged pairs, which are no random sample of the candidates",
    share=share_of_user,
)
