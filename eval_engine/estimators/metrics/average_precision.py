"""Average precision at k (MAP: its mean over users): the mean over a user's positives of the precision at their rank, 0
beyond k.

    macro   AP_u = (sum_i w q_i / rank_i + sum_{j above i} w_2 q_i / rank_i) / (w n_u),
            w_2 = N(N-1) / (e(e-1)), or w_i w_j

Users with n_u > 0 and, where labels are a sample, e_u > 1.
"""

import numpy as np

from eval_engine.estimators.estimator import Doubles, Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel


def usable(labelled: Labelled) -> Doubles:
    """1 for each user with a labelled positive and, in a sample, two labels or more; else 0."""
    several = (labelled.n_labelled > 1) | labelled.complete
    return ((labelled.n_positive > 0) & several).astype(np.float64)


def average_precision(labelled: Labelled, k: int, ties: str) -> Terms:
    """The estimated average precision, and 1, of each user with a labelled positive and, in a sample, two labels or
    more.
    """
    precisions = divided(labelled.precisions(k, ties), labelled.total * labelled.scale)
    known = labelled.complete & (labelled.weight is None)
    # the upper bound of a sum over tied pairs can exceed 1
    return mean_over(usable(labelled) > 0, np.where(known, np.minimum(precisions, 1.0), precisions))


MAP = MetricKernel(
    "map",
    at_k=True,
    means={
        "macro": Kernel(
            average_precision,
            "several",
            "average precision at k",
            denominator=usable,
            sampled="consistent as exposures grow, biased for few of them",
        )
    },
)
