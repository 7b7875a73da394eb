"""Precision at k: the share of positives among the top k.

mean    w m_u / k, all labelled users          m_u: positives in the top k, expected under ties
"""

import numpy as np

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import MetricKernel, ScaledSum, one, sum_kernel, with_label


def precision(labelled: Labelled, k: int) -> ScaledSum:
    """w m_u / k."""
    return ScaledSum("hits", labelled.scale, np.full(labelled.n_users, float(k)))


PRECISION = MetricKernel(
    "precision",
    at_k=True,
    means={"mean": sum_kernel(precision, with_label, "labelled", "the share of positives among the top k", top=one)},
    compared_as="recall",
)
