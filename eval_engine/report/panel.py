"""A panel: everything the rows say about one metric at one cutoff, the target, as models x schemes.

A scheme is an estimator at a metric: URE recall@10, traditional recall@5. The traditional scheme ranks the few exposed items only, so its
cutoff is its own; every traditional scheme of the metric stands beside every target.

The reference is what orders are held against: the truth, where labels are complete. It is full_mean or full_macro, whichever URE estimates for this
metric; only nDCG has both, and there URE estimates full_mean. Without truth there is no judge, only URE to compare with: for recall ure_balanced,
which corrects what ure_macro selects, or ure_macro where that is undefined.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from eval_engine.errors import DataError
from eval_engine.metric import KNOWN, Metric
from eval_engine.plain_text import plain, plain_names
from eval_engine.report.answers import Answers
from eval_engine.report.check_line import failed
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow, defined

TRUTHS = ("full_mean", "full_macro")
TRADITIONAL = "traditional"
URE = ("ure_balanced", "ure_mean", "ure_macro", "ure_micro")  # the best first
COLUMNS = (*TRUTHS, TRADITIONAL, "ure_balanced", "ure_mean", "ure_macro", "full_selected", "ure_micro", "full_micro")
ESTIMATES_OF = {
    "ure_balanced": "full_macro",
    "ure_mean": "full_mean",
    "ure_macro": "full_selected",
    "ure_micro": "full_micro",
}

LABELS = {
    "full_mean": "truth",
    "full_macro": "truth",
    TRADITIONAL: "traditional",
    "ure_balanced": "URE balanced",
    "ure_mean": "URE",
    "ure_macro": "URE macro",
    "full_selected": "URE macro's target",
    "ure_micro": "URE micro",
    "full_micro": "URE micro's target",
}
NOT_RECALL = {"ure_macro": "URE", "full_selected": "URE's target"}  # where there is one URE only
WITH_POSITIVE = "truth of users with a positive"


class Scheme(NamedTuple):
    """An estimator at a metric: one column of the report."""

    estimator: str
    metric: Metric

    @property
    def label(self) -> str:
        """The estimator in words."""
        if self.metric.name == "ndcg" and self.estimator == "full_macro":
            return WITH_POSITIVE
        labels = LABELS if self.metric.name == "recall" else LABELS | NOT_RECALL
        return labels.get(self.estimator, self.estimator.replace("_", " "))

    @property
    def name(self) -> str:
        """The label, and the metric where it is not the panel's."""
        return str(self) if self.estimator == TRADITIONAL else self.label

    def __str__(self) -> str:
        return f"{self.label} {self.metric}"


class Panel(NamedTuple):
    """The rows of one target; models best first by the reference."""

    target: Metric
    models: tuple[str, ...]
    schemes: tuple[Scheme, ...]
    rows: Mapping[tuple[Scheme, str], EstimateRow]
    pairs: Mapping[tuple[Scheme, str, str], ComparisonRow]  # each pair in one of its two orders
    failed: tuple[str, ...] = ()  # checks of the random exposures

    @property
    def truth(self) -> Scheme | None:
        """What is known, not estimated; None where labels are incomplete."""
        return self._first_of(TRUTHS)

    @property
    def best_estimate(self) -> Scheme | None:
        """What to go by: URE, or the truth where URE says nothing."""
        return self._first_of((*URE, *TRUTHS))

    @property
    def reference(self) -> Scheme | None:
        """The scheme that the others are held against."""
        return self._first_of((*TRUTHS, *URE))

    @property
    def has_truth(self) -> bool:
        """Whether the reference is the truth."""
        return self.reference is not None and self.reference == self.truth

    def of(self, *estimators: str) -> tuple[Scheme, ...]:
        """The schemes of these estimators, in the report's order."""
        return tuple(s for s in self.schemes if s.estimator in estimators)

    def target_of(self, scheme: Scheme) -> Scheme | None:
        """The column that holds what the scheme is an estimate of; None if there is no such column."""
        return next(iter(self.of(ESTIMATES_OF.get(scheme.estimator, ""))), None)

    def value(self, scheme: Scheme, model: str) -> float | None:
        """The scheme's estimate of the model; None if it has none."""
        row = self.rows.get((scheme, model))
        return row.value if row is not None and defined(row.value) else None

    def has_value(self, scheme: Scheme) -> bool:
        """Whether the scheme says anything of any model."""
        return any(self.value(scheme, model) is not None for model in self.models)

    def pair(self, scheme: Scheme, a: str, b: str) -> ComparisonRow | None:
        """What the scheme says of a against b, paired over users; None if that is not known."""
        if row := self.pairs.get((scheme, a, b)):
            return row
        row = self.pairs.get((scheme, b, a))
        return row.turned() if row else None

    def _first_of(self, estimators: tuple[str, ...]) -> Scheme | None:
        """The first that has a value; if none has one, the first."""
        present = [s for name in estimators for s in self.of(name)]
        return next((s for s in present if self.has_value(s)), present[0] if present else None)


