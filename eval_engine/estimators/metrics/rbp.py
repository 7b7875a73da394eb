"""RBP at k, rank-biased precision [Moffat, Zobel 2008]: the rate of positives seen by a reader who continues to the
next place with probability p.

    mean    w (1 - p) sum_i p^(rank_i - 1) over positives in the top k, all labelled users

The weights of all places add up to 1, those beyond k to p^k. Like DCG it is a sum over positives, so its estimate from
random exposure is unbiased.
"""

import numpy as np

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
from eval_engine.metric import Parameter


def rbp(labelled: Labelled, k: int, p: float) -> ScaledSum:
    """The scaled-up sum of (1 - p) p^(rank - 1)."""
    return ScaledSum(f"power({p:.12g})", (1 - p) * labelled.scale)


def gain_of_positive(labelled: Labelled, k: int, p: float) -> ScaledSum:
    """sum w gain / sum w."""
    return ScaledSum(f"power({p:.12g})", (1 - p) * np.ones(labelled.n_users), labelled.total)


def gain_counted(labelled: Labelled, k: int, p: float) -> ScaledSum:
    """sum w gain / n_u."""
    return ScaledSum(f"power({p:.12g})", (1 - p) * np.ones(labelled.n_users), labelled.n_positive)


QUANTITY = "the rank-biased gain of a positive at k"
RBP = MetricKernel(
    "rbp",
    at_k=True,
    means={
        "mean": sum_kernel(rbp, with_label, "labelled", "the rank-biased precision of the list at k", top=one),
        "pooled": sum_kernel(rbp, weight_of_positives, "positive", QUANTITY, top=one),
        "weighted": sum_kernel(gain_of_positive, with_positive, "positive", QUANTITY, top=one),
        "counted": sum_kernel(gain_counted, with_positive, "positive", QUANTITY),
    },
    parameters={"p": Parameter(0.8, 0.0, 1.0)},
)
