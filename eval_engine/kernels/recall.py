"""Recall at k: the share of a user's positives that the model ranks in the top k.

    R_u = m_u / n_u        m_u = sum_{i in S_u} q_k(i)        n_u = |S_u|

S_u are the user's labelled positives, q_k(i) the chance that i is in the top k (kernels/ties.py). S_u empty: NaN, never 0; q_k of a positive not
known: NaN too.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Bools
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.kernels.ties import in_top_k

Floats = npt.NDArray[np.float64]


def hits(facts: RankFacts, positive: Bools, k: int, ties: str) -> Floats:
    """m_u: the expected number of each user's positives in the top k, shape (n_users,)."""
    return facts.per_user(np.where(checked(positive, facts), in_top_k(facts, k, ties), 0.0))


def positives(facts: RankFacts, positive: Bools) -> Floats:
    """n_u: the number of each user's positives, shape (n_users,)."""
    return facts.per_user(checked(positive, facts))


def recall(facts: RankFacts, positive: Bools, k: int, ties: str) -> Floats:
    """R_u of each user, NaN without a positive, shape (n_users,)."""
    found, total = hits(facts, positive, k, ties), positives(facts, positive)
    result: Floats = np.divide(found, total, out=np.full(facts.n_users, np.nan), where=total > 0)
    return result


def checked(positive: Bools, facts: RankFacts) -> Bools:
    """The mask itself, if it says true or false of every pair: a mask of ratings or of users would count something else."""
    if positive.dtype != np.bool_ or positive.shape != facts.value.shape:
        raise ValueError(f"positive must be a bool for each of the {facts.value.size} pairs, found {positive.dtype} of shape {positive.shape}")
    return positive
