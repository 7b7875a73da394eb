"""nDCG at k: DCG over the DCG of a list that begins with all positives.

macro   DCG_u / IDCG(k, n_u), users with n_u > 0: complete labels only; given n_u > 0 a few exposures would overstate it
mean    w DCG_u / IDCG(k, w n_u), all labelled users, n_u = 0 counting 0; IDCG is linear between whole numbers
"""

import numpy as np

from eval_engine.estimators.estimator import Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, with_label, with_positive


def ndcg_macro(labelled: Labelled, k: int, ties: str) -> Terms:
    """DCG over the best possible DCG, and 1, of each user with a positive."""
    ideal = labelled.ideal_dcg(k, labelled.n_positive)
    return mean_over(labelled.n_positive > 0, divided(labelled.gained("discount", k, ties), ideal))


def ndcg_mean(labelled: Labelled, k: int, ties: str) -> Terms:
    """For each labelled user: DCG over the DCG of the estimated number of positives (0 where that is 0), and 1."""
    ideal = labelled.ideal_dcg(k, labelled.total * labelled.scale)
    share = divided(labelled.gained("discount", k, ties) * labelled.scale, ideal)
    return mean_over(labelled.n_labelled > 0, np.where(labelled.n_positive > 0, share, 0.0))


NDCG = MetricKernel(
    "ndcg",
    at_k=True,
    means={
        "macro": Kernel(ndcg_macro, "positive", "nDCG at k", complete_only=True, denominator=with_positive),
        "mean": Kernel(
            ndcg_mean,
            "labelled",
            "nDCG at k, 0 for users without a positive",
            denominator=with_label,
            sampled="consistent as exposures grow, too low for few of them",
        ),
    },
)
