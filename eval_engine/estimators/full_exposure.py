"""Full exposure: every candidate is labelled, so recall is known, not estimated. What the other estimators are held against.

    macro      mean of M_u / N+_u over users with N+_u > 0
    micro      sum M_u / sum N+_u
    selected   sum P_u M_u / N+_u / sum P_u,     P_u = P(n_u > 0) = 1 - C(N - N+_u, e_u) / C(N, e_u)

N+_u: positives among the N candidates, M_u: those in the top k (expected under ties). selected is what URE macro [ure] 4 tends to: it
averages only users whose e_u random exposures show a positive, and those are the users with many. In the sums of `selected` a user without
a positive has weight 0.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from eval_engine.estimators.estimator import Estimator, Terms, mean_over
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.kernels.recall import hits, positives, recall

Floats = npt.NDArray[np.float64]


def full_macro(facts: RankFacts, positive: Bools, k: int, ties: str) -> Terms:
    """M_u / N+_u and 1 of each user with a positive."""
    return mean_over(positives(facts, positive) > 0, recall(facts, positive, k, ties))


def full_micro(facts: RankFacts, positive: Bools, k: int, ties: str) -> Terms:
    """M_u and N+_u of each user."""
    return Terms(hits(facts, positive, k, ties), positives(facts, positive))


def full_selected(facts: RankFacts, positive: Bools, k: int, ties: str, exposures: Ints) -> Terms:
    """P_u M_u / N+_u and P_u of each user, P_u the chance that this many random exposures show a positive."""
    n_positive = positives(facts, positive)
    weight = chance_of_a_positive(n_positive, exposures, facts.candidates)
    return Terms(np.where(n_positive > 0, weight * recall(facts, positive, k, ties), 0.0), weight)


def chance_of_a_positive(n_positive: npt.ArrayLike, exposures: npt.ArrayLike, candidates: npt.ArrayLike) -> Floats:
    """P(n > 0) for exposures drawn without replacement, float64 (n_users,)."""
    total, good, drawn = (np.asarray(x, np.float64) for x in (candidates, n_positive, exposures))
    if (drawn < 0).any() or (drawn > total).any():
        raise ValueError("a user cannot have fewer than 0 random exposures or more than candidates")
    rest = total - good - drawn  # below 0: more exposures than negatives, a positive is certain
    possible = np.maximum(rest, 0)
    log_none = gammaln(total - good + 1) - gammaln(possible + 1) - gammaln(total + 1) + gammaln(total - drawn + 1)
    # no positive or no exposure: exactly 0, which a sum of logarithms need not give
    return np.where((good == 0) | (drawn == 0), 0.0, np.where(rest < 0, 1.0, -np.expm1(np.minimum(log_none, 0.0))))


FULL_MACRO = Estimator("full_macro", "truth", full_macro, "The mean recall of the users who have a positive among their candidates.")
FULL_MICRO = Estimator("full_micro", "truth", full_micro, "The share of all positives, of all users together, that are in their user's top k.")
FULL_SELECTED = Estimator(
    "full_selected",
    "both",
    full_selected,
    "The mean recall of users, each weighted by the chance that the random exposures show one of the user's positives.",
)
