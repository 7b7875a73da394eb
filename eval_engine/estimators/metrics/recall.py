"""Recall at k: the share of a user's positives that the model ranks in the top k.

macro   m_u / n_u, users with n_u > 0
        m_u = sum w_i q_i, n_u = sum w_i over positives; q_i: the chance that i is in the top k
micro   w m_u over w n_u                       with w_i = 1 / p_i: pooled SNIPS
"""

from eval_engine.estimators.estimator import Doubles, Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, with_positive


def recall_macro(labelled: Labelled, k: int, ties: str) -> Terms:
    """m_u / n_u and 1 of each user with a labelled positive."""
    return mean_over(labelled.n_positive > 0, divided(labelled.gained("hits", k, ties), labelled.total))


def recall_micro(labelled: Labelled, k: int, ties: str) -> Terms:
    """w m_u and w n_u of each user."""
    return Terms(labelled.gained("hits", k, ties) * labelled.scale, weight_of_positives(labelled))


def weight_of_positives(labelled: Labelled) -> Doubles:
    """w n_u of each user."""
    return labelled.total * labelled.scale


RECALL = MetricKernel(
    "recall",
    at_k=True,
    means={
        "macro": Kernel(recall_macro, "positive", "recall at k", denominator=with_positive),
        "micro": Kernel(
            recall_micro,
            "positive",
            "the share of all positives that are in their user's top k",
            denominator=weight_of_positives,
        ),
    },
)
