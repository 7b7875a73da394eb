"""DCG at k: the sum over a user's positives in the top k of 1 / log2(rank + 1).

mean    w sum discount(rank_i), all labelled users
mean_known   w sum discount(rank_i) of positives, over w sum discount(rank_i) of all exposures, times the sum of k
        discounts
pooled, weighted, counted: the mean discount of a positive
"""

from functools import partial

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import (
    Kernel,
    MetricKernel,
    ScaledSum,
    of_known_size,
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


def whole_list(k: int) -> float:
    """The sum of the first k discounts."""
    return float(gain_table("discount", k)[1][k])


QUANTITY = "the discount of a positive at k"
DCG = MetricKernel(
    "dcg",
    at_k=True,
    means={
        "mean": sum_kernel(dcg, with_label, "labelled", "the DCG of the list at k", top=whole_list),
        "mean_known": Kernel(
            partial(of_known_size, "discount", whole_list), "labelled", "the DCG of the list at k", top=whole_list
        ),
        "pooled": sum_kernel(dcg, weight_of_positives, "positive", QUANTITY, top=one),
        "weighted": sum_kernel(discount_of_positive, with_positive, "positive", QUANTITY, top=one),
        "counted": sum_kernel(discount_counted, with_positive, "positive", QUANTITY),
    },
    compared_as="ndcg",
)
