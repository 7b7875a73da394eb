"""A study of [wtd] as tables: on the terminal, and on a self-contained HTML page."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from eval_engine.estimators.test_set import TEST_SET
from eval_engine.metric import Metric
from eval_engine.plain_text import plain
from eval_engine.report.sheet import Sheet, print_sheets, save_sheets
from eval_engine.report.study_tables import UNDEFINED
from eval_engine.studies.wtd import (
    TRUTH,
    Difference,
    EvaluatedRun,
    Nearness,
    Tau,
    differences,
    measured,
    models_of,
    nearness,
    only,
    sets_of,
    tau,
)


class Asking(NamedTuple):
    """Settings of intervals."""

    confidence: float
    replicates: int
    seed: int


class WtdReport(NamedTuple):
    """All that a report of the study needs."""

    runs: Sequence[EvaluatedRun]
    metrics: tuple[Metric, ...]
    models: tuple[str, ...]
    without: tuple[str, ...]  # models that the second table of tau leaves out
    asking: Asking
    differences: Mapping[Metric, Mapping[str, Sequence[Difference]]]  # by test set
    taus: Mapping[Metric, Mapping[str, Tau]]
    taus_without: Mapping[Metric, Mapping[str, Tau]]

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the test sets."""
        return sets_of(self.runs)


def wtd_report(
    runs: Sequence[EvaluatedRun], metrics: tuple[Metric, ...], without: tuple[str, ...], asking: Asking
) -> WtdReport:
    """Compute the study's tables."""
    models, sets = models_of(runs), sets_of(runs)
    rest = [model for model in models if model not in without]
    of_metric, taus, fewer = {}, {}, {}
    for metric in metrics:
        found = measured(runs, metric, models)
        by_set = {name: found[f"{TEST_SET.name}({name})"] for name in sets}
        truth = found[TRUTH]
        of_metric[metric] = {name: differences(own, truth, models, asking.confidence) for name, own in by_set.items()}
        taus[metric] = {name: tau(own, truth, *asking) for name, own in by_set.items()}
        fewer[metric] = {
            name: tau(only(own, models, rest), only(truth, models, rest), *asking) for name, own in by_set.items()
        }
    return WtdReport(runs, metrics, models, without, asking, of_metric, taus, fewer if without else {})


def sheets(report: WtdReport) -> list[Sheet]:
    """Every table of the study, those that have lines."""
    every = [
        *(_differences(report, metric) for metric in report.metrics),
        _nearness(report),
        _taus(report, report.taus, f"Kendall's tau with the random truth, {len(report.models)} models (table 3)"),
        _taus(
            report,
            report.taus_without,
            f"Kendall's tau with the random truth, without {', '.join(map(plain, report.without))} (table 4)",
        ),
        _test_sets(report),
        _chosen(report),
    ]
    return [sheet for sheet in every if sheet.lines]


def headline(report: WtdReport) -> str:
    """The test set that is nearest to the truth by the first metric."""
    metric = report.metrics[0]
    ordered = sorted(
        (one for one in nearness(report.differences[metric]) if not math.isnan(one.distance)),
        key=lambda one: one.distance,
    )
    if not ordered:
        return "No test set can be compared with the random truth"
    first, last = ordered[0], ordered[-1]
    return (
        f"{metric}: {first.name} is nearest to the random truth, {first.distance:.0f} % away on average over "
        f"{len(report.models)} models; {last.name} is the farthest, {last.distance:.0f} %"
    )


def print_wtd(report: WtdReport, console: Console) -> None:
    """Print the tables."""
    print_sheets(sheets(report), console)
    console.print(Text(plain(headline(report)), style="bold"))


def save_wtd_page(report: WtdReport, run_facts: Mapping[str, str], path: str | Path) -> Path:
    """Write the page."""
    return save_sheets(plain(headline(report)), sheets(report), {}, run_facts, path)


