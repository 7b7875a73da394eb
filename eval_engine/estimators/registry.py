"""Every metric and every estimator by name; an estimator has every metric that is defined for one of its means over
users.

    >>> names = [name for name, one in ESTIMATORS.items() if one.role == "estimate"]
    >>> names[:7]
    ['ure_balanced', 'ure_mean', 'ure_macro', 'ure_micro', 'snips', 'clipped', 'stratified_balanced']
    >>> names[7:]
    ['designed_mean', 'designed_mean_known', 'designed_micro', 'ure_mean_known']
    >>> [str(one) for one in formulas("mrr") if one.terms is not undefined_terms]
    ['full_macro mrr', 'traditional mrr', 'holdout mrr', 'open_loop mrr', 'test_set mrr']
    >>> ESTIMATORS["ure_macro"].label_of("recall"), ESTIMATORS["ure_macro"].label_of("auc")
    ('URE macro', 'URE')

ESTIMATORS is in the order in which a report shows them. Modules of other packages add theirs by register_metric and
register_estimator; docs/extending.md.
"""

from eval_engine.errors import DataError
from eval_engine.estimators.balanced_ure import URE_BALANCED
from eval_engine.estimators.designed import (
    DESIGNED_MEAN,
    DESIGNED_MEAN_KNOWN,
    DESIGNED_MICRO,
    URE_MEAN_KNOWN,
)
from eval_engine.estimators.estimator import Estimator, MetricTerms, longer_lists, undefined_terms
from eval_engine.estimators.full_exposure import FULL_MACRO, FULL_MEAN, FULL_MICRO, FULL_SELECTED
from eval_engine.estimators.holdout import HOLDOUT
from eval_engine.estimators.ips import CLIPPED, IPS, SNIPS, SNIPS_USER
from eval_engine.estimators.lists import LISTS
from eval_engine.estimators.metrics.aplt import ACLT, APLT, TAIL_SHARE
from eval_engine.estimators.metrics.arp import ARP
from eval_engine.estimators.metrics.auc import AUC
from eval_engine.estimators.metrics.average_precision import MAP
from eval_engine.estimators.metrics.coverage import COVERAGE
from eval_engine.estimators.metrics.dcg import DCG
from eval_engine.estimators.metrics.exposure_share import EXPOSURE_SHARE
from eval_engine.estimators.metrics.gini import GINI
from eval_engine.estimators.metrics.hit_rate import HIT_RATE
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel
from eval_engine.estimators.metrics.mrr import MRR
from eval_engine.estimators.metrics.ndcg import NDCG
from eval_engine.estimators.metrics.ndcg_compressed import NDCG_COMPRESSED
from eval_engine.estimators.metrics.novelty import NOVELTY
from eval_engine.estimators.metrics.parity import P_REO, P_REO_BY_USER, P_RSP, P_RSP_BY_USER
from eval_engine.estimators.metrics.precision import PRECISION
from eval_engine.estimators.metrics.r_precision import R_PRECISION
from eval_engine.estimators.metrics.raw_recall import RAW_RECALL
from eval_engine.estimators.metrics.rbp import RBP
from eval_engine.estimators.metrics.recall import RECALL
from eval_engine.estimators.metrics.sampled_hit_rate import SAMPLED_HIT_RATE, SAMPLED_HIT_RATE_DRAWN
from eval_engine.estimators.open_loop import OPEN_LOOP
from eval_engine.estimators.stratified import STRATIFIED, STRATIFIED_BALANCED
from eval_engine.estimators.test_set import TEST_SET
from eval_engine.estimators.traditional import TRADITIONAL
from eval_engine.estimators.ure import URE_MACRO, URE_MEAN, URE_MICRO
from eval_engine.metric import MetricKind, register

METRICS: dict[str, MetricKernel] = {}
ESTIMATORS: dict[str, Estimator] = {}


def register_metric(metric: MetricKernel) -> None:
    """Register a metric for every estimator and for Metric.parse."""
    METRICS[metric.name] = metric
    register(MetricKind(metric.name, metric.at_k, metric.parameters))


def register_estimator(estimator: Estimator) -> None:
    """Register an estimator."""
    ESTIMATORS[estimator.name] = estimator


