"""The report as one picture: estimates with their intervals, the order that each scheme gives, which model beats which.

On top: what must be read first (plot_head.py). Left: per model the truth and each estimate with its interval, and a
small tick at the true value of the quantity that it estimates, if that is not the truth. Right: a bump chart
(plot_orders.py). Below: chances to be the best and a matrix of verdicts (plot_wins.py), where models were compared.

Nothing but the rows goes into the file (no date, no version of the software), so the same rows give the same bytes.
Colours are of the Okabe-Ito palette, which colour-blind readers can distinguish; markers differ too.
"""

import io
import textwrap
from collections.abc import Mapping
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
from eval_engine.report.answers import Answers
from eval_engine.report.cell import percent_text
from eval_engine.report.estimate_row import defined
from eval_engine.report.orders import agreements
from eval_engine.report.pairwise_wins import PairwiseWins, outcome, pairwise_wins
from eval_engine.report.panel import Panel, panels
from eval_engine.report.plot_head import draw_head, head
from eval_engine.report.plot_orders import INK, MUTED, draw_orders, heads_height
from eval_engine.report.plot_wins import MOST, draw_chances, draw_matrix, head_height, row_height
from eval_engine.report.scheme import ESTIMATE, Scheme
from eval_engine.report.short_names import short_names
from eval_engine.report.shortened import shortened
from eval_engine.storage.atomic_file import write_atomically

DPI = 160
WIDTH = 15.0  # inches
LEFT, RIGHT = (1.6, 6.0), (8.55, 12.6)  # inches from the left edge: where the two charts begin and end
TOP, BOTTOM, ROW = 0.9, 1.15, 0.58  # inches above the charts, without the head; below them; per model at least
LANE = 0.14  # inches per scheme of a model
LEGEND_LETTERS = 60  # of a legend on one line
LANES = 0.6  # of a model's row
CHANCES, MATRIX = (1.6, 5.3), (8.55, 14.7)  # inches from the left edge, of the lower charts
CELL = 1.45  # inches of the matrix at most
ABOVE, BELOW = 0.95, 0.75  # inches above the names of the matrix's columns and below the lower charts


class Mark(NamedTuple):
    """How a scheme is drawn on the left."""

    colour: str
    marker: str
    size: float


STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "text.parse_math": False,  # a dollar in a model's name is a dollar
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}
TRUTH_MARK = Mark(INK, "D", 6.5)
MARKS = (  # of estimates, in the order of columns
    Mark("#0072b2", "o", 7.0),
    Mark("#cc79a7", "^", 7.0),
    Mark("#009e73", "s", 6.2),
    Mark("#e69f00", "v", 7.0),
    Mark("#d55e00", "P", 7.0),
    Mark("#56b4e9", "X", 7.0),
)


def save_plot(answers: Answers, path: str | Path, target: Metric | None = None) -> Path:
    """Draw one target (if not named, the first by which models can be better) and write it as PNG."""
    every = panels(answers)
    return write_atomically(_png(_chosen(every, target), every, answers), path)


def _chosen(every: list[Panel], target: Metric | None) -> Panel:
    named = [panel for panel in every if target is None or str(target) == str(panel.target)]
    chosen = next((panel for panel in named if panel.judges), named[0] if named else None)
    if chosen is None:
        known = ", ".join(str(panel.target) for panel in every) or "none"
        raise DataError(
            f"estimates: no rows for {target or 'any metric'}, so there is nothing to draw. Metrics with rows: {known}."
        )
    return chosen


def _png(panel: Panel, every: list[Panel], answers: Answers) -> bytes:
    with matplotlib.style.context(STYLE, after_reset=True):
        buffer = io.BytesIO()
        draw(panel, every, answers).savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def draw(panel: Panel, every: list[Panel], answers: Answers) -> Figure:
    """The picture of this panel; every: all panels of the run."""
    text, wins, names = head(panel, every, answers.checks), pairwise_wins(panel), short_names(panel.models)
    compared, small = agreements(panel), shortened(panel)
    panel = small.panel
    top, upper = text.height + TOP + heads_height(panel), _upper(panel)
    height = top + upper + BOTTOM + (_height(wins, names) if wins else 0.0)
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    draw_head(figure, text)
    left, right = (_axes(figure, at, top, upper) for at in (LEFT, RIGHT))
    shown = ["the truth"] * panel.has_truth + ["estimates"] * bool(_estimates(panel))
    for x, caption in (
        (0.02, f"{panel.target}: {' and '.join(shown)}" if shown else str(panel.target)),
        (0.455, "Which model is better: the order each scheme gives"),
    ):
        figure.text(x, 1 - (text.height + 0.2) / height, caption, size=11.5, color=MUTED, weight="bold")
    _draw_estimates(left, panel, answers.confidence, names)
    draw_orders(right, panel, names, compared)
    if small.note:
        figure.text(0.02, 1 - (text.height + 0.42) / height, small.note, size=9.5, color=MUTED)
    if wins:
        _draw_wins(figure, wins, top + upper + BOTTOM, names)
    return figure


def _upper(panel: Panel) -> float:
    """Inches of the upper charts."""
    return max(ROW, LANE * len(_marks(panel))) * max(len(panel.models), 3)


