"""DCG at k: the sum over a user's positives in the top k of 1 / log2(rank + 1).

mean    w sum discount(rank_i), all labelled users
"""

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import MetricKernel, ScaledSum, sum_kernel, with_label


def dcg(labelled: Labelled, k: int) -> ScaledSum:
    """The scaled-up sum of discounts."""
    return ScaledSum("discount", labelled.scale)


DCG = MetricKernel(
    "dcg",
    at_k=True,
    means={"mean": sum_kernel(dcg, with_label, "labelled", "the DCG of the list at k")},
    compared_as="ndcg",
)
