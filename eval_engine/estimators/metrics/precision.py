"""Precision at k: the share of positives among the top k.

mean    w m_u / k, all labelled users          m_u: positives in the top k, expected under ties
"""

from eval_engine.estimators.estimator import Terms, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, with_label


def precision(labelled: Labelled, k: int, ties: str) -> Terms:
    """w m_u / k and 1 of each user with a label."""
    return mean_over(labelled.n_labelled > 0, labelled.gained("hits", k, ties) * labelled.scale / k)


PRECISION = MetricKernel(
    "precision",
    at_k=True,
    means={"mean": Kernel(precision, "labelled", "the share of positives among the top k", denominator=with_label)},
    compared_as="recall",
)
