"""Reciprocal rank at k (MRR: its mean over users): 1 / rank of the first positive, 0 if it is beyond k.

    macro   users with a positive; complete labels only, because the first positive may be an item that was not exposed

If the first positive is in a group of g tied items, p of them positives, it is at place j with probability
C(g - j, p - 1) / C(g, p); expected is the mean over j, places beyond k giving 0.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from eval_engine.estimators.estimator import Terms, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, one, with_positive
from eval_engine.kernels.arrays import Ints

Doubles = npt.NDArray[np.float64]


def reciprocal_rank(labelled: Labelled, k: int, ties: str) -> Terms:
    """1 / rank of the first positive, and 1, of each user with a positive."""
    some = np.flatnonzero((labelled.n_positive > 0) & (labelled.first < k))
    rank = np.zeros(labelled.n_users)
    if some.size:
        first = np.repeat(labelled.first, np.diff(labelled.offsets))
        own = labelled.above == first  # the positives that may be the first
        user = np.repeat(np.arange(labelled.n_users), np.diff(labelled.offsets))[own]
        n_level = np.bincount(user, minlength=labelled.n_users)
        size = np.zeros(labelled.n_users)
        size[user] = labelled.tied[own] + 1.0  # 0: an unknown place
        rank[some] = _inverse(labelled.first[some], size[some], n_level[some], k, ties)
    return mean_over(labelled.n_positive > 0, rank)


def _inverse(above: Ints, size: Doubles, positives: Ints, k: int, ties: str) -> Doubles:
    """1 / rank of the first positive among `size` tied items below `above` others."""
    if ties == "optimistic":
        found = 1.0 / (above + 1)
    elif ties == "strict":  # the positives are the last of their group
        last = above + size - positives + 1
        found = np.where(last <= k, 1 / np.maximum(last, 1), 0.0)
    else:
        found = 1.0 / (above + 1)
        for n in np.flatnonzero(size > positives):
            g, p = size[n], positives[n]
            j = np.arange(1, min(g - p + 1, k - above[n]) + 1)
            chance = np.exp(_choose(g - j, p - 1) - _choose(g, p))
            found[n] = (chance / (above[n] + j)).sum()
    return np.where(size > 0, found, np.nan)


def _choose(n: npt.ArrayLike, k: float) -> Doubles:
    """log C(n, k)."""
    total = np.asarray(n, np.float64)
    logarithm: Doubles = gammaln(total + 1) - gammaln(k + 1.0) - gammaln(total - k + 1)
    return logarithm


MRR = MetricKernel(
    "mrr",
    at_k=True,
    means={
        "macro": Kernel(
            reciprocal_rank,
            "positive",
            "1 / rank of the first positive, 0 beyond k",
            complete_only=True,
            denominator=with_positive,
            top=one,
        )
    },
)
