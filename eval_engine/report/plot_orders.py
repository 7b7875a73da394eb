"""The bump chart: one column per scheme, best model on top, one line per model.

A line is coloured where its model is placed too high or too low by the column that is further from the reference; a
model that is wrongly above as many as it is wrongly below stays grey. Models with the same value are next to each other
and their values carry "="; a model without a value is last, with a hollow dot.
"""

import textwrap
from collections.abc import Iterable, Mapping

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from eval_engine.report.cell import digits, value_text
from eval_engine.report.orders import Agreement, misplaced, order
from eval_engine.report.panel import Panel
from eval_engine.report.scheme import ESTIMATE, NAIVE, Scheme

INK, MUTED, PALE = "#1b1f24", "#6b7280", "#c3c9d2"
TOO_HIGH, TOO_LOW = "#d55e00", "#56b4e9"
FEW = 5  # columns whose heads stand on two lines
LINE = 0.12  # inches of another line
STEPS = 24  # line pieces of one bend


def draw_orders(axes: Axes, panel: Panel, names: Mapping[str, str], agreed: Iterable[Agreement]) -> None:
    """Draw the order of every scheme that ranks models; names: the label of each model in the picture; agreed: how far
    each scheme agrees with the reference over all models, of which the panel may have some.
    """
    columns = _columns(panel)
    compared = {a.scheme: a for a in agreed}
    axes.spines[:].set_visible(False)
    axes.set_ylim(len(panel.models) - 0.5, -0.5)
    axes.set_xlim(-0.15, max(len(columns) - 1, 1) + 0.15)
    axes.set_xticks(range(len(columns)), _heads(columns), size=_letters(columns, 10.5))
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=5)
    axes.set_yticks([])
    for x, scheme in enumerate(columns):
        if scheme == panel.reference:
            axes.axvspan(x - 0.15, x + 0.15, color="#eef0f3", zorder=0)
            axes.get_xticklabels()[x].set_fontweight("bold")
        _draw_verdict(axes, panel, x, scheme, compared.get(scheme), _letters(columns, 9), len(columns) > FEW)
    _draw_lines(axes, panel, columns, {scheme: misplaced(a) for scheme, a in compared.items()})
    _draw_ends(axes, panel, columns[0], 0, "right", names)
    _draw_ends(axes, panel, columns[-1], len(columns) - 1, "left", names)
    if any(a.flips for a in compared.values()):
        _draw_legend(axes, panel)


def heads_height(panel: Panel) -> float:
    """Inches that the heads of columns take beyond two lines."""
    columns = _columns(panel)
    return LINE * max(max(head.count("\n") for head in _heads(columns)) - 1, 0)


def _columns(panel: Panel) -> tuple[Scheme, ...]:
    """The schemes that rank models: the naive ones, the truth, the estimates."""
    estimates = (scheme for scheme in panel.of(ESTIMATE) if panel.has_value(scheme))
    return (*panel.of(NAIVE), *((panel.truth,) if panel.truth else ()), *estimates) or panel.schemes


def _heads(columns: tuple[Scheme, ...]) -> list[str]:
    """Label and metric of each column; of many columns on more lines."""
    room = max(10, 100 // len(columns)) if len(columns) > FEW else 100
    return ["\n".join([*textwrap.wrap(s.label, room, break_long_words=False), str(s.metric)]) for s in columns]


def _letters(columns: tuple[Scheme, ...], most: float) -> float:
    """The size of letters, in points, that so many columns leave room for."""
    return min(most, (58 if len(columns) > FEW else 44) / len(columns))


def _draw_lines(
    axes: Axes, panel: Panel, columns: tuple[Scheme, ...], wrong: dict[Scheme, dict[str, tuple[int, int]]]
) -> None:
    places = [_places(panel, scheme) for scheme in columns]
    for model in panel.models:
        for x, scheme in enumerate(columns):
            colour = _colour(wrong.get(scheme, {}).get(model))
            hollow = panel.value(scheme, model) is None
            face = "white" if hollow else MUTED if colour == PALE else colour
            axes.plot(
                x,
                places[x][model],
                "o",
                markersize=9.5,
                color=face,
                markeredgecolor=PALE if hollow else "white",
                markeredgewidth=1.2,
                zorder=5,
            )
        for x in range(len(columns) - 1):
            outer = columns[x] if panel.reference in columns[x + 1 :] else columns[x + 1]
            colour = _colour(wrong.get(outer, {}).get(model))
            _draw_bend(axes, x, places[x][model], places[x + 1][model], colour)


def _draw_bend(axes: Axes, x: int, start: int, end: int, colour: str) -> None:
    steps = [i / STEPS for i in range(STEPS + 1)]
    ys = [start + (end - start) * t * t * (3 - 2 * t) for t in steps]
    axes.plot(
        [x + t for t in steps],
        ys,
        color=colour,
        linewidth=2.2 if colour == PALE else 4,
        solid_capstyle="round",
        zorder=2 if colour == PALE else 3,
    )


def _draw_ends(axes: Axes, panel: Panel, scheme: Scheme, x: int, side: str, names: Mapping[str, str]) -> None:
    tied = {model for group in order(panel, scheme).groups if len(group) > 1 for model in group}
    for model, place in _places(panel, scheme).items():
        value = f"{'=' if model in tied else ''}{value_text(panel.value(scheme, model), digits(panel, scheme))}"
        text = f"{names[model]}   {value}" if side == "right" else f"{value}   {names[model]}"
        shift = -14 if side == "right" else 14
        axes.annotate(
            text,
            (x, place),
            (shift, 0),
            textcoords="offset points",
            ha=side,
            va="center",
            annotation_clip=False,
        )


def _draw_verdict(
    axes: Axes, panel: Panel, x: int, scheme: Scheme, compared: Agreement | None, size: float, narrow: bool
) -> None:
    if compared is None or compared.n_pairs == 0:
        text = "the reference" if scheme == panel.reference and len(panel.models) > 1 else ""
    elif compared.flips:
        text = f"{len(compared.flips)} of {compared.n_pairs} pairs\ndiffer"
        text = text.replace("of ", "of\n").replace(" pairs", "") if narrow else text
    else:
        n_open = len(compared.undecided)
        text = f"{n_open} of {compared.n_pairs} pairs\ntied or undefined" if n_open else "same order"
    strong = compared is not None and bool(compared.flips)
    axes.annotate(
        text, (x, 0), (0, -6), xycoords=("data", "axes fraction"), textcoords="offset points", ha="center", va="top",
        size=size, color=INK if strong else MUTED, weight="bold" if strong else "normal", annotation_clip=False,
    )  # fmt: skip


def _draw_legend(axes: Axes, panel: Panel) -> None:
    handles = [
        Line2D([], [], color=TOO_HIGH, linewidth=4, label=f"ranked higher than by {panel.judge}"),
        Line2D([], [], color=TOO_LOW, linewidth=4, label=f"ranked lower than by {panel.judge}"),
    ]
    height = axes.get_window_extent().height / axes.figure.dpi
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.58 / height),
        ncols=2,
        frameon=False,
        fontsize=9.5,
        columnspacing=1.6,
    )


def _places(panel: Panel, scheme: Scheme) -> dict[str, int]:
    given = order(panel, scheme)
    return {
        model: place
        for place, model in enumerate([*(model for group in given.groups for model in group), *given.undefined])
    }


def _colour(counts: tuple[int, int] | None) -> str:
    if counts is None or counts[0] == counts[1]:
        return PALE
    return TOO_HIGH if counts[0] > counts[1] else TOO_LOW
