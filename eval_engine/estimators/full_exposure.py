"""Full exposure: every candidate is labelled, so metrics are computed, not estimated. The other estimators are compared
with it.

    full_macro      mean over users with N+_u > 0                  recall M_u / N+_u; nDCG, AUC, MAP, MRR
    full_micro      sum M_u / sum N+_u
    full_mean       mean over all users                            precision, DCG, nDCG, RBP, hit rate
    full_selected   sum P_u x_u / sum P_u,
                    P_u = P(n_u > 0) = 1 - C(N - N+_u, e_u) / C(N, e_u); of AUC P(0 < n_u < e_u)

N+_u: positives among the N candidates, M_u: those in the top k (expected under ties). `selected` is the limit of
ure_macro: ure_macro averages only users whose e_u random exposures show a positive, which are mostly users with many
positives. In the sums of `selected` a user without a positive has weight 0.

P_u is that of even drawing. With exposure probabilities it would need those of all of the user's positives, shown or
not, and the design that they are of (the chance that two items are shown together); exposures hold the probabilities of
the shown items only. `selected` is then unknown for every user: NULL, with the reason.
"""

import numpy as np

from eval_engine.estimators.estimator import Doubles, Estimator, Words
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.hit_rate import chance_of_a_positive
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.kernels.arrays import Ints

NO_POSITIVE = "users without a positive among their candidates"
NOT_BOTH = "users without both a positive and a negative among their candidates"
WITH_POSITIVE = Words("the users who have a positive among their candidates", NO_POSITIVE)
WORDS = {
    "labelled": Words("all users", "users without a labelled candidate"),
    "positive": WITH_POSITIVE,
    "several": WITH_POSITIVE,
    "both": Words("the users with both a positive and a negative among their candidates", NOT_BOTH),
}
SELECTED = "users, each weighted by the chance that the random exposures show"
SELECTED_WORDS = {
    "positive": Words(f"{SELECTED} one of the user's positives", NO_POSITIVE),
    "several": Words(f"{SELECTED} one of the user's positives", NO_POSITIVE),
    "both": Words(f"{SELECTED} both kinds", NOT_BOTH),
}


def complete_truth(batch: UserBatch) -> Labelled:
    """All labels."""
    return batch.complete("truth")


def chance_to_be_shown(batch: UserBatch, labelled: Labelled, users: Ints | slice, kind: str) -> Doubles:
    """P_u: the chance that as many random exposures as the user had show a positive; for metrics of both kinds, that
    they show both.
    """
    exposures = batch.labels["random"].facts.n_labels[users]
    n, total = labelled.n_positive, labelled.candidates
    if kind != "both":
        chance = chance_of_a_positive(n, exposures, total)
        return chance if kind == "positive" else np.where(exposures > 1, chance, 0.0)
    negatives = total - labelled.all_positives
    either = chance_of_a_positive(n + negatives, exposures, total)
    chance = chance_of_a_positive(n, exposures, total) + chance_of_a_positive(negatives, exposures, total) - either
    # of one exposure exactly 0, not 1e-16
    return np.where(exposures > 1, np.maximum(chance, 0.0), 0.0)


def drawn_unevenly(batch: UserBatch) -> bool:
    """Whether the random exposures have exposure probabilities."""
    return batch.labels["random"].facts.probability is not None


UNEVEN = (
    "exposures have exposure probabilities, and the chance to show a positive is known for even drawing only: it would "
    "need the probabilities of the items that were not shown, and of two items together"
)
TRUTH = frozenset({"truth"})
FULL_MEAN = Estimator("full_mean", "truth", "truth", None, TRUTH, means=("mean",), pairs=complete_truth, words=WORDS)
FULL_MACRO = Estimator(
    "full_macro",
    "truth",
    "truth",
    None,
    TRUTH,
    {"ndcg": "truth of users with a positive"},
    means=("macro",),
    pairs=complete_truth,
    words=WORDS,
)
FULL_SELECTED = Estimator(
    "full_selected",
    "URE macro's target",
    "truth",
    None,
    frozenset({"truth", "random"}),
    {"auc": "URE's target", "map": "URE's target"},
    means=("macro",),
    pairs=complete_truth,
    user_weight=chance_to_be_shown,
    words=SELECTED_WORDS,
    only=frozenset({"recall", "auc"}),
    unknown_in=drawn_unevenly,
    unknown=UNEVEN,
)
FULL_MICRO = Estimator(
    "full_micro", "URE micro's target", "truth", None, TRUTH, means=("micro", "raw"), pairs=complete_truth, words=WORDS
)
