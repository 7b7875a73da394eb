"""Recall at k: the share of a user's positives that the model ranks in the top k.

macro   m_u / n_u, users with n_u > 0
        m_u = sum w_i q_i, n_u = sum w_i over positives; q_i: the chance that i is in the top k
micro   w m_u over w n_u                       with w_i = 1 / p_i: pooled SNIPS
"""

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import (
    MetricKernel,
    ScaledSum,
    one,
    sum_kernel,
    weight_of_positives,
    with_positive,
)


def recall_macro(labelled: Labelled, k: int) -> ScaledSum:
    """m_u / n_u."""
    return ScaledSum("hits", down=labelled.total)


def recall_micro(labelled: Labelled, k: int) -> ScaledSum:
    """w m_u."""
    return ScaledSum("hits", labelled.scale)


def recall_counted(labelled: Labelled, k: int) -> ScaledSum:
    """sum w q / n_u."""
    return ScaledSum("hits", down=labelled.n_positive)


RECALL = MetricKernel(
    "recall",
    at_k=True,
    means={
        "macro": sum_kernel(recall_macro, with_positive, "positive", "recall at k", top=one),
        "micro": sum_kernel(
            recall_micro,
            weight_of_positives,
            "positive",
            "the share of all positives that are in their user's top k",
            top=one,
        ),
        "counted": sum_kernel(recall_counted, with_positive, "positive", "the sum of weighted hits over the positives"),
    },
)
