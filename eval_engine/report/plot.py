"""The report as one picture: left what is estimated and how surely, right the order of models that each scheme gives.

Left: per model the truth, URE macro and URE micro with their intervals, and a small tick where the quantity that each URE estimates
really is. Right: a bump chart (plot_orders.py).

Nothing but the rows goes into the file (no date, no version of the software), so the same rows give the same bytes. Colours are of the
Okabe-Ito palette, which colour-blind readers can tell apart; markers differ too.
"""

import io
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from eval_engine.errors import DataError
from eval_engine.metric import Metric
from eval_engine.report.atomic_file import write_atomically
from eval_engine.report.cell import percent_text
from eval_engine.report.estimate_row import EstimateRow, defined
from eval_engine.report.finding import headline
from eval_engine.report.panel import ESTIMATES_OF, TRUTH, Panel, Scheme, panels
from eval_engine.report.plot_orders import INK, MUTED, draw_orders, short

DPI = 160
WIDTH = 15.0  # inches
LEFT, RIGHT = (1.6, 6.0), (8.55, 12.6)  # inches from the left edge: where the two charts begin and end; names stand between them
TOP, BOTTOM, ROW = 1.7, 1.15, 0.58  # inches above the charts, below them, and per model
LANES = 0.54  # of a model's row


class Mark(NamedTuple):
    """How a scheme is drawn on the left."""

    colour: str
    marker: str
    size: float


MARKS = {TRUTH: Mark(INK, "D", 6.5), "ure_macro": Mark("#0072b2", "o", 7.0), "ure_micro": Mark("#009e73", "s", 6.2)}


def save_plot(rows: Iterable[EstimateRow], path: str | Path, target: Metric | None = None, confidence: float = 0.95) -> Path:
    """Draw one target (the first, if not named) and write it as PNG."""
    return write_atomically(_png(_chosen(panels(rows), target), confidence), path)


def _chosen(found: list[Panel], target: Metric | None) -> Panel:
    chosen = next((panel for panel in found if target in (None, panel.target)), None)
    if chosen is None:
        known = ", ".join(str(panel.target) for panel in found) or "none"
        raise DataError(f"estimates: no rows for {target or 'any metric'}, so there is nothing to draw. Metrics with rows: {known}.")
    return chosen


def _png(panel: Panel, confidence: float) -> bytes:
    style = {
        "font.family": "DejaVu Sans",
        "font.size": 10.5,
        "text.color": INK,
        "axes.labelcolor": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
    }
    with matplotlib.style.context(style, after_reset=True):
        height = TOP + BOTTOM + ROW * max(len(panel.models), 3)
        figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
        FigureCanvasAgg(figure)
        left, right = (figure.add_axes((a / WIDTH, BOTTOM / height, (b - a) / WIDTH, 1 - (TOP + BOTTOM) / height)) for a, b in (LEFT, RIGHT))
        title = "\n".join(textwrap.wrap(headline(panel), 100, max_lines=2, placeholder=" …"))
        figure.text(0.02, 1 - 0.22 / height, title, size=15.5, weight="bold", va="top", parse_math=False)
        for x, text in ((0.02, f"{panel.target}: the truth, and what URE says of it"), (0.455, "Which model is better: the order each scheme gives")):
            figure.text(x, 1 - 1.0 / height, text if panel.has_truth else text.replace("the truth, and ", ""), size=11.5, color=MUTED, weight="bold")
        _draw_estimates(left, panel, confidence)
        draw_orders(right, panel)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _draw_estimates(axes: Axes, panel: Panel, confidence: float) -> None:
    axes.spines[:].set_visible(False)
    axes.set_ylim(len(panel.models) - 0.5, -0.5)
    axes.set_yticks(range(len(panel.models)), [short(model) for model in panel.models], parse_math=False)
    axes.tick_params(length=0, pad=7)
    axes.tick_params(axis="x", labelcolor=MUTED)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.grid(axis="x", color="#e4e7eb", linewidth=1)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"{panel.target}, with {percent_text(confidence)} intervals", labelpad=6)
    for place, model in enumerate(panel.models):
        if place % 2 == 0:
            axes.axhspan(place - 0.5, place + 0.5, color="#f6f7f9", zorder=0)
        _draw_model(axes, panel, model, place)
    axes.legend(
        handles=_handles(panel), loc="upper center", bbox_to_anchor=(0.42, -0.58 / (ROW * max(len(panel.models), 3))),
        ncols=4, frameon=False, fontsize=9.5, handletextpad=0.5, columnspacing=1.5,
    )  # fmt: skip


def _draw_model(axes: Axes, panel: Panel, model: str, place: int) -> None:
    drawn = panel.of(*MARKS)
    step = LANES / max(len(drawn) - 1, 1)
    for lane, scheme in enumerate(drawn):
        y = place + (lane - (len(drawn) - 1) / 2) * step
        if scheme.estimator == TRUTH and (truth := panel.value(scheme, model)) is not None:
            axes.plot([truth, truth], [y, y + LANES + 0.1], color=INK, linewidth=1, linestyle=(0, (2, 2)), alpha=0.45, zorder=1)
        _draw_estimate(axes, panel, scheme, model, y)


def _draw_estimate(axes: Axes, panel: Panel, scheme: Scheme, model: str, y: float) -> None:
    row, mark = panel.rows.get((scheme, model)), MARKS[scheme.estimator]
    if row is None or not defined(row.value):
        return
    if scheme.estimator != TRUTH and defined(row.low) and defined(row.high):
        axes.plot([row.low, row.high], [y, y], color=mark.colour, linewidth=2.6, solid_capstyle="round", alpha=0.5, zorder=2)
    axes.plot(row.value, y, mark.marker, color=mark.colour, markersize=mark.size, markeredgecolor="white", markeredgewidth=0.8, zorder=4)
    for own in panel.of(ESTIMATES_OF.get(scheme.estimator, "")):
        if (target := panel.value(own, model)) is not None:
            axes.plot(target, y, "|", color=mark.colour, markersize=13, markeredgewidth=2.2, zorder=3)


def _handles(panel: Panel) -> list[Line2D]:
    handles = []
    for scheme in panel.of(*MARKS):
        mark = MARKS[scheme.estimator]
        line = 0 if scheme.estimator == TRUTH else 2
        handles.append(Line2D([], [], color=mark.colour, marker=mark.marker, markersize=mark.size, linewidth=line, label=scheme.label))
    if panel.of(*ESTIMATES_OF.values()):
        handles.append(Line2D([], [], color=MUTED, marker="|", markersize=12, markeredgewidth=2.2, linewidth=0, label="what that URE estimates"))
    return handles
