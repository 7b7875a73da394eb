"""The traditional scheme: rank only the items the user was shown [ure] 2. Kept because everybody reports it.

    recall      mean over users with n_u > 0 of the share of the exposed positives that are in the top k of E_u
    precision   mean over users of the share of positives in the top k of E_u
    ndcg        mean over users with n_u > 0 of DCG over the best possible DCG, both in E_u

k counts places among the e_u exposed items, so this is no estimate of the metric at k over all candidates: with e_u <= k recall is 1 for any model.
Ties are those inside E_u, and treated by the same policy.
"""

from eval_engine.estimators.estimator import Estimator, Terms, divided, mean_over
from eval_engine.estimators.labelled import Labelled

NO_POSITIVE = "users without a positive among their random exposures"


def recall(labelled: Labelled, k: int, ties: str) -> Terms:
    """Recall among the exposed items, and 1, of each user with an exposed positive."""
    return mean_over(
        labelled.n_positive > 0, divided(labelled.gained("hits", k, ties, within=True), labelled.n_positive)
    )


def precision(labelled: Labelled, k: int, ties: str) -> Terms:
    """The share of positives in the top k of the exposed items, and 1, of each user with an exposure."""
    return mean_over(labelled.n_labelled > 0, labelled.gained("hits", k, ties, within=True) / k)


def ndcg(labelled: Labelled, k: int, ties: str) -> Terms:
    """nDCG among the exposed items, and 1, of each user with an exposed positive."""
    ideal = labelled.ideal_dcg(k, labelled.n_positive)
    return mean_over(labelled.n_positive > 0, divided(labelled.gained("discount", k, ties, within=True), ideal))


def _estimator(metric: str, terms: object, over: str, left_out: str) -> Estimator:
    words = f"The mean, over {over}, of {metric} among the randomly shown items only; not {metric} over all candidates."
    return Estimator("traditional", metric, "random", terms, words, left_out)  # type: ignore[arg-type]


TRADITIONAL = _estimator("recall", recall, "users who were shown a positive", NO_POSITIVE)
TRADITIONAL_PRECISION = _estimator(
    "precision", precision, "users who were shown something at random", "users without a random exposure"
)
TRADITIONAL_NDCG = _estimator("ndcg", ndcg, "users who were shown a positive", NO_POSITIVE)
ESTIMATORS = (TRADITIONAL, TRADITIONAL_PRECISION, TRADITIONAL_NDCG)
