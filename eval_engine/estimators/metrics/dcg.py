"""DCG at k: the sum over a user's positives in the top k of 1 / log2(rank + 1).

mean    w sum discount(rank_i), all labelled users
"""

from eval_engine.estimators.estimator import Terms, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, with_label


def dcg(labelled: Labelled, k: int, ties: str) -> Terms:
    """The scaled-up sum of discounts and 1 of each user with a label."""
    return mean_over(labelled.n_labelled > 0, labelled.gained("discount", k, ties) * labelled.scale)


DCG = MetricKernel(
    "dcg",
    at_k=True,
    means={"mean": Kernel(dcg, "labelled", "the DCG of the list at k", denominator=with_label)},
    compared_as="ndcg",
)
