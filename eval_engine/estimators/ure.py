"""URE: metrics over the full candidate list from a few random exposures [ure]. The terms are in estimators/metrics.py; here is what their sums estimate.

m_u / n_u is exactly unbiased for the user's recall given n_u > 0. Its mean over users is not unbiased for the macro mean: users with many positives
are more often among those with n_u > 0. What it tends to is full_selected (estimators/full_exposure.py); balanced URE corrects it (statistics/balanced.py).
micro is consistent for the pooled recall; precision, DCG and hit_rate@1 are exactly unbiased, AUC is for the users that show both kinds; nDCG and MAP are
consistent as exposures grow. The facts hold the user's exposures, all of them and nothing else: the pairs that are no positives are needed for e_u.
"""

from eval_engine.estimators.estimator import Estimator
from eval_engine.estimators.metrics import (
    auc,
    average_precision,
    dcg,
    hit_rate,
    ndcg_mean,
    precision,
    recall_macro,
    recall_micro,
)

NO_POSITIVE = "users without a positive among their random exposures"
NO_EXPOSURE = "users without a random exposure"
SELECTED = "each weighted by the chance that the random exposures show one of the user's positives; not the plain mean over users"

URE_MACRO = Estimator(
    "ure_macro",
    "recall",
    "random",
    recall_macro,
    f"The mean recall over all candidates of users, {SELECTED}.",
    NO_POSITIVE,
)
URE_MICRO = Estimator(
    "ure_micro",
    "recall",
    "random",
    recall_micro,
    "The share of all positives among all candidates, of all users together, that are in their user's top k.",
    NO_POSITIVE,
)
URE_PRECISION = Estimator(
    "ure_mean",
    "precision",
    "random",
    precision,
    "The mean over all users of the share of positives among the top k of all candidates.",
    NO_EXPOSURE,
)
URE_DCG = Estimator(
    "ure_mean",
    "dcg",
    "random",
    dcg,
    "The mean over all users of the DCG of their list at k over all candidates.",
    NO_EXPOSURE,
)
URE_NDCG = Estimator(
    "ure_mean",
    "ndcg",
    "random",
    ndcg_mean,
    "The mean over all users of nDCG at k over all candidates, 0 for users without a positive; consistent as exposures grow, too low for few of them.",
    NO_EXPOSURE,
)
URE_AUC = Estimator(
    "ure_macro",
    "auc",
    "random",
    auc,
    "The mean chance that a positive of a user ranks above a negative, over users, each weighted by the chance that the random exposures show both kinds.",
    "users without both a positive and a negative among their random exposures",
)
URE_MAP = Estimator(
    "ure_macro",
    "map",
    "random",
    average_precision,
    f"The mean average precision at k over all candidates of users, {SELECTED}; consistent as exposures grow, biased for few of them.",
    "users without a positive among their random exposures, or with one exposure only",
)
URE_HIT_RATE = Estimator(
    "ure_mean",
    "hit_rate",
    "random",
    hit_rate,
    "The share of all users with a positive in the top k of all candidates.",
    NO_EXPOSURE,
    "whether one of k > 1 top items is a positive hangs on items that were not exposed; hit_rate@1, precision and recall can be estimated",
)
ESTIMATORS = (URE_MACRO, URE_MICRO, URE_PRECISION, URE_DCG, URE_NDCG, URE_AUC, URE_MAP, URE_HIT_RATE)
