"""nDCG at k: DCG over the DCG of a list that begins with all positives.

macro   DCG_u / IDCG(k, n_u), users with n_u > 0: complete labels only; given n_u > 0 a few exposures would overstate it
mean    w DCG_u / IDCG(k, w n_u), all labelled users, n_u = 0 counting 0; IDCG is linear between whole numbers

Of weighted pairs IDCG is the sum of the k largest weights of the user, in falling order, times the discount.
"""

from eval_engine.estimators.estimator import Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import (
    Kernel,
    MetricKernel,
    ScaledSum,
    one,
    sum_kernel,
    with_label,
    with_positive,
)


def ndcg_macro(labelled: Labelled, k: int) -> ScaledSum:
    """DCG over the best possible DCG."""
    return ScaledSum("discount", down=labelled.ideal_dcg(k, labelled.n_positive))


def ndcg_mean(labelled: Labelled, k: int) -> ScaledSum:
    """DCG over the DCG of the estimated number of positives; 0 where that is 0."""
    return ScaledSum("discount", labelled.scale, labelled.ideal_dcg(k, labelled.total * labelled.scale))


def ndcg_weighted(labelled: Labelled, k: int) -> ScaledSum:
    """Weighted DCG over the best possible one."""
    return ScaledSum("discount", down=labelled.ideal_weighted(k))


def ndcg_pooled(labelled: Labelled, k: int, ties: str) -> Terms:
    """Weighted DCG, and the best possible one."""
    return Terms(labelled.gained("discount", k, ties), labelled.ideal_weighted(k))


NDCG = MetricKernel(
    "ndcg",
    at_k=True,
    means={
        "macro": sum_kernel(ndcg_macro, with_positive, "positive", "nDCG at k", complete_only=True, top=one),
        "mean": sum_kernel(
            ndcg_mean,
            with_label,
            "labelled",
            "nDCG at k, 0 for users without a positive",
            sampled="consistent as exposures grow, too low for few of them",
            top=one,
        ),
        "pooled": Kernel(ndcg_pooled, "positive", "weighted DCG at k over the best possible", top=one),
        "weighted": sum_kernel(ndcg_weighted, with_positive, "positive", "weighted nDCG at k", top=one),
    },
)
