"""A panel: all that the rows say about one metric at one cutoff, the target, as models x schemes.

A target is a metric of any scheme that is not naive. A naive scheme may have cutoffs of its own (the traditional one
counts places among the few exposed items): where it does not have the cutoff of every target, it stands beside each of
them. Where there are naive schemes only, their metrics are the targets.

The reference is what orders of models are compared with: the truth, where labels are complete, else the first
estimate in the order of the registry that has a value. The best estimate, by which verdicts are given, is the first
estimate that has a value, else the truth, else a naive scheme.

A panel of the whole also holds a panel of each slice (`category=toys`), with the rows of that slice.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from eval_engine.errors import DataError
from eval_engine.metric import Metric
from eval_engine.plain_text import plain, plain_names
from eval_engine.report.answers import Answers
from eval_engine.report.check_line import failed
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow, defined
from eval_engine.report.scheme import ESTIMATE, NAIVE, TRUTH, Scheme
from eval_engine.report.slice_name import WHOLE, SliceName, slice_name

Cells = Mapping[tuple[Scheme, str], EstimateRow]
Pairs = Mapping[tuple[Scheme, str, str], ComparisonRow]


class Panel(NamedTuple):
    """The rows of one target; models best first by the reference."""

    target: Metric
    models: tuple[str, ...]
    schemes: tuple[Scheme, ...]  # in the order of columns
    rows: Cells
    pairs: Pairs  # each pair in one of its two orders
    failed: tuple[str, ...] = ()  # checks of the random exposures
    slices: "Mapping[SliceName, Panel]" = MappingProxyType({})  # in a panel of the whole

    @property
    def truth(self) -> Scheme | None:
        """What is known, not estimated; None where labels are incomplete."""
        return self._first_of(TRUTH)

    @property
    def best_estimate(self) -> Scheme | None:
        """The scheme that verdicts are given by."""
        return self._first_of(ESTIMATE, TRUTH, NAIVE)

    @property
    def reference(self) -> Scheme | None:
        """The scheme that the others are compared with."""
        return self._first_of(TRUTH, ESTIMATE, NAIVE)

    @property
    def has_truth(self) -> bool:
        """Whether the reference is the truth."""
        return self.reference is not None and self.reference.role == TRUTH

    @property
    def judges(self) -> bool:
        """Whether a higher value of the target is better."""
        return any(scheme.judges for scheme in self.schemes)

    @property
    def judge(self) -> str:
        """The reference in words."""
        return "the truth" if self.has_truth else self.reference.label if self.reference else ""

    def of(self, *roles: str) -> tuple[Scheme, ...]:
        """The schemes of these roles, role by role, each in the order of columns."""
        return tuple(scheme for role in roles for scheme in self.schemes if scheme.role == role)

    def target_of(self, scheme: Scheme) -> Scheme | None:
        """The scheme over complete labels that this one is an estimate of; None if the panel does not hold it."""
        return next((s for s in self.schemes if s.estimator == scheme.estimates), None)

    def own_target(self, scheme: Scheme) -> Scheme | None:
        """The same, where it is not the panel's truth, which has a column of its own."""
        target = self.target_of(scheme)
        return None if target == self.truth else target

    def value(self, scheme: Scheme, model: str) -> float | None:
        """The scheme's estimate of the model; None if it has none."""
        row = self.rows.get((scheme, model))
        return row.value if row is not None and defined(row.value) else None

    def has_value(self, scheme: Scheme) -> bool:
        """Whether the scheme has a value of any model."""
        return any(self.value(scheme, model) is not None for model in self.models)

    def pair(self, scheme: Scheme, a: str, b: str) -> ComparisonRow | None:
        """The scheme's comparison of a with b, paired over users; None if there is none."""
        if row := self.pairs.get((scheme, a, b)):
            return row
        row = self.pairs.get((scheme, b, a))
        return row.turned() if row else None

    def _first_of(self, *roles: str) -> Scheme | None:
        """The first that has a value; if none has one, the first."""
        present = sorted(self.of(*roles), key=lambda scheme: (roles.index(scheme.role), scheme.place))
        return next((s for s in present if self.has_value(s)), present[0] if present else None)


def panels(answers: Answers) -> list[Panel]:
    """One panel per target, in the order the metrics were asked for."""
    estimates, comparisons = _plain_rows(answers)
    cells, pairs = _cells(estimates), _pairs(comparisons)
    targets = _targets({scheme for scheme, _ in cells.get(WHOLE, {})}, [str(metric) for metric in answers.metrics])
    checks = failed(answers.checks)
    by_target = []
    for target in targets:
        by_slice = {name: _panel(target, rows, pairs.get(name, {}), checks, targets) for name, rows in cells.items()}
        panel = by_slice.pop(WHOLE)
        by_target.append(panel._replace(slices={name: part for name, part in by_slice.items() if part.models}))
    return by_target


