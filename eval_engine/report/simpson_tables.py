"""A study of [simpson] as tables: on the terminal by rich, and on a self-contained HTML page with the pictures inside.

Every text that comes from outside (names of models and propensities) is escaped, and not taken for markup.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from eval_engine.config import StrataSettings
from eval_engine.metric import Metric
from eval_engine.plain_text import plain
from eval_engine.report.cell import p_text
from eval_engine.report.scheme import Scheme
from eval_engine.report.sheet import Sheet, print_sheets, save_sheets
from eval_engine.report.study_tables import UNDEFINED
from eval_engine.studies.simpson import (
    HOLDOUT,
    LEVEL,
    SHARES,
    Evaluated,
    Instance,
    StrataSummary,
    agreement_lines,
    prevalences,
    strata_summaries,
    stratum_lines,
)

KINDS = {"equal_width": "equal width", "equal_count": "equal count"}


class SimpsonReport(NamedTuple):
    """All that a report of the study needs: the run's own propensities first."""

    metric: Metric
    runs: Sequence[Evaluated]
    show: StrataSettings
    instances: Mapping[str, Instance]  # by the name of propensities

    @property
    def reference(self) -> str:
        """The reference in words."""
        return Scheme(self.runs[0].reference, self.metric).label


def sheets(report: SimpsonReport) -> list[Sheet]:
    """Every table of the study, those that have lines."""
    every = [
        _fits(report),
        _agreement(report),
        _summaries(report),
        _by_number(report),
        *(_strata(report, run) for run in report.runs),
        *(_instance(report, run) for run in report.runs if run.propensities in report.instances),
        *(_prevalence(run)._replace(page_only=n > 0) for n, run in enumerate(report.runs)),
    ]
    return [sheet for sheet in every if sheet.lines]


def headline(report: SimpsonReport) -> str:
    """The estimate that agrees best with the reference, beside holdout."""
    rows = [
        (row["kendall"], Scheme(row["estimator"], report.metric).label, run.propensities)
        for run in report.runs
        for row in run.agreement
        if row["kendall"] is not None and row["reference"] == run.reference
    ]
    if not rows:
        return "No estimate can be compared with the reference"
    tau, name, propensities = max(rows)
    base = next((row["kendall"] for row in report.runs[0].agreement if row["estimator"] == HOLDOUT), None)
    return f"Kendall's tau with the {report.reference}: holdout {_number(base, 2)}, at best {tau:.2f} ({name}, " + (
        f"propensities: {plain(propensities)})"
    )


def print_simpson(report: SimpsonReport, console: Console) -> None:
    """Print the tables."""
    print_sheets(sheets(report), console)
    console.print(Text(headline(report), style="bold"))


def save_simpson_page(
    report: SimpsonReport, pictures: Mapping[str, Path], run_facts: Mapping[str, str], path: str | Path
) -> Path:
    """Write the page; pictures: PNG files to embed, by what they show."""
    return save_sheets(headline(report), sheets(report), pictures, run_facts, path)


def _fits(report: SimpsonReport) -> Sheet:
    lines = []
    for run in report.runs:
        fit = run.fit
        parameters = ", ".join(
            f"{name} {fit[name]:.4g}" for name in ("gamma", "alpha", "xmin") if fit.get(name) is not None
        )
        lines.append(
            (
                plain(run.propensities),
                fit["method"],
                parameters or UNDEFINED,
                _number(fit["least"], 5),
                _number(fit["largest"], 3),
                f"{fit['n_heldout']:,}",
            )
        )
    return Sheet("Propensities", ("name", "method", "parameters", "least", "largest", "held-out pairs"), lines)


def _agreement(report: SimpsonReport) -> Sheet:
    lines = []
    for run in report.runs:
        for row in agreement_lines(run):
            lines.append(
                (
                    Scheme(row["estimator"], report.metric).label,
                    plain(run.propensities),
                    Scheme(row["reference"], report.metric).label,
                    _number(row["kendall"], 3),
                    _range(row["kendall_low"], row["kendall_high"]),
                    _number(row["kendall_error"], 3),
                    _number(row["pearson"], 3),
                    _range(row["pearson_low"], row["pearson_high"]),
                    p_text(row["kendall_difference_p"]),
                    p_text(row["steiger_p"]),
                )
            )
    reasons = {row["interval_reason"] or row["reason"] for run in report.runs for row in agreement_lines(run)} - {None}
    n_models = max((row["n_models"] for run in report.runs for row in run.agreement), default=0)
    heads = (
        "estimate", "propensities", "against", "tau", "tau, interval over users", "error over models", "Pearson",
        "Pearson, interval over users", "p against holdout, jackknife of tau", "p, Steiger of Pearson",
    )  # fmt: skip
    return Sheet(
        f"Agreement with the {report.reference}: {report.metric}, {n_models} models",
        heads,
        list(dict.fromkeys(lines)),
        plain("; ".join(f"{UNDEFINED}: {reason}" for reason in sorted(reasons))),
        (heads[9], heads[5], heads[7], heads[8]),
    )


