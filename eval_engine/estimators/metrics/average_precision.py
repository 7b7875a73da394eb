"""Average precision at k (MAP: its mean over users): the mean over a user's positives of the precision at their rank, 0
beyond k.

    macro   AP_u = (sum_i w q_i / rank_i + sum_{j above i} w_2 q_i / rank_i) / (w n_u),
            w_2 = N(N-1) / (e(e-1)), or w_i w_j

Users with n_u > 0 and, where labels are a sample, e_u > 1.
"""

import numpy as np

from eval_engine.estimators.estimator import Doubles
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import MetricKernel, ScaledSum, one, sum_kernel


def usable(labelled: Labelled) -> Doubles:
    """1 for each user with a labelled positive and, in a sample, two labels or more; else 0."""
    several = (labelled.n_labelled > 1) | labelled.complete
    return ((labelled.n_positive > 0) & several).astype(np.float64)


def average_precision(labelled: Labelled, k: int) -> ScaledSum:
    """The estimated average precision."""
    known = labelled.complete & (labelled.weight is None)
    # the upper bound of a sum over tied pairs can exceed 1
    most = np.where(known, 1.0, np.inf) if known.any() else None
    return ScaledSum("precisions", down=labelled.total * labelled.scale, most=most)


MAP = MetricKernel(
    "map",
    at_k=True,
    means={
        "macro": sum_kernel(
            average_precision,
            usable,
            "several",
            "average precision at k",
            sampled="consistent as exposures grow, biased for few of them",
            top=one,
            pairs=True,
        )
    },
)
