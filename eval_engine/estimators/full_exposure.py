"""Full exposure: every candidate is labelled, so metrics are known, not estimated. What the other estimators are held against.

    recall      macro      mean of M_u / N+_u over users with N+_u > 0
                micro      sum M_u / sum N+_u
                selected   sum P_u M_u / N+_u / sum P_u,     P_u = P(n_u > 0) = 1 - C(N - N+_u, e_u) / C(N, e_u)
    auc         macro over users with both kinds; selected: P_u = P(0 < n_u < e_u)
    precision, dcg, hit_rate      mean over all users
    ndcg        macro over users with N+_u > 0, and mean over all users, N+_u = 0 counting 0
    map         macro over users with N+_u > 0; AP_u is divided by N+_u

N+_u: positives among the N candidates, M_u: those in the top k (expected under ties). selected is what ure_macro tends to: it
averages only users whose e_u random exposures show a positive, and those are the users with many. In the sums of `selected` a user without
a positive has weight 0.
"""

import numpy as np

from eval_engine.estimators.estimator import Estimator, Terms, divided
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics import (
    auc,
    average_precision,
    chance_of_a_positive,
    dcg,
    hit_rate,
    ndcg_macro,
    ndcg_mean,
    precision,
    recall_macro,
    recall_micro,
)
from eval_engine.kernels.arrays import Ints

NO_POSITIVE = "users without a positive among their candidates"
NO_CANDIDATE = "users without a labelled candidate"


def recall_selected(labelled: Labelled, k: int, ties: str, exposures: Ints) -> Terms:
    """P_u M_u / N+_u and P_u of each user, P_u the chance that this many random exposures show a positive."""
    weight = chance_of_a_positive(labelled.n_positive, exposures, labelled.candidates)
    recall = divided(labelled.gained("hits", k, ties), labelled.n_positive)
    return Terms(np.where(labelled.n_positive > 0, weight * recall, 0.0), weight)


def auc_selected(labelled: Labelled, k: int, ties: str, exposures: Ints) -> Terms:
    """The same, each user weighted by the chance that this many random exposures show both kinds."""
    share, both = auc(labelled, k, ties)
    n, total = labelled.n_positive, labelled.candidates
    weight = (
        chance_of_a_positive(n, exposures, total)
        + chance_of_a_positive(total - n, exposures, total)
        - (np.asarray(exposures) > 0)
    )
    weight = np.where(
        (both > 0) & (np.asarray(exposures) > 1), np.maximum(weight, 0.0), 0.0
    )  # of one exposure exactly 0, not 1e-16
    return Terms(weight * share, weight)


FULL_MACRO = Estimator(
    "full_macro",
    "recall",
    "truth",
    recall_macro,
    "The mean recall of the users who have a positive among their candidates.",
    NO_POSITIVE,
)
FULL_MICRO = Estimator(
    "full_micro",
    "recall",
    "truth",
    recall_micro,
    "The share of all positives, of all users together, that are in their user's top k.",
    NO_POSITIVE,
)
FULL_SELECTED = Estimator(
    "full_selected",
    "recall",
    "both",
    recall_selected,
    "The mean recall of users, each weighted by the chance that the random exposures show one of the user's positives.",
    NO_POSITIVE,
)
FULL_PRECISION = Estimator(
    "full_mean",
    "precision",
    "truth",
    precision,
    "The mean over all users of the share of positives among their top k.",
    NO_CANDIDATE,
)
FULL_DCG = Estimator(
    "full_mean", "dcg", "truth", dcg, "The mean over all users of the DCG of their list at k.", NO_CANDIDATE
)
FULL_NDCG = Estimator(
    "full_macro",
    "ndcg",
    "truth",
    ndcg_macro,
    "The mean nDCG at k of the users who have a positive among their candidates.",
    NO_POSITIVE,
)
FULL_NDCG_MEAN = Estimator(
    "full_mean",
    "ndcg",
    "truth",
    ndcg_mean,
    "The mean over all users of nDCG at k, 0 for users without a positive.",
    NO_CANDIDATE,
)
FULL_AUC = Estimator(
    "full_macro",
    "auc",
    "truth",
    auc,
    "The mean, over users with both kinds, of the chance that a positive ranks above a negative.",
    "users without both a positive and a negative among their candidates",
)
FULL_AUC_SELECTED = Estimator(
    "full_selected",
    "auc",
    "both",
    auc_selected,
    "The mean chance that a positive of a user ranks above a negative, over users, each weighted by the chance that the random exposures show both kinds.",
    "users without both a positive and a negative among their candidates",
)
FULL_MAP = Estimator(
    "full_macro",
    "map",
    "truth",
    average_precision,
    "The mean average precision at k of the users who have a positive among their candidates.",
    NO_POSITIVE,
)
FULL_HIT_RATE = Estimator(
    "full_mean", "hit_rate", "truth", hit_rate, "The share of all users with a positive in their top k.", NO_CANDIDATE
)
ESTIMATORS = (
    FULL_MACRO,
    FULL_MICRO,
    FULL_SELECTED,
    FULL_PRECISION,
    FULL_DCG,
    FULL_NDCG,
    FULL_NDCG_MEAN,
    FULL_AUC,
    FULL_AUC_SELECTED,
    FULL_MAP,
    FULL_HIT_RATE,
)
