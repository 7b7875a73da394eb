"""Balanced URE: ure_macro with its selection of users corrected, from the same terms by stratum
(statistics/balanced.py).

A stratum is (exposures, candidates, exposed positives) of a user, each binned coarsely. Recall only: m_u / n_u is
unbiased whatever n_u > 0 is.
"""

import numpy as np

from eval_engine.estimators.estimator import Estimator, Words
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.ure import NO_POSITIVE, OVER, RANDOM, exposed
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.kernels.arrays import Ints
from eval_engine.statistics.balanced import balanced, lump_of, two_digits

NO_STRATUM = (-1, -1, -1)


def kinds_of_users(batch: UserBatch, labelled: Labelled) -> Ints:
    """The stratum of each user, int64 (n_users, 3); -1 where exposure was not uniform."""
    if labelled.weight is not None:
        return np.full((labelled.n_users, 3), -1, np.int64)
    return np.stack(
        [two_digits(labelled.n_labelled), two_digits(labelled.candidates), lump_of(labelled.n_positive)], axis=1
    )


URE_BALANCED = Estimator(
    "ure_balanced",
    "URE balanced",
    "estimate",
    "full_macro",
    RANDOM,
    means=("macro",),
    pairs=exposed,
    sampled=True,
    words={
        "positive": Words(
            "the users who have a positive among them, whether the random exposures show one or not", NO_POSITIVE
        )
    },
    over=OVER,
    only=frozenset({"recall"}),
    stratum=kinds_of_users,
    combine=balanced,
    uncombined="exposure probabilities are uneven: the chance to show a positive, which balanced URE needs, is "
    "known for even drawing only",
    undefined="users have one random exposure each: how many positives they have cannot be told from it",
)
