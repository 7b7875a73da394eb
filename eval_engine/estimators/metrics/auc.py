"""AUC: the share of pairs of a positive and a negative of a user that are in order, a pair of equal scores counting
1/2.

macro   users with both kinds among their labels; with complete labels every other candidate is a negative
"""

from eval_engine.estimators.estimator import Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel

LEVEL = {"expected": 0.5, "strict": 0.0, "optimistic": 1.0}  # of a pair of equal scores


def auc(labelled: Labelled, k: int, ties: str) -> Terms:
    """For each user with both: the share of (positive, negative) pairs in order, and 1."""
    won, pairs = labelled.pairs_won(LEVEL[ties])
    return mean_over(pairs > 0, divided(won, pairs))


AUC = MetricKernel(
    "auc",
    at_k=False,
    means={"macro": Kernel(auc, "both", "the chance that a positive of a user ranks above a negative")},
)
