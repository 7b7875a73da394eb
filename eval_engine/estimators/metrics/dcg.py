"""DCG at k: the sum over a user's positives in the top k of 1 / log2(rank + 1).

mean    w sum discount(rank_i), all labelled users
pooled, weighted, counted: the mean discount of a positive
"""

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import (
    MetricKernel,
    ScaledSum,
    one,
    sum_kernel,
    weight_of_positives,
    with_label,
    with_positive,
)
from eval_engine.kernels.gain import gain_table


def dcg(labelled: Labelled, k: int) -> ScaledSum:
    """The scaled-up sum of discounts."""
    return ScaledSum("discount", labelled.scale)


def discount_of_positive(labelled: Labelled, k: int) -> ScaledSum:
    """sum w discount / sum w."""
    return ScaledSum("discount", down=labelled.total)


def discount_counted(labelled: Labelled, k: int) -> ScaledSum:
    """sum w discount / n_u."""
    return ScaledSum("discount", down=labelled.n_positive)


def largest_dcg(k: int) -> float:
    """The DCG of k positives."""
    return float(gain_table("discount", k)[1][k])


QUANTITY = "the discount of a positive at k"
DCG = MetricKernel(
    "dcg",
    at_k=True,
    means={
        "mean": sum_kernel(dcg, with_label, "labelled", "the DCG of the list at k", top=largest_dcg),
        "pooled": sum_kernel(dcg, weight_of_positives, "positive", QUANTITY, top=one),
        "weighted": sum_kernel(discount_of_positive, with_positive, "positive", QUANTITY, top=one),
        "counted": sum_kernel(discount_counted, with_positive, "positive", QUANTITY),
    },
    compared_as="ndcg",
)
