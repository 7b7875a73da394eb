"""Open loop: the formulas of holdout over the random exposures, ranked among all candidates [simpson] 6.1, [wtd].

Candidates that were not exposed count as negatives. Recall is that of ure_macro; precision is hits / k, which is
smaller than the user's precision by the share of positives that were exposed. Papers call it the truth, because the
exposures are random; here it stands beside held-out pairs, which it is compared with.
"""

from eval_engine.estimators.estimator import Estimator, Words
from eval_engine.estimators.holdout import with_positive
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.user_batch import UserBatch

WITH_POSITIVE = Words("users who were shown a positive at random", "users without a positive among their exposures")
WORDS = {
    "labelled": WITH_POSITIVE,
    "positive": WITH_POSITIVE,
    "several": WITH_POSITIVE,
    "both": Words("users who were shown a positive at random, and have another candidate", WITH_POSITIVE.left_out),
}


def exposed_only(batch: UserBatch) -> Labelled:
    """The random exposures; all other candidates count as negatives."""
    return batch.complete("random")


OPEN_LOOP = Estimator(
    "open_loop",
    "open loop",
    "naive",
    None,
    frozenset({"random", "heldout"}),
    means=("macro", "mean"),
    pairs=exposed_only,
    user_weight=with_positive,
    words=WORDS,
    over="of the random exposures",
    caveat="candidates that were not exposed count as negatives",
)
