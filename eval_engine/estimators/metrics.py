"""Each metric's terms: what a user with some labelled pairs adds, whether these are a few random exposures or all candidates.

Of e_u exposed items, drawn evenly from the user's N_u candidates, n_u are positives. What they gain is scaled up by w = N_u / e_u, or, where exposure
probabilities p_i are known, by w_i = 1 / p_i in every sum (Horvitz-Thompson; ratios: Hajek). With complete labels w = 1. q_i: the chance that i is in the top k.

    recall      macro   m_u / n_u, users with n_u > 0                        m_u = sum q_i
                micro   w m_u over w n_u
    precision   w m_u / k, all users
    dcg         w sum discount(rank_i), all users
    ndcg        w DCG_u / IDCG(k, w n_u), all users, n_u = 0 counting 0: given n_u > 0 a few exposures would overstate it; with complete labels also over users with n_u > 0
    auc         the share of pairs (positive, negative) in order, ties 1/2, users with both kinds
    map         AP_u, users with n_u > 0:
                AP_u = (sum_i w q_i / rank_i + sum_{j above i} w_2 q_i / rank_i) / (w n_u),     w_2 = N(N-1) / (e(e-1)), or 1 / (p_i p_j)
    hit_rate    w m_u for k = 1, all users; for k > 1 of users whose every candidate is labelled only: whether one of k top items is a positive hangs on
                items that were not exposed, and NaN is the honest answer
"""

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from eval_engine.estimators.estimator import Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled

Doubles = npt.NDArray[np.float64]
LEVEL = {"expected": 0.5, "strict": 0.0, "optimistic": 1.0}  # of a pair of equal scores, in AUC


def recall_macro(labelled: Labelled, k: int, ties: str) -> Terms:
    """m_u / n_u and 1 of each user with an exposed positive."""
    return mean_over(labelled.n_positive > 0, divided(labelled.gained("hits", k, ties), labelled.total))


def recall_micro(labelled: Labelled, k: int, ties: str) -> Terms:
    """w m_u and w n_u of each user."""
    return Terms(labelled.gained("hits", k, ties) * labelled.scale, labelled.total * labelled.scale)


def precision(labelled: Labelled, k: int, ties: str) -> Terms:
    """w m_u / k and 1 of each user with an exposure."""
    return mean_over(labelled.n_labelled > 0, labelled.gained("hits", k, ties) * labelled.scale / k)


def dcg(labelled: Labelled, k: int, ties: str) -> Terms:
    """The scaled-up sum of discounts and 1 of each user with an exposure."""
    return mean_over(labelled.n_labelled > 0, labelled.gained("discount", k, ties) * labelled.scale)


def ndcg_macro(labelled: Labelled, k: int, ties: str) -> Terms:
    """DCG over the best possible DCG, and 1, of each user with a positive; for complete labels."""
    return mean_over(
        labelled.n_positive > 0,
        divided(labelled.gained("discount", k, ties), labelled.ideal_dcg(k, labelled.n_positive)),
    )


def ndcg_mean(labelled: Labelled, k: int, ties: str) -> Terms:
    """DCG over the DCG of as many positives as there seem to be (0 where there seem to be none), and 1, of each labelled user."""
    ideal = labelled.ideal_dcg(k, labelled.total * labelled.scale)
    share = divided(labelled.gained("discount", k, ties) * labelled.scale, ideal)
    return mean_over(labelled.n_labelled > 0, np.where(labelled.n_positive > 0, share, 0.0))


def auc(labelled: Labelled, k: int, ties: str) -> Terms:
    """The share of pairs of an exposed positive and an exposed negative in order, and 1, of each user with both."""
    won, pairs = labelled.pairs_won(LEVEL[ties])
    return mean_over(pairs > 0, divided(won, pairs))


def average_precision(labelled: Labelled, k: int, ties: str) -> Terms:
    """The estimated average precision, and 1, of each user with an exposed positive and at least two exposures."""
    usable = (labelled.n_positive > 0) & ((labelled.n_labelled > 1) | labelled.complete)
    found = divided(labelled.precisions(k, ties), labelled.total * labelled.scale)
    known = labelled.complete & (labelled.weight is None)
    return mean_over(
        usable, np.where(known, np.minimum(found, 1.0), found)
    )  # what bounds a sum over level pairs can be above 1


def hit_rate(labelled: Labelled, k: int, ties: str) -> Terms:
    """Whether a positive is in the top k, as far as labels can tell, and 1, of each user with one."""
    known = labelled.complete & (labelled.weight is None or k > 1)
    one = labelled.gained("hits", k, ties) * labelled.scale if k == 1 else np.full(known.size, np.nan)
    return mean_over(labelled.n_labelled > 0, np.where(known, chance_of_a_hit(labelled, k, ties), one))


def chance_of_a_hit(labelled: Labelled, k: int, ties: str) -> Doubles:
    """The chance that one of the labelled positives is in the top k, over random orders of tied items; NaN where it hangs on unknown places."""
    n_users, above, tied = labelled.facts.n_users, labelled.above.astype(np.int64), labelled.tied.astype(np.int64)
    user = np.repeat(np.arange(n_users), np.diff(labelled.offsets))
    last = above if ties == "optimistic" else above + tied  # places counted from 0
    sure = np.bincount(user[(tied >= 0) & (last < k)], minlength=n_users) > 0
    cut = (
        (tied > 0) & (above < k) & (last >= k) & (ties == "expected")
    )  # level with the k-th: one group of a user at most
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