for _metric in (
    RECALL, PRECISION, DCG, NDCG, MAP, HIT_RATE, AUC, RBP, MRR, R_PRECISION, COVERAGE, GINI,
    ARP, APLT, ACLT, TAIL_SHARE, NOVELTY, EXPOSURE_SHARE, P_RSP, P_RSP_BY_USER, P_REO, P_REO_BY_USER,
    SAMPLED_HIT_RATE, SAMPLED_HIT_RATE_DRAWN, NDCG_COMPRESSED, RAW_RECALL,
):  # fmt: skip
    register_metric(_metric)
for _estimator in (
    FULL_MEAN, FULL_MACRO, LISTS, TRADITIONAL, HOLDOUT, OPEN_LOOP, TEST_SET, URE_BALANCED, URE_MEAN, URE_MACRO,
    FULL_SELECTED, URE_MICRO, FULL_MICRO, SNIPS, CLIPPED, STRATIFIED_BALANCED, SNIPS_USER, STRATIFIED, IPS,
    DESIGNED_MEAN, DESIGNED_MEAN_KNOWN, DESIGNED_MICRO, URE_MEAN_KNOWN,
):  # fmt: skip
    register_estimator(_estimator)


def estimator_of(name: str) -> Estimator | None:
    """The estimator of this name in tables, with or without settings: stratified(equal_count=5)."""
    return ESTIMATORS.get(name) or ESTIMATORS.get(name.partition("(")[0])


def formulas(metric: str) -> list[MetricTerms]:
    """A metric under every estimator that has it, in the order of ESTIMATORS."""
    found = (terms_of(estimator, METRICS[metric]) for estimator in ESTIMATORS.values())
    return [one for one in found if one is not None]


def formula(estimator: str, metric: str) -> MetricTerms:
    """A metric under an estimator; an error if the estimator does not have it, as not all have every metric."""
    own, kernel = ESTIMATORS.get(estimator), METRICS.get(metric)
    terms = terms_of(own, kernel) if own and kernel else None
    if terms is None:
        raise DataError(
            f"statistics: there is no estimator {estimator} of {metric}. Another version may have written these rows: "
            "run "
            "jobs/evaluate.py again."
        )
    return terms


def terms_of(estimator: Estimator, metric: MetricKernel, logged: bool = False) -> MetricTerms | None:
    """The metric under this estimator: by the first of its means that the metric has; None if there is none. logged:
    the propensities are logged, not estimated.
    """
    if logged:
        estimator = estimator.if_logged.get(metric.name, estimator)
    if estimator.only is not None and metric.name not in estimator.only:
        return None
    if metric.name in estimator.without:
        reason, words = estimator.without[metric.name], estimator.words["positive"]
        return MetricTerms(
            estimator, metric.name, "", "positive", undefined_terms, f"Not defined: {reason}.", words.left_out, reason,
            None,
        )  # fmt: skip
    for mean in estimator.means:
        kernel = metric.means.get(mean)
        if kernel is not None and not (kernel.complete_only and estimator.sampled):
            words = estimator.words.get(kernel.users) or estimator.words["positive"]
            estimand = _estimand(estimator, mean, kernel)
            unknown = f"{kernel.unknown}; or {estimator.unknown}" if estimator.unknown else kernel.unknown
            found = MetricTerms(
                estimator, metric.name, mean, kernel.users, kernel.terms, estimand, words.left_out, unknown,
                kernel.denominator, kernel.scaled, kernel.needs, kernel.by_class, kernel.over_classes,
                kernel.top, kernel.pairs,
            )  # fmt: skip
            return longer_lists(found) if metric.name in estimator.whole_lists else found
    return None


def _estimand(estimator: Estimator, mean: str, kernel: Kernel) -> str:
    """A sentence that says what the ratio of the sums estimates."""
    over = f" {estimator.over}" if estimator.over else ""
    words = estimator.words.get(kernel.users) or estimator.words["positive"]
    caveats = [kernel.sampled] if estimator.sampled and kernel.sampled else []
    caveats += [estimator.caveat] if estimator.caveat else []
    end = "".join(f"; {caveat}" for caveat in caveats)
    if mean in ("micro", "pairs", "raw"):
        return f"{kernel.quantity[0].upper()}{kernel.quantity[1:]}{over}, all users taken together{end}."
    return f"The mean of {kernel.quantity}{over} over {words.counted}{end}."