def _differences(report: WtdReport, metric: Metric) -> Sheet:
    by_set = report.differences[metric]
    lines = []
    for m, model in enumerate(report.models):
        own = [by_set[name][m] for name in report.sets]
        lines.append((plain(model), _number(own[0].truth, 4), *map(_percent, own)))
    note = (
        f"Means of {len(report.runs)} runs. In brackets: {report.asking.confidence:.0%} interval over users and runs."
    )
    heads = ("model", "truth", *(f"{name}, %" for name in report.sets))
    return Sheet(f"{metric}: difference to the random truth (table 2)", heads, lines, note)


def _percent(one: Difference) -> str:
    if math.isnan(one.value):
        return UNDEFINED
    between = UNDEFINED if math.isnan(one.low) else f"{one.low:+.0f} to {one.high:+.0f}"
    return f"{one.value:+.1f} ({between})"


def _nearness(report: WtdReport) -> Sheet:
    lines: list[tuple[str, ...]] = []
    for metric in report.metrics:
        lines += [(str(metric), *_near(one)) for one in nearness(report.differences[metric])]
    heads = (
        "metric",
        "test set",
        "mean |difference|, %",
        "nearest, models",
        "above the truth",
        "below the truth",
        "not told apart",
    )
    note = "Above, below: models whose interval is on that side of the truth. Not told apart: their interval has it."
    return Sheet("Which test set is nearest to the truth", heads, lines, note)


def _near(one: Nearness) -> tuple[str, ...]:
    counts = (one.n_nearest, one.n_above, one.n_below, one.n_covered)
    return (one.name, _number(one.distance, 1), *map(str, counts))


def _taus(report: WtdReport, taus: Mapping[Metric, Mapping[str, Tau]], title: str) -> Sheet:
    lines, reasons = [], []
    for metric, by_set in taus.items():
        lines.append((str(metric), *(_tau(by_set[name]) for name in report.sets)))
        reasons += [own.reason for own in by_set.values() if own.reason]
    note = (
        f"In brackets: {report.asking.confidence:.0%} interval over users and runs; least to largest tau of a run "
        "by itself."
    )
    if reasons:
        note += f" –: {len(reasons)} of {len(lines) * len(report.sets)}, the first because {reasons[0]}."
    return Sheet(title, ("metric", *report.sets), lines, note)


def _tau(one: Tau) -> str:
    if math.isnan(one.value):
        return UNDEFINED
    known = [value for value in one.of_runs if not math.isnan(value)]
    between = UNDEFINED if math.isnan(one.low) else f"{one.low:.2f} to {one.high:.2f}"
    spread = f"{min(known):.2f} to {max(known):.2f}" if known else UNDEFINED
    return f"{one.value:.2f} ({between}; {spread})"


def _test_sets(report: WtdReport) -> Sheet:
    columns = ("size", "items_uniform", "users_uniform", "items_random", "users_random")
    lines = []
    for name in report.sets:
        rows = [row for run in report.runs for row in run.test_sets if row["name"] == name]
        cells = []
        for column in columns:
            known = [row[column] for row in rows if row[column] is not None]
            shown = UNDEFINED if not known else f"{mean(known):,.0f}" if column == "size" else f"{mean(known):.3f}"
            cells.append(shown)
        lines.append((name, str(rows[0]["rule"]).rpartition("weight ")[2], *cells))
    heads = (
        "test set", "weight", "pairs", "items, from uniform", "users, from uniform", "items, from random",
        "users, from random",
    )  # fmt: skip
    note = "Total variation of the marginals from uniform and from those of the random pairs of WTD; mean over draws."
    return Sheet("The test sets", heads, lines, note)


def _chosen(report: WtdReport) -> Sheet:
    counts = Counter((model, trial) for run in report.runs for model, trial in run.chosen.items())
    lines = [
        (plain(model), plain(trial), f"{n} of {len(report.runs)}")
        for (model, trial), n in sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    ]
    return Sheet("Hyper-parameters that were chosen", ("model", "settings", "runs"), lines)


def _number(x: float, digits: int) -> str:
    return UNDEFINED if math.isnan(x) else f"{x:.{digits}f}"
