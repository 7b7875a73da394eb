"""Hit rate at k: whether a positive of the user is in the top k.

mean    of complete labels: the chance of it over random orders of tied items, all labelled users
        of a sample: w m_u for k = 1; for k > 1 NaN, unless every candidate of the user is labelled: whether one of k
        top items is a positive depends on items that were not exposed
"""

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from eval_engine.estimators.estimator import Terms, mean_over
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, one

Doubles = npt.NDArray[np.float64]


def hit_rate(labelled: Labelled, k: int, ties: str) -> Terms:
    """For each user with a label: whether a positive is in the top k, NaN where labels do not determine it; and 1."""
    known = labelled.complete & (labelled.weight is None or k > 1)
    hit = labelled.gained("hits", k, ties) * labelled.scale if k == 1 else np.full(known.size, np.nan)
    if known.any():
        hit = np.where(known, chance_of_a_hit(labelled, k, ties), hit)
    return mean_over(labelled.n_labelled > 0, hit)


def chance_of_a_hit(labelled: Labelled, k: int, ties: str) -> Doubles:
    """The chance that one of the labelled positives is in the top k, over random orders of tied items; NaN where the
    result depends on unknown places.
    """
    n_users, above, tied = labelled.n_users, labelled.above.astype(np.int64), labelled.tied.astype(np.int64)
    user = np.repeat(np.arange(n_users), np.diff(labelled.offsets))
    last = above if ties == "optimistic" else above + tied  # places counted from 0
    sure = np.bincount(user[(tied >= 0) & (last < k)], minlength=n_users) > 0
    # tied with the k-th: one group per user at most
    cut = (tied > 0) & (above < k) & (last >= k) & (ties == "expected")
    group, places = np.ones(n_users), np.zeros(n_users)
    group[user[cut]], places[user[cut]] = tied[cut] + 1, k - above[cut]
    chance = np.where(sure, 1.0, chance_of_a_positive(np.bincount(user[cut], minlength=n_users), places, group))
    unknown = np.bincount(user[(tied < 0) & (above < k)], minlength=n_users) > 0
    return np.where(unknown & ~sure, np.nan, chance)


def chance_of_a_positive(n_positive: npt.ArrayLike, exposures: npt.ArrayLike, candidates: npt.ArrayLike) -> Doubles:
    """P(n > 0) for exposures drawn without replacement, float64 (n_users,)."""
    total, good, drawn = (np.asarray(x, np.float64) for x in (candidates, n_positive, exposures))
    if (drawn < 0).any() or (drawn > total).any():
        raise ValueError("a user cannot have fewer than 0 random exposures or more than candidates")
    rest = total - good - drawn  # below 0: more exposures than negatives, a positive is certain
    possible = np.maximum(rest, 0)
    log_none = gammaln(total - good + 1) - gammaln(possible + 1) - gammaln(total + 1) + gammaln(total - drawn + 1)
    # no positive or no exposure: exactly 0, which a sum of logarithms need not give
    return np.where((good == 0) | (drawn == 0), 0.0, np.where(rest < 0, 1.0, -np.expm1(np.minimum(log_none, 0.0))))


HIT_RATE = MetricKernel(
    "hit_rate",
    at_k=True,
    means={
        "mean": Kernel(
            hit_rate,
            "labelled",
            "the chance that a positive is in the top k",
            unknown="whether one of k > 1 top items is a positive depends on items that were not exposed; "
            "hit_rate@1, precision and recall can be estimated",
            top=one,
        )
    },
    compared_as=None,
)
