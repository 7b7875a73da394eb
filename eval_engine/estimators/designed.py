"""Metrics from designed exposures: both arms together, each pair weighted by 1 / its probability of being shown.

    designed_mean          precision, DCG, RBP: mean over users of sum gain y / pi       exactly unbiased
    designed_micro         pooled recall: sum y q / pi over sum y / pi                    consistent
    designed_mean_known    precision, DCG: sum gain y / pi over sum gain / pi, times the gain of a whole list
    ure_mean_known         the same from uniform exposures

y: 1 of a positive; q: the chance that the item is in the top k; sums over the user's exposures. A whole list has a
known size, k places: sum gain / pi estimates its gain, and errs as the numerator does, so that the quotient errs less.
(Pooled recall with known sizes: exposure_design/known_sizes.py, of arrays in memory.)

A user's own ratio m_u / n_u over both arms is not here: half of what such a user was shown was chosen because a model
recommends it, and a user's few exposures do not undo that (true recall 0.127 reads as 0.509). URE macro, balanced, AUC,
MAP and nDCG take the exposures of arm U, which are the label set `random`.
"""

from eval_engine.estimators.estimator import Estimator, Words
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.ure import URE_MEAN, exposed
from eval_engine.estimators.user_batch import UserBatch

DESIGNED = frozenset({"designed"})
OVER = "over all candidates, from the exposures of both arms"
WORDS = {
    "labelled": Words("all users", "users without an exposure"),
    "positive": Words("users with an exposed positive", "users without a positive among their exposures"),
}
IN_TOP = {"labelled": Words("all users", "users without an exposure in the top k, who add nothing to either sum")}


def both_arms(batch: UserBatch) -> Labelled:
    """The exposures of both arms, weighted by 1 / pi."""
    return batch.sample("designed")


DESIGNED_MEAN = Estimator(
    "designed_mean",
    "designed",
    "estimate",
    "full_mean",
    DESIGNED,
    means=("mean",),
    pairs=both_arms,
    sampled=True,
    words=WORDS,
    over=OVER,
    only=frozenset({"precision", "dcg", "rbp"}),
)
DESIGNED_MICRO = Estimator(
    "designed_micro",
    "designed micro",
    "estimate",
    "full_micro",
    DESIGNED,
    means=("micro",),
    pairs=both_arms,
    sampled=True,
    words=WORDS,
    over=OVER,
    only=frozenset({"recall"}),
)
DESIGNED_MEAN_KNOWN = DESIGNED_MEAN._replace(
    name="designed_mean_known",
    label="designed, known sizes",
    means=("mean_known",),
    words=IN_TOP,
    caveat="the size of the list is taken as known",
    only=None,
)
URE_MEAN_KNOWN = URE_MEAN._replace(
    name="ure_mean_known",
    label="URE, known sizes",
    needs=frozenset({"random", "known_sizes"}),
    means=("mean_known",),
    pairs=exposed,
    words=IN_TOP,
    caveat="the size of the list is taken as known",
)