def panels(answers: Answers) -> list[Panel]:
    """One panel per target, in the order the metrics were asked for."""
    estimates, comparisons = _plain_rows(answers)
    cells = _cells(estimates)
    pairs = {(Scheme(c.estimator, Metric(c.metric, c.k)), c.model_a, c.model_b): c for c in comparisons}
    targets = sorted(
        {s.metric for s, _ in cells if s.estimator != TRADITIONAL}, key=lambda metric: _turn(metric, answers.metrics)
    )
    return [_panel(target, cells, pairs)._replace(failed=failed(answers.checks)) for target in targets]


def _plain_rows(answers: Answers) -> tuple[list[EstimateRow], list[ComparisonRow]]:
    """The rows with names and sentences as they are shown: in everything below, a model is called by its printable name."""
    pairs = answers.comparisons
    names = plain_names(
        dict.fromkeys([*(row.model for row in answers.estimates), *(m for c in pairs for m in (c.model_a, c.model_b))])
    )
    estimates = [
        row._replace(
            model=names[row.model],
            estimand=row.estimand and plain(row.estimand),
            left_out=row.left_out and plain(row.left_out),
            reason=row.reason and plain(row.reason),
        )
        for row in answers.estimates
    ]
    return estimates, [c._replace(model_a=names[c.model_a], model_b=names[c.model_b]) for c in pairs]


def _turn(metric: Metric, asked: tuple[Metric, ...]) -> tuple[int, int, Metric]:
    return (
        asked.index(metric) if metric in asked else len(asked),
        KNOWN.index(metric.name) if metric.name in KNOWN else len(KNOWN),
        metric,
    )


def _cells(rows: Iterable[EstimateRow]) -> dict[tuple[Scheme, str], EstimateRow]:
    cells: dict[tuple[Scheme, str], EstimateRow] = {}
    for row in rows:
        key = (Scheme(row.estimator, Metric(row.metric, row.k)), row.model)
        if key in cells:
            raise DataError(
                f"estimates: two rows for model={row.model!r}, estimator={row.estimator!r}, metric={key[0].metric}, so it is not clear which "
                "to report. Give the rows of one run_id only."
            )
        cells[key] = row
    return cells


def _panel(
    target: Metric,
    cells: Mapping[tuple[Scheme, str], EstimateRow],
    pairs: Mapping[tuple[Scheme, str, str], ComparisonRow],
) -> Panel:
    own = {
        key: row
        for key, row in cells.items()
        if key[0].metric == target or (key[0].estimator == TRADITIONAL and key[0].metric.name == target.name)
    }
    schemes = {s for s, _ in own}
    panel = Panel(
        target,
        tuple(sorted({model for _, model in own})),
        tuple(schemes),
        own,
        {key: row for key, row in pairs.items() if key[0] in schemes},
    )
    panel = panel._replace(schemes=tuple(sorted(schemes, key=lambda scheme: _column(scheme, panel.truth))))
    return panel._replace(models=tuple(sorted(panel.models, key=lambda model: _best_first(panel, model))))


def _column(scheme: Scheme, truth: Scheme | None) -> tuple[int, str, Metric]:
    other_truth = scheme.estimator in TRUTHS and scheme != truth
    place = COLUMNS.index(scheme.estimator) if scheme.estimator in COLUMNS and not other_truth else len(COLUMNS)
    return place, scheme.estimator, scheme.metric


def _best_first(panel: Panel, model: str) -> tuple[bool, float, str]:
    value = panel.value(panel.reference, model) if panel.reference else None
    return value is None, -(value or 0.0), model
