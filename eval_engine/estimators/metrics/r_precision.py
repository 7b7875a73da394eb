"""R-precision: the share of positives among the first N+_u places, as many as the user has positives.

macro   M_u(N+_u) / N+_u, users with a positive; complete labels only, because N+_u must be known
"""

import numpy as np

from eval_engine.estimators.estimator import Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, one


def r_precision(labelled: Labelled, k: int, ties: str) -> Terms:
    """The share of the positives that are in the top N+_u, and 1, of each user with a positive."""
    user = np.repeat(np.arange(labelled.n_users), np.diff(labelled.offsets))
    cutoff, above, level = labelled.n_positive[user], labelled.above, labelled.tied + 1.0
    if ties == "expected":
        inside = np.clip((cutoff - above) / np.maximum(level, 1), 0, 1)
    else:
        inside = (above + (level if ties == "strict" else 1.0) <= cutoff).astype(np.float64)
    inside = np.where((level == 0) & (above < cutoff), np.nan, inside)  # 0: an unknown place
    hits = np.bincount(user, weights=np.where(above < cutoff, inside, 0.0), minlength=labelled.n_users)
    return mean_over(labelled.n_positive > 0, divided(hits.astype(np.float64), labelled.n_positive))


R_PRECISION = MetricKernel(
    "r_precision",
    at_k=False,
    means={
        "macro": Kernel(
            r_precision,
            "positive",
            "the share of positives among the first places, as many as the user has positives",
            complete_only=True,
            top=one,
        )
    },
)
