"""The picture of the study of designed exposures: measured gain of each plan with the rule's line, above the coverage
of intervals, by what is varied.

Nothing but the rows goes into a file, so the same rows give the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from eval_engine.report.design_study_tables import AIM, PLAN_NAMES, headline
from eval_engine.report.plot_orders import INK, MUTED, PALE
from eval_engine.report.study_plot import COLOURS, LETTERS, LINE, figure_with_title, png
from eval_engine.storage.atomic_file import write_atomically
from eval_engine.studies.design import PLANS, UNIFORM, Line
from eval_engine.studies.settings import DesignStudy

AXES = {
    "items": "N: items of the frame",
    "models": "M: models of the plan",
    "apart": "how far the close models are apart",
    "exposures": "e: items shown to a user",
    "k": "K: cutoff",
}
MARKS = {UNIFORM: "D", "half": "o", "fifth": "s", "pair": "^"}
SHOWN = "recall"


def save_gains(study: DesignStudy, lines: Sequence[Line], path: str | Path) -> Path:
    """Draw gain and coverage by what is varied, and write them as PNG."""
    return write_atomically(png(lambda: _gains(study, lines)), path)


def _gains(study: DesignStudy, lines: Sequence[Line]) -> Figure:
    names = [name for name, values in study.vary if values] or ["items"]
    width, height = 1.2 + 2.75 * max(len(names), 3), 7.4
    base = study.base
    subtitle = (
        f"difference in pooled recall@K of two close models; N = {base.items:,}, M = {base.models}, e = "
        f"{base.exposures}, K = {base.k} where not varied; {study.draws:,} draws of {study.users:,} users"
    )
    title = headline(lines)
    figure = figure_with_title(width, height, title, subtitle)
    top = 1.25 + LINE * (len(title) > int(LETTERS * width))
    grid = figure.subplots(
        2, len(names), sharex="col", sharey="row", squeeze=False,
        gridspec_kw={
            "left": 0.85 / width, "right": 1 - 0.2 / width, "bottom": 1.05 / height, "top": 1 - top / height,
            "hspace": 0.1, "wspace": 0.08, "height_ratios": (2.2, 1),
        },
    )  # fmt: skip
    for column, name in enumerate(names):
        kept = {key: value for key, value in base.model_dump().items() if key != name}
        own = [x for x in lines if {key: getattr(x, key) for key in kept} == kept and x.metric == SHOWN]
        own.sort(key=lambda line: float(getattr(line, name)))
        _draw_gain(grid[0, column], own, name, study.draws)
        _draw_coverage(grid[1, column], own, name)
        grid[1, column].set_xlabel(AXES[name], labelpad=4)
        _dress(list(grid[:, column]), sorted({float(getattr(x, name)) for x in own}))
    grid[0, 0].set_ylabel("times fewer users than uniform")
    grid[1, 0].set_ylabel("covered by 95 % intervals")
    handles = [_mark(way, PLAN_NAMES[way]) for way in (UNIFORM, *PLANS)]
    handles.append(Line2D([], [], color=MUTED, linewidth=1.8, linestyle="--", label="the rule a + (1 - a) N / |T|"))
    figure.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, 0.06 / height), ncols=len(handles), frameon=False,
        fontsize=10, columnspacing=1.5,
    )  # fmt: skip
    return figure


def _mark(way: str, label: str) -> Line2D:
    return Line2D([], [], color=_colour(way), marker=MARKS[way], markersize=7, linewidth=0, label=label)


def _colour(way: str) -> str:
    return MUTED if way == UNIFORM else COLOURS[list(PLANS).index(way)]


def _draw_gain(axes: Axes, lines: Sequence[Line], name: str, n_draws: int) -> None:
    axes.axhline(1, color=MUTED, linewidth=1)
    error = 2 * (1 / (n_draws - 1)) ** 0.5  # relative, of a ratio of two variances
    for way in PLANS:
        own = [x for x in lines if x.plan == way and not x.known_sizes and x.gain is not None]
        x = [float(getattr(line, name)) for line in own]
        gains = [line.gain or 0.0 for line in own]
        bars = [[1.96 * error * gain / (1 + 1.96 * error) for gain in gains], [1.96 * error * gain for gain in gains]]
        axes.errorbar(x, gains, bars, fmt=MARKS[way], color=_colour(way), markersize=7, elinewidth=1.2, zorder=3)
        axes.plot(x, [line.predicted_gain or 0.0 for line in own], "--", color=_colour(way), linewidth=1.8, zorder=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_coverage(axes: Axes, lines: Sequence[Line], name: str) -> None:
    axes.axhspan(*AIM, color="#e3f1e3", zorder=0)
    for way in (UNIFORM, *PLANS):
        own = [x for x in lines if x.plan == way and x.coverage is not None and not x.known_sizes]
        x = [float(getattr(line, name)) for line in own]
        axes.plot(x, [line.coverage or 0.0 for line in own], MARKS[way], color=_colour(way), markersize=6, zorder=3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %"))


def _dress(column: Sequence[Axes], ticks: Sequence[float]) -> None:
    for axes in column:
        if len(ticks) > 1:
            axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{x:,g}" for x in ticks], color=INK)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.minorticks_off()
        axes.grid(color="#e4e7eb", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[:].set_color(PALE)
        axes.tick_params(length=0, pad=5)
