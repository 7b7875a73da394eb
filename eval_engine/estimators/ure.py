"""URE: recall over the full candidate list from a few uniformly random exposures [ure] 4.

    macro    mean of m_u / n_u over users with n_u > 0
    micro    sum m_u / pi_u  /  sum n_u / pi_u            pi_u = e_u / N_u

n_u: positives among the e_u exposed items, m_u: those of them in the top k of all N_u candidates. m_u / n_u is exactly unbiased for the
user's recall given n_u > 0. Its mean over users is not unbiased for the macro mean: users with many positives are more often among those
with n_u > 0. What it tends to is full_selected (estimators/full_exposure.py). micro is consistent for the pooled recall.
The facts hold the user's exposures, all of them and nothing else: the pairs that are no positives are needed for pi_u.
"""

import numpy as np

from eval_engine.estimators.estimator import Estimator, Terms, mean_over
from eval_engine.kernels.arrays import Bools
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.kernels.recall import hits, positives, recall


def ure_macro(facts: RankFacts, positive: Bools, k: int, ties: str) -> Terms:
    """m_u / n_u and 1 of each user with an exposed positive."""
    return mean_over(positives(facts, positive) > 0, recall(facts, positive, k, ties))


def ure_micro(facts: RankFacts, positive: Bools, k: int, ties: str) -> Terms:
    """m_u / pi_u and n_u / pi_u of each user."""
    inverse = np.divide(facts.candidates, facts.n_labels, out=np.zeros(facts.n_users), where=facts.n_labels > 0)
    return Terms(hits(facts, positive, k, ties) * inverse, positives(facts, positive) * inverse)


URE_MACRO = Estimator(
    "ure_macro",
    "random",
    ure_macro,
    "The mean recall over all candidates of users, each weighted by the chance that the random exposures show one of the user's positives; "
    "not the plain mean over users.",
)
URE_MICRO = Estimator(
    "ure_micro",
    "random",
    ure_micro,
    "The share of all positives among all candidates, of all users together, that are in their user's top k.",
)
