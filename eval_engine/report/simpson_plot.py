"""The pictures of a study of [simpson], in the style of report/study_plot.py.

    scatter   every model as a point: the reference against holdout, and against holdout within each stratum, with the
              least squares line (figure 3 of the paper)
    taus      Kendall's tau with the reference over the number of strata, one line per kind of shares, one panel per
              kind of strata (figure 4); holdout is one stratum

Nothing but the rows goes into a file, so the same rows give the same bytes.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval_engine.plain_text import plain
from eval_engine.report.plot_orders import INK, MUTED, PALE
from eval_engine.report.scheme import Scheme
from eval_engine.report.simpson_tables import KINDS, SimpsonReport
from eval_engine.report.study_plot import COLOURS, LINES, figure_with_title, png
from eval_engine.statistics.agreement import agreement
from eval_engine.storage.atomic_file import write_atomically
from eval_engine.studies.simpson import (
    HOLDOUT,
    SHARES,
    SINGLE,
    Evaluated,
    line_of,
    points,
    slicing_of,
    strata_summaries,
    values_of,
)

COLUMNS = 4  # panels in a row


def save_scatter(report: SimpsonReport, run: Evaluated, path: str | Path) -> Path:
    """Draw the models, whole and by stratum, and write them as PNG."""
    return write_atomically(png(lambda: _scatter(report, run)), path)


def save_taus(report: SimpsonReport, run: Evaluated, path: str | Path) -> Path:
    """Draw tau over the number of strata and write it as PNG."""
    return write_atomically(png(lambda: _taus(report, run)), path)


def _scatter(report: SimpsonReport, run: Evaluated) -> Figure:
    names = ["all", *(f"{slicing_of(report.show)}=Q{n}" for n in range(1, report.show.n + 1))]
    n_rows = math.ceil(len(names) / COLUMNS)
    width, height = 1.2 + 4.0 * min(len(names), COLUMNS), 1.7 + 3.7 * n_rows
    title = f"{report.metric} of each model: {report.reference} and holdout, whole and by stratum"
    subtitle = f"{report.show.n} strata of {KINDS[report.show.kind]}; propensities: {plain(run.propensities)}"
    figure = figure_with_title(width, height, title, subtitle)
    grid = figure.subplots(n_rows, min(len(names), COLUMNS), squeeze=False, gridspec_kw={
        "left": 0.8 / width, "right": 1 - 0.25 / width, "bottom": 0.7 / height, "top": 1 - 1.35 / height,
        "wspace": 0.28, "hspace": 0.35,
    })  # fmt: skip
    truth = values_of(run.estimates, run.reference)
    for axes, name in zip(grid.flat, names, strict=False):
        x, y = points(truth, values_of(run.estimates, HOLDOUT, name))
        _draw_points(axes, x, y)
        tau = agreement(y, x).kendall if x.size else math.nan
        own = HOLDOUT if name == "all" else f"{HOLDOUT} in {name.rpartition('=')[2]}"
        axes.set_title(own + ("" if math.isnan(tau) else f": τ = {tau:.2f}"), size=11.5, color=INK, pad=8)
        axes.set_xlabel(report.reference, labelpad=4)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    return figure


def _draw_points(axes: Axes, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> None:
    _dress(axes)
    axes.plot(x, y, "o", color=COLOURS[0], markersize=6, markeredgecolor="white", markeredgewidth=0.8, zorder=3)
    if line := line_of(x, y):
        ends = np.array([x.min(), x.max()])
        axes.plot(ends, line[0] * ends + line[1], color=COLOURS[1], linewidth=1.8, zorder=2)


def _taus(report: SimpsonReport, run: Evaluated) -> Figure:
    width, height = 12.5, 6.2
    title = f"Kendall's tau with the {report.reference} over the number of strata: {report.metric}"
    figure = figure_with_title(width, height, title, f"One stratum is holdout; propensities: {plain(run.propensities)}")
    panels = figure.subplots(1, len(KINDS), sharey=True, squeeze=False, gridspec_kw={
        "left": 0.85 / width, "right": 1 - 0.25 / width, "bottom": 1.3 / height, "top": 1 - 1.4 / height,
        "wspace": 0.06,
    })[0]  # fmt: skip
    taus = {row["estimator"]: row["kendall"] for row in run.agreement if row["reference"] == run.reference}
    for axes, kind in zip(panels, KINDS, strict=True):
        _dress(axes)
        for n, one in enumerate(one for one in strata_summaries(run) if one.kind == kind):
            numbers, values = one.numbers, one.taus
            if taus.get(HOLDOUT) is not None:
                numbers, values = (1, *numbers), (taus[HOLDOUT], *values)
            axes.plot(
                numbers,
                values,
                marker="o",
                color=COLOURS[n],
                linestyle=LINES[n],
                label=f"shares: {SHARES[one.estimator]}",
            )
        for n, name in enumerate(SINGLE, 2):
            if taus.get(name) is not None:
                axes.axhline(
                    taus[name], color=COLOURS[n], linestyle=LINES[n], linewidth=1.4, label=_label(report, name)
                )
        axes.set_title(f"strata of {KINDS[kind]}", size=11.5, color=INK, pad=8)
        axes.set_xlabel("number of strata", labelpad=4)
        axes.set(xticks=range(1, 11), xlim=(0.6, 10.4))
    panels[0].set_ylabel("Kendall's tau over models", labelpad=6)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="lower center", bbox_to_anchor=(0.5, 0.1 / height), ncols=4, frameon=False, fontsize=10
    )
    return figure


def _label(report: SimpsonReport, estimator: str) -> str:
    return Scheme(estimator, report.metric).label


def _dress(axes: Axes) -> None:
    axes.spines[:].set_color(PALE)
    axes.tick_params(length=0, pad=5, labelcolor=MUTED)
    axes.grid(color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