def _axes(figure: Figure, at: tuple[float, float], top: float, tall: float) -> Axes:
    """Axes between two distances from the left edge, this far from the top, in inches."""
    height = figure.get_figheight()
    return figure.add_axes((at[0] / WIDTH, 1 - (top + tall) / height, (at[1] - at[0]) / WIDTH, tall / height))


def _matrix(wins: PairwiseWins) -> tuple[float, float]:
    return MATRIX[0], min(MATRIX[1], MATRIX[0] + CELL * len(wins.models))


def _height(wins: PairwiseWins, names: Mapping[str, str]) -> float:
    """Inches of the lower charts with all that belongs to them."""
    begin, end = _matrix(wins)
    return ABOVE + head_height(wins, end - begin, names) + row_height(wins) * min(len(wins.models), MOST) + BELOW


def _draw_wins(figure: Figure, wins: PairwiseWins, top: float, names: Mapping[str, str]) -> None:
    height = figure.get_figheight()
    figure.add_artist(Line2D([0.02, 0.98], [1 - top / height] * 2, color="#e4e7eb", linewidth=1))
    title = textwrap.wrap(f"By {wins.by}, {outcome(wins)}", 120, max_lines=1, placeholder=" …")[0]
    figure.text(0.02, 1 - (top + 0.45) / height, title, size=13, weight="bold")
    n = len(wins.models)
    best = f", the best {MOST} of {n} models" if n > MOST else ""
    for x, text in ((0.02, "The chance to be the best"), (0.455, f"Which model beats which: row against column{best}")):
        figure.text(x, 1 - (top + 0.78) / height, text, size=11.5, color=MUTED, weight="bold")
    tall = row_height(wins) * min(n, MOST)
    under = top + _height(wins, names) - BELOW - tall
    draw_chances(_axes(figure, CHANCES, under, tall), wins, names)
    draw_matrix(_axes(figure, _matrix(wins), under, tall), wins, names)


def _draw_estimates(axes: Axes, panel: Panel, confidence: float, names: Mapping[str, str]) -> None:
    axes.spines[:].set_visible(False)
    axes.set_ylim(len(panel.models) - 0.5, -0.5)
    axes.set_yticks(range(len(panel.models)), [names[model] for model in panel.models])
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
    handles = _handles(panel)
    letters = sum(len(str(handle.get_label())) for handle in handles)
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.42, -0.58 / _upper(panel)),
        ncols=5 if letters <= LEGEND_LETTERS else 3, frameon=False, fontsize=9.5, handletextpad=0.5, columnspacing=1.2,
    )  # fmt: skip


def _draw_model(axes: Axes, panel: Panel, model: str, place: int) -> None:
    marks = _marks(panel)
    step = LANES / max(len(marks) - 1, 1)
    for lane, (scheme, mark) in enumerate(marks.items()):
        y = place + (lane - (len(marks) - 1) / 2) * step
        if scheme == panel.truth and (truth := panel.value(scheme, model)) is not None:
            ends = [y, y + LANES + 0.1]
            axes.plot([truth, truth], ends, color=INK, linewidth=1, linestyle=(0, (2, 2)), alpha=0.45, zorder=1)
        _draw_estimate(axes, panel, scheme, mark, model, y)


def _draw_estimate(axes: Axes, panel: Panel, scheme: Scheme, mark: Mark, model: str, y: float) -> None:
    row = panel.rows.get((scheme, model))
    if row is None or not defined(row.value):
        return
    if scheme != panel.truth and defined(row.low) and defined(row.high):
        ends = [row.low, row.high]
        axes.plot(ends, [y, y], color=mark.colour, linewidth=2.6, solid_capstyle="round", alpha=0.5, zorder=2)
    axes.plot(
        row.value,
        y,
        mark.marker,
        color=mark.colour,
        markersize=mark.size,
        markeredgecolor="white",
        markeredgewidth=0.8,
        zorder=4,
    )
    own = panel.own_target(scheme)
    if own is not None and (target := panel.value(own, model)) is not None:
        axes.plot(target, y, "|", color=mark.colour, markersize=13, markeredgewidth=2.2, zorder=3)


def _estimates(panel: Panel) -> list[Scheme]:
    """The estimates that have a value."""
    return [scheme for scheme in panel.of(ESTIMATE) if panel.has_value(scheme)]


def _marks(panel: Panel) -> dict[Scheme, Mark]:
    """The schemes that are drawn on the left, and how: the truth, and the estimates that have a value."""
    truth = {panel.truth: TRUTH_MARK} if panel.truth and panel.has_value(panel.truth) else {}
    return truth | {scheme: MARKS[n % len(MARKS)] for n, scheme in enumerate(_estimates(panel))}


def _handles(panel: Panel) -> list[Line2D]:
    handles = [
        Line2D(
            [],
            [],
            color=mark.colour,
            marker=mark.marker,
            markersize=mark.size,
            linewidth=0 if scheme == panel.truth else 2,
            label=scheme.label,
        )
        for scheme, mark in _marks(panel).items()
    ]
    if any(panel.own_target(scheme) for scheme in _estimates(panel)):
        tick = Line2D([], [], color=MUTED, marker="|", markersize=12, markeredgewidth=2.2, linewidth=0)
        tick.set_label("what that one estimates")
        handles.append(tick)
    return handles