def _summaries(report: SimpsonReport) -> Sheet:
    every = [(run, one) for run in report.runs for one in strata_summaries(run)]
    lines = [_summary_line(run, one) for run, one in every]
    numbers = sorted({n for _, one in every for n in one.numbers})
    between = f"{numbers[0]} to {numbers[-1]}" if numbers else ""
    heads = (
        "propensities", "strata", "shares", "mean tau", "sd", "least", "largest", "above holdout",
        "Steiger of tau, one-sided", "Steiger of Pearson", "jackknife of tau",
    )  # fmt: skip
    note = f"Right: in how many settings the gain over holdout is significant at {LEVEL:.0%}, by each test."
    return Sheet(f"Stratified evaluation over {between} strata", heads, lines, note, (*heads[:-4:-1], "sd", "least"))


def _summary_line(run: Evaluated, one: StrataSummary) -> tuple[str, ...]:
    n = len(one.numbers)
    return (
        plain(run.propensities),
        KINDS[one.kind],
        SHARES[one.estimator],
        f"{one.mean:.3f}",
        _number(one.deviation, 3),
        f"{min(one.taus):.3f}",
        f"{max(one.taus):.3f}",
        *(f"{count} of {n}" for count in (one.n_higher, one.n_steiger, one.n_pearson, one.n_jackknife)),
    )


def _by_number(report: SimpsonReport) -> Sheet:
    """Tau and Pearson with their intervals over users, for every number of strata."""
    every = [(run, one) for run in report.runs for one in strata_summaries(run)]
    numbers = sorted({n for _, one in every for n in one.numbers})
    lines = []
    for run, one in every:
        of_number = dict(zip(one.numbers, one.rows, strict=True))
        for measure, name in (("tau", "kendall"), ("Pearson", "pearson")):
            cells = []
            for n in numbers:
                row = of_number.get(n, {})
                between = _range(row.get(f"{name}_low"), row.get(f"{name}_high"))
                cells.append(f"{_number(row.get(name), 2)} ({between})" if row else UNDEFINED)
            lines.append((plain(run.propensities), KINDS[one.kind], SHARES[one.estimator], measure, *cells))
    heads = ("propensities", "strata", "shares", "measure", *map(str, numbers))
    return Sheet(
        "Stratified evaluation by number of strata", heads, lines, "In brackets: interval over users.", page_only=True
    )


def _strata(report: SimpsonReport, run: Evaluated) -> Sheet:
    lines = [
        (
            line.stratum,
            f"{line.n_items:,}",
            f"{line.n_pairs:,}",
            f"{line.share:.1%}",
            f"{line.balanced_share:.1%}",
            _number(line.value, 4),
            _number(line.kendall, 3),
            _number(line.pearson, 3),
        )
        for line in stratum_lines(run, report.show)
    ]
    heads = ("stratum", "items", "pairs", "share of pairs", "by 1/p", "mean of models", "tau", "Pearson")
    title = (
        f"Holdout within {report.show.n} strata of {KINDS[report.show.kind]}, propensities: {plain(run.propensities)}"
    )
    return Sheet(title, heads, lines, f"tau and Pearson: with the {report.reference}, over models.")


def _instance(report: SimpsonReport, run: Evaluated) -> Sheet:
    one = report.instances[run.propensities]
    lines = []
    for line in one.lines:
        first, second = line.values
        ahead = None if first is None or second is None or first == second else first > second
        star = "*" if line.p is not None and line.p < LEVEL else ""
        cells = (f"{_number(v, 4)}{star if ahead is up else ''}" for v, up in ((first, True), (second, False)))
        label = line.name if line.name.startswith("Q") else Scheme(line.name, report.metric).label
        lines.append((label, *cells, p_text(line.p)))
    title = f"An instance ({one.flag}), propensities: {plain(run.propensities)}"
    held = {"users": "users with a held-out positive in them", "pairs": "held-out pairs"}[one.share_of]
    note = (
        f"*: better, p < {LEVEL:g}, paired over users, not adjusted. Share of the slices that contradict, by {held}: "
    )
    return Sheet(title, ("estimate", *map(plain, one.models), "p"), lines, f"{note}{one.share:.0%}.")


def _prevalence(run: Evaluated) -> Sheet:
    lines = [
        (
            one.slicing.removeprefix("propensity_").replace("_", " "),
            f"{one.n_model_pairs:,}",
            *(f"{count:,}" for count in (one.n_reversed, one.n_vanishes, one.n_weak)),
            f"{(one.n_reversed + one.n_vanishes) / one.n_model_pairs:.1%}" if one.n_model_pairs else UNDEFINED,
            f"{one.n_as_slices:,}",
            f"{one.n_against:,}",
        )
        for one in prevalences(run)
    ]
    heads = (
        "strata", "pairs of models", "reversed", "vanishes", "weak", "reversed or vanishes",
        "reference: as the slices", "reference: against them",
    )  # fmt: skip
    return Sheet(
        f"Simpson's paradox under holdout, propensities: {plain(run.propensities)}", heads, lines, "", heads[1:2]
    )


def _number(x: float | None, digits: int) -> str:
    return UNDEFINED if x is None or math.isnan(x) else f"{x:.{digits}f}"


def _range(low: float | None, high: float | None) -> str:
    return UNDEFINED if low is None or high is None else f"{low:.2f} to {high:.2f}"
