"""AUC: the share of pairs of a positive and a negative of a user that are in order, a pair of equal scores counting
1/2.

macro   users with both kinds among their labels; with complete labels every other candidate is a negative
"""

import numpy as np

from eval_engine.estimators.estimator import Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, one

LEVEL = {"expected": 0.5, "strict": 0.0, "optimistic": 1.0}  # of a pair of equal scores


def auc(labelled: Labelled, k: int, ties: str) -> Terms:
    """For each user with both: the share of (positive, negative) pairs in order, and 1."""
    won, pairs = labelled.pairs_won(LEVEL[ties])
    return mean_over(pairs > 0, divided(won, pairs))


def auc_pooled(labelled: Labelled, k: int, ties: str) -> Terms:
    """The weight of (positive, negative) pairs in order, and of all pairs, each over the user's negatives."""
    won, pairs = labelled.pairs_won(LEVEL[ties])
    share = divided(won, pairs)
    weight = np.where(pairs > 0, labelled.total, 0.0)
    return Terms(np.where(weight > 0, weight * share, 0.0), weight)


AUC = MetricKernel(
    "auc",
    at_k=False,
    means={
        "macro": Kernel(auc, "both", "the chance that a positive of a user ranks above a negative", top=one),
        "pooled": Kernel(auc_pooled, "both", "the chance that a positive ranks above a negative of its user", top=one),
    },
)
