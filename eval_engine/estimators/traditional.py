"""The traditional scheme: rank only the items the user was shown [ure] 2. Kept because it is commonly reported.

    recall      mean over users with n_u > 0 of the share of the exposed positives that are in the top k of E_u
    precision   mean over users of the share of positives in the top k of E_u
    ndcg        mean over users with n_u > 0 of DCG over the best possible DCG, both in E_u

It equals full exposure in a world with the exposed items only: k counts places among the e_u exposed items. It does not
estimate the metric at k over all candidates. Users with e_u <= k are left out of recall, precision and hit rate, which
any order of their items gives the same value (recall 1): they cannot tell models apart. Ties are those inside E_u; the
same tie policy applies.
"""

from eval_engine.estimators.estimator import Estimator, Words
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.user_batch import UserBatch

WITH_POSITIVE = Words("users who were shown a positive", "users without a positive among their random exposures")
WORDS = {
    "labelled": Words("users who were shown something at random", "users without a random exposure"),
    "positive": WITH_POSITIVE,
    "several": WITH_POSITIVE,
    "both": Words(
        "users who were shown both a positive and a negative",
        "users without both a positive and a negative among their random exposures",
    ),
}


def among_the_exposed(batch: UserBatch) -> Labelled:
    """The random exposures, ranked among themselves."""
    return batch.among("random")


TRADITIONAL = Estimator(
    "traditional",
    "traditional",
    "naive",
    None,
    frozenset({"random"}),
    means=("macro", "mean"),
    pairs=among_the_exposed,
    words=WORDS,
    over="among the randomly shown items only",
    caveat="not over all candidates",
    whole_lists=frozenset({"recall", "precision", "hit_rate"}),
)
