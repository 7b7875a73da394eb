"""A panel: everything the rows say about one metric at one cutoff, the target, as models x schemes.

A scheme is an estimator at a metric: URE recall@10, traditional recall@5. The traditional scheme ranks the few exposed items only, so its
cutoff is its own; every traditional scheme of the metric stands beside every target.

The reference is what orders are held against: the truth (full_macro), where labels are complete. Without it there is no judge, only URE
to compare with: ure_macro first, because it averages over the same users as the traditional scheme does.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from eval_engine.errors import DataError
from eval_engine.metric import Metric
from eval_engine.report.estimate_row import EstimateRow, defined

TRUTH = "full_macro"
TRADITIONAL = "traditional"
URE = ("ure_macro", "ure_micro")
COLUMNS = (TRUTH, TRADITIONAL, "ure_macro", "full_selected", "ure_micro", "full_micro")
REFERENCES = (TRUTH, *URE)
ESTIMATES_OF = {"ure_macro": "full_selected", "ure_micro": "full_micro"}

LABELS = {
    TRUTH: "truth",
    TRADITIONAL: "traditional",
    "ure_macro": "URE macro",
    "full_selected": "URE macro's target",
    "ure_micro": "URE micro",
    "full_micro": "URE micro's target",
}


class Scheme(NamedTuple):
    """An estimator at a metric: one column of the report."""

    estimator: str
    metric: Metric

    @property
    def label(self) -> str:
        """The estimator in words."""
        return LABELS.get(self.estimator, self.estimator.replace("_", " "))

    def __str__(self) -> str:
        return f"{self.label} {self.metric}"


class Panel(NamedTuple):
    """The rows of one target; models best first by the reference."""

    target: Metric
    models: tuple[str, ...]
    schemes: tuple[Scheme, ...]
    rows: Mapping[tuple[Scheme, str], EstimateRow]

    @property
    def reference(self) -> Scheme | None:
        """The scheme that the others are held against."""
        present = {s.estimator: s for s in self.schemes}
        return next((present[name] for name in REFERENCES if name in present), None)

    @property
    def has_truth(self) -> bool:
        """Whether the reference is the truth."""
        return self.reference is not None and self.reference.estimator == TRUTH

    def of(self, *estimators: str) -> tuple[Scheme, ...]:
        """The schemes of these estimators, in the report's order."""
        return tuple(s for s in self.schemes if s.estimator in estimators)

    def value(self, scheme: Scheme, model: str) -> float | None:
        """The scheme's estimate of the model; None if it has none."""
        row = self.rows.get((scheme, model))
        return row.value if row is not None and defined(row.value) else None


def panels(rows: Iterable[EstimateRow]) -> list[Panel]:
    """One panel per target, by metric and cutoff."""
    cells = _cells(rows)
    targets = sorted({s.metric for s, _ in cells if s.estimator != TRADITIONAL})
    return [_panel(target, cells) for target in targets]


def _cells(rows: Iterable[EstimateRow]) -> dict[tuple[Scheme, str], EstimateRow]:
    cells: dict[tuple[Scheme, str], EstimateRow] = {}
    for row in rows:
        key = (Scheme(row.estimator, Metric(row.metric, row.k)), row.model)
        if key in cells:
            raise DataError(
                f"estimates: two rows for model={row.model!r}, estimator={row.estimator!r}, metric={row.metric}@{row.k}, so it is not clear which "
                "to report. Give the rows of one run_id only."
            )
        cells[key] = row
    return cells


def _panel(target: Metric, cells: Mapping[tuple[Scheme, str], EstimateRow]) -> Panel:
    own = {
        key: row for key, row in cells.items() if key[0].metric == target or (key[0].estimator == TRADITIONAL and key[0].metric.name == target.name)
    }
    schemes = tuple(sorted({s for s, _ in own}, key=_column))
    panel = Panel(target, tuple(sorted({model for _, model in own})), schemes, own)
    return panel._replace(models=tuple(sorted(panel.models, key=lambda model: _best_first(panel, model))))


def _column(scheme: Scheme) -> tuple[int, str, Metric]:
    place = COLUMNS.index(scheme.estimator) if scheme.estimator in COLUMNS else len(COLUMNS)
    return place, scheme.estimator, scheme.metric


def _best_first(panel: Panel, model: str) -> tuple[bool, float, str]:
    value = panel.value(panel.reference, model) if panel.reference else None
    return value is None, -(value or 0.0), model