def _plain_rows(answers: Answers) -> tuple[list[EstimateRow], list[ComparisonRow]]:
    """The rows with printable names and sentences: in all that follows, a model is called by its printable name.
    Metrics that an estimator does not define are left out: the table says why.
    """
    undefined = {
        (row.estimator, row.metric, row.k)
        for row in answers.estimates
        if (row.reason or "").startswith("not defined: ")
    }
    pairs = [row for row in answers.comparisons if (row.estimator, row.metric, row.k) not in undefined]
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
        if (row.estimator, row.metric, row.k) not in undefined
    ]
    if all(name == shown for name, shown in names.items()):
        return estimates, list(pairs)
    return estimates, [c._replace(model_a=names[c.model_a], model_b=names[c.model_b]) for c in pairs]


def _cells(rows: Iterable[EstimateRow]) -> dict[SliceName, dict[tuple[Scheme, str], EstimateRow]]:
    """The rows of each slice by scheme and model."""
    cells: dict[SliceName, dict[tuple[Scheme, str], EstimateRow]] = {}
    for row in rows:
        of_slice = cells.setdefault(slice_name(row.slice), {})
        key = (Scheme(row.estimator, Metric(row.metric, row.k)), row.model)
        if key in of_slice:
            raise DataError(
                f"estimates: two rows for model={row.model!r}, estimator={row.estimator!r}, metric={key[0].metric}, "
                f"slice={row.slice!r}, so it is not clear which to report. Give the rows of one run_id only."
            )
        of_slice[key] = row
    return cells


def _pairs(rows: Sequence[ComparisonRow]) -> dict[SliceName, dict[tuple[Scheme, str, str], ComparisonRow]]:
    """The comparisons of each slice by scheme and models."""
    pairs: dict[SliceName, dict[tuple[Scheme, str, str], ComparisonRow]] = {}
    parts = ((row.slice, row.estimator, row.metric, row.k) for row in rows)
    keys = {part: (slice_name(part[0]), Scheme(part[1], Metric(*part[2:]))) for part in set(parts)}
    for row in rows:
        name, scheme = keys[row.slice, row.estimator, row.metric, row.k]
        pairs.setdefault(name, {})[scheme, row.model_a, row.model_b] = row
    return pairs


def _targets(schemes: Iterable[Scheme], asked: Sequence[str]) -> list[Metric]:
    """The metrics that get a panel: those that were asked for first, in that order."""
    every = list(schemes)
    targets = {s.metric for s in every if s.role != NAIVE}
    targets |= {s.metric for s in every if s.metric.name not in {target.name for target in targets}}
    return sorted(targets, key=lambda m: (asked.index(str(m)) if str(m) in asked else len(asked), m.name, m.k, str(m)))


def _panel(target: Metric, cells: Cells, pairs: Pairs, checks: tuple[str, ...], targets: Sequence[Metric]) -> Panel:
    beside = _beside(target, {scheme for scheme, _ in cells}, targets)
    rows = {key: row for key, row in cells.items() if key[0].metric == target or key[0] in beside}
    schemes = {scheme for scheme, _ in rows}
    models = {model for _, model in rows}
    own_pairs = {key: row for key, row in pairs.items() if key[0] in schemes}
    panel = Panel(target, tuple(sorted(models)), tuple(schemes), rows, own_pairs, checks)
    panel = panel._replace(schemes=_columns(panel))
    reference = panel.reference
    values = {model: panel.value(reference, model) if reference else None for model in models}
    return panel._replace(models=tuple(sorted(models, key=lambda m: (values[m] is None, -(values[m] or 0.0), m))))


def _beside(target: Metric, schemes: Iterable[Scheme], targets: Sequence[Metric]) -> set[Scheme]:
    """The naive schemes with cutoffs of their own."""
    naive = {s for s in schemes if s.role == NAIVE and s.metric.name == target.name}
    wanted = {one for one in targets if one.name == target.name}
    return {s for s in naive if not wanted <= {other.metric for other in naive if other.estimator == s.estimator}}


def _columns(panel: Panel) -> tuple[Scheme, ...]:
    """The truth, naive schemes, estimates, each followed by its own target; other truths."""
    ordered = sorted(panel.schemes, key=lambda scheme: scheme.place)
    columns = [panel.truth, *(s for s in ordered if s.role == NAIVE)]
    for scheme in (s for s in ordered if s.role == ESTIMATE):
        columns += [scheme, panel.own_target(scheme)]
    return tuple(dict.fromkeys(s for s in (*columns, *ordered) if s is not None))
