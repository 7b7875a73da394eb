"""URE: metrics over the full candidate list from a few random exposures [ure].

m_u / n_u is exactly unbiased for the user's recall given n_u > 0. Its mean over users is not unbiased for the macro
mean: users with many positives are more often among those with n_u > 0. Its limit is full_selected
(estimators/full_exposure.py); balanced URE corrects it (statistics/balanced.py). micro is consistent for the pooled
recall; precision, DCG, RBP and hit_rate@1 are exactly unbiased, AUC is so for the users that show both kinds; nDCG and
MAP are consistent as exposures grow. The facts must hold all of the user's exposures and no other pairs: the negatives
are needed for e_u.
"""

from eval_engine.estimators.estimator import Estimator, Words
from eval_engine.estimators.full_exposure import SELECTED
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.user_batch import UserBatch

RANDOM = frozenset({"random"})
NO_POSITIVE = "users without a positive among their random exposures"
CHOSEN = f"{SELECTED} one of the user's positives; not the plain mean over users"
WORDS = {
    "labelled": Words("all users", "users without a random exposure"),
    "positive": Words(CHOSEN, NO_POSITIVE),
    "several": Words(CHOSEN, f"{NO_POSITIVE}, or with one exposure only"),
    "both": Words(
        f"{SELECTED} both kinds", "users without both a positive and a negative among their random exposures"
    ),
}
OVER = "over all candidates"


def exposed(batch: UserBatch) -> Labelled:
    """The random exposures."""
    return batch.sample("random")


URE_MEAN = Estimator(
    "ure_mean",
    "URE",
    "estimate",
    "full_mean",
    RANDOM,
    means=("mean",),
    pairs=exposed,
    sampled=True,
    words=WORDS,
    over=OVER,
)
URE_MACRO = Estimator(
    "ure_macro",
    "URE macro",
    "estimate",
    "full_selected",
    RANDOM,
    {"auc": "URE", "map": "URE"},  # metrics with one URE only
    means=("macro",),
    pairs=exposed,
    sampled=True,
    words=WORDS,
    over=OVER,
)
URE_MICRO = Estimator(
    "ure_micro",
    "URE micro",
    "estimate",
    "full_micro",
    RANDOM,
    means=("micro", "raw"),
    pairs=exposed,
    sampled=True,
    words=WORDS,
    over=OVER,
)
