"""What is asked of every model: metrics, cutoffs, what is positive, and how ties are broken."""

from typing import NamedTuple

from eval_engine.estimators.by_metric import ESTIMATORS
from eval_engine.estimators.estimator import Estimator
from eval_engine.metric import Metric
from eval_engine.positive import Positive


class EvaluationSpec(NamedTuple):
    """What is asked of every model."""

    metrics: tuple[Metric, ...]  # over all candidates
    traditional: tuple[Metric, ...]  # among the exposed items
    positive: Positive
    ties: str
    sources: tuple[str, ...]  # label sources that the run has: random, truth
    estimators: tuple[Estimator, ...] = ESTIMATORS  # that there are; none has to have every metric

    def asked(self) -> list[tuple[Estimator, Metric]]:
        """Every estimator whose labels there are, with each of its metrics."""
        return [
            (estimator, metric)
            for estimator in self.estimators
            if self.sources_of(estimator) <= set(self.sources)
            for metric in (self.traditional if estimator.name == "traditional" else self.metrics)
            if metric.name == estimator.metric
        ]

    @staticmethod
    def sources_of(estimator: Estimator) -> set[str]:
        """The label sources it needs."""
        return {"random", "truth"} if estimator.source == "both" else {estimator.source}

    def cutoffs(self) -> tuple[int, ...]:
        """Every cutoff that is asked for."""
        return tuple(sorted({metric.k for metric in (*self.metrics, *self.traditional)} - {0}))

    def compared(self) -> list[Metric]:
        """The quantities by which models are compared user by user: recall and precision order models alike on a user,
        as do DCG and nDCG. A metric that random exposures do not tell of a user is none of them."""
        if "random" not in self.sources:
            return []
        pairwise_wins = {win_metric_of(metric) for metric in self.metrics if metric.name != "hit_rate"}
        return sorted(metric for metric in pairwise_wins if self.compared_by(metric))

    def compared_by(self, metric: Metric) -> Estimator | None:
        """Whose numerators are compared, of a metric that models are compared on; None: it is not compared."""
        known = {estimator.name: estimator for estimator in self.estimators if estimator.metric == metric.name}
        return known.get("ure_macro") or known.get("ure_mean")


def win_metric_of(metric: Metric) -> Metric:
    """The quantity by which models are compared on a user, if it is this metric that is asked for."""
    return Metric({"precision": "recall", "dcg": "ndcg"}.get(metric.name, metric.name), metric.k)
