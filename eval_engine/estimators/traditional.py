"""Traditional recall: rank only the items the user was shown [ure] 2. Kept because everybody reports it.

    mean over users with n_u > 0 of the share of the exposed positives that are in the top k of E_u

k counts places among the e_u exposed items, so this is no estimate of recall at k over all candidates: with e_u <= k it is 1 for any model.
Ties are those inside E_u, and treated by the same policy.
"""

import numpy as np

from eval_engine.estimators.estimator import Estimator, Terms, mean_over
from eval_engine.kernels.arrays import Bools
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts
from eval_engine.kernels.recall import positives, recall


def traditional(facts: RankFacts, positive: Bools, k: int, ties: str) -> Terms:
    """Recall among the exposed items, and 1, of each user with an exposed positive."""
    return mean_over(positives(facts, positive) > 0, recall(among_labelled(facts), positive, k, ties))


def among_labelled(facts: RankFacts) -> RankFacts:
    """The same pairs with their ranks among the user's labelled pairs only."""
    user = facts.user
    order = np.lexsort((-facts.score, user))
    by_score, by_user = facts.score[order], user[order]
    new = np.ones(order.size, np.bool_)  # a pair that is not tied with the one before it
    new[1:] = (by_user[1:] != by_user[:-1]) | (by_score[1:] != by_score[:-1])
    starts = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    above, tied = np.empty(order.size, np.int32), np.empty(order.size, np.int32)
    above[order] = starts[group] - facts.offsets[by_user]
    tied[order] = np.diff(starts, append=order.size)[group] - 1
    unscored = np.isnan(facts.score)
    if unscored.any():  # of a partial list: below the scored ones; one alone is last, several are in an order nobody knows
        n_scored, n_unscored = (np.bincount(user[mask], minlength=facts.n_users) for mask in (~unscored, unscored))
        above[unscored] = n_scored[user[unscored]]
        tied[unscored] = np.where(n_unscored[user[unscored]] > 1, UNKNOWN, 0)
    return facts._replace(above=above, tied=tied, candidates=facts.n_labels.astype(np.int32))


TRADITIONAL = Estimator(
    "traditional",
    "random",
    traditional,
    "The mean, over users who were shown a positive, of recall among the randomly shown items only; not recall over all candidates.",
)
