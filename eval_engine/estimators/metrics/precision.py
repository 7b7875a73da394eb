"""Precision at k: the share of positives among the top k.

mean    w m_u / k, all labelled users          m_u: positives in the top k, expected under ties
mean_known   w m_u over w q_u                  q_u: exposures in the top k, of which a whole list has k
"""

from functools import partial

import numpy as np

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import (
    Kernel,
    MetricKernel,
    ScaledSum,
    of_known_size,
    one,
    sum_kernel,
    with_label,
)


def precision(labelled: Labelled, k: int) -> ScaledSum:
    """w m_u / k."""
    return ScaledSum("hits", labelled.scale, np.full(labelled.n_users, float(k)))


def whole_list(k: int) -> float:
    """The precision of a list of positives only."""
    return 1.0


QUANTITY = "the share of positives among the top k"
PRECISION = MetricKernel(
    "precision",
    at_k=True,
    means={
        "mean": sum_kernel(precision, with_label, "labelled", QUANTITY, top=one),
        "mean_known": Kernel(partial(of_known_size, "hits", whole_list), "labelled", QUANTITY, top=one),
    },
    compared_as="recall",
)
