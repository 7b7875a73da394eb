"""The pictures of a study of [ure], in the style of report/plot.py.

    curves   Pearson and Kendall of a scheme against true recall@K' over K', one line per cutoff, one column per number
             of exposures; a dot where a line is highest, a tick where it should be (figures 1, 3 and 5 of the paper)
    models   every model as a point: true recall against the traditional scheme, and against the first estimate; shaded:
             truly better than one model (study_findings.trap), and placed below it

Nothing but the rows goes into a file, so the same rows give the same bytes.
"""

import io
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from eval_engine.report.plot import DPI
from eval_engine.report.plot_orders import INK, MUTED, PALE, TOO_HIGH
from eval_engine.report.study_findings import (
    ESTIMATES,
    LABELS,
    TRADITIONAL,
    Study,
    headline,
    peaks,
    standings,
    trap,
    truly_better,
    winner,
)
from eval_engine.storage.atomic_file import write_atomically
from eval_engine.studies.ure import FULL, AgreementRow

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1b1f24")  # Okabe-Ito
LINES: tuple[Any, ...] = (  # so that lines differ by more than their colour
    "-",
    "--",
    "-.",
    (0, (5, 1, 1, 1, 1, 1)),
    ":",
    (0, (3, 1)),
    "-",
)
GROUPS = {
    "hard negatives": (TOO_HIGH, "^", 10.0),
    "debiased": ("#0072b2", "o", 8.5),
    "not debiased": ("#7b8494", "s", 7.5),
    "": ("#7b8494", "s", 7.5),
}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "text.parse_math": False,  # a dollar in a model's name is a dollar
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
}
STEPS = (1, 2, 5)
LINE = 0.28  # inches of one more line of the title
LETTERS = 7.7  # of the title in an inch
HALO = (withStroke(linewidth=2.4, foreground="white", alpha=0.85),)  # names stay readable over lines


def save_curves(study: Study, scheme: str, path: str | Path) -> Path:
    """Draw the curves of a scheme and write them as PNG."""
    return write_atomically(png(lambda: _curves(study, scheme)), path)


def save_models(study: Study, path: str | Path) -> Path:
    """Draw the models as points and write them as PNG."""
    return write_atomically(png(lambda: _models(study)), path)


def png(draw: Callable[[], Figure]) -> bytes:
    """The bytes of a picture, drawn in the style of studies."""
    with matplotlib.style.context(STYLE, after_reset=True):
        figure = draw()
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def figure_with_title(width: float, height: float, title: str, subtitle: str) -> Figure:
    """An empty figure with its title and subtitle; sizes in inches."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    lines = textwrap.wrap(title, int(LETTERS * width), max_lines=2, placeholder=" …")
    figure.text(0.02, 1 - 0.2 / height, "\n".join(lines), size=15, weight="bold", va="top")
    figure.text(0.02, 1 - (0.62 + LINE * (len(lines) - 1)) / height, subtitle, size=11, color=MUTED, va="top")
    return figure


def _curves(study: Study, scheme: str) -> Figure:
    columns = study.settings.exposures
    width, height = max(3.2 + 3.9 * len(columns), 9.0), 8.6
    cutoff = "K̄" if scheme == TRADITIONAL else "K"
    title = _curves_title(study, scheme)
    figure = figure_with_title(width, height, title, _curves_subtitle(study, scheme))
    grid = figure.subplots(
        2, len(columns), sharex=True, sharey="row", squeeze=False,
        gridspec_kw={
            "left": 0.95 / width, "right": 1 - 0.25 / width, "bottom": 1.25 / height, "hspace": 0.1, "wspace": 0.06,
            "top": 1 - (1.36 + LINE * (len(title) > int(LETTERS * width))) / height,
        },
    )  # fmt: skip
    cutoffs = study.settings.traditional if scheme == TRADITIONAL else study.settings.ure
    for column, exposures in enumerate(columns):
        for line, k in enumerate(cutoffs):
            rows = [r for r in study.agreement if (r.scheme, r.exposures, r.k) == (scheme, exposures, k)]
            for row, measure in enumerate(("pearson", "kendall")):
                _draw_curve(grid[row, column], rows, measure, line)
        grid[0, column].set_title(f"{exposures} exposures of each user", size=11.5, color=INK, pad=8)
        grid[1, column].set_xlabel("K' of true recall", labelpad=4)
    for row, name in enumerate(("Pearson", "Kendall")):
        grid[row, 0].set_ylabel(f"{name}, over the models", labelpad=6)
        for axes in grid[row]:
            _dress(axes, study.settings.truth)
    handles = [
        Line2D(
            [],
            [],
            color=COLOURS[n % len(COLOURS)],
            linestyle=LINES[n % len(LINES)],
            linewidth=2,
            label=f"recall@{k} ({cutoff} = {k})",
        )
        for n, k in enumerate(cutoffs)
    ]
    handles += [
        Line2D(
            [],
            [],
            color=MUTED,
            marker="o",
            markersize=8.5,
            markeredgecolor="white",
            linewidth=0,
            label="K_max: the highest point",
        ),
        Line2D([], [], color=MUTED, marker="|", markersize=13, markeredgewidth=3, linewidth=0, label=_where(scheme)),
    ]
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.08 / height),
        ncols=min(len(handles), 6),
        frameon=False,
        fontsize=10,
        columnspacing=1.6,
    )
    return figure


def _draw_curve(axes: Axes, rows: list[AgreementRow], measure: str, line: int) -> None:
    points = [(r.truth_k, value) for r in rows if (value := getattr(r, measure)) is not None]
    if not points:
        return
    colour = COLOURS[line % len(COLOURS)]
    axes.plot(*zip(*points, strict=True), color=colour, linestyle=LINES[line % len(LINES)], linewidth=1.9, zorder=3)
    highest = [(r.truth_k, getattr(r, measure)) for r in rows if getattr(r, f"{measure}_max")]
    axes.plot(
        *zip(*highest, strict=True),
        "o",
        color=colour,
        markersize=8.5,
        markeredgecolor="white",
        markeredgewidth=1.1,
        zorder=5,
    )
    predicted = rows[0].predicted_k
    axes.axvline(predicted, color=colour, linewidth=1, linestyle=(0, (1, 3)), alpha=0.75, zorder=1)
    axes.axvline(predicted, 0, 0.055, color=colour, linewidth=3.4, zorder=4, solid_capstyle="butt")


def _dress(axes: Axes, truth: tuple[int, ...]) -> None:
    axes.set_xscale("log")
    axes.set_xlim(truth[0] / 1.08, truth[-1] * 1.15)
    ticks = [
        step * 10**power
        for power in range(len(str(truth[-1])))
        for step in STEPS
        if truth[0] <= step * 10**power <= truth[-1]
    ]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    low = axes.get_ylim()[0]
    axes.set_ylim(min(low, 0.9), 1.02)
    axes.grid(color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_color(PALE)
    axes.tick_params(length=0, pad=5)


def _where(scheme: str) -> str:
    return "K = K̄ N / e of Theorem 1" if scheme == TRADITIONAL else "its own K"


def _curves_title(study: Study, scheme: str) -> str:
    shown, wanted = study.shown(scheme), study.settings.show.ure
    curve = next(p for p in peaks(study.agreement) if (p.scheme, p.exposures, p.k) == shown)
    label = LABELS[scheme].capitalize() if scheme == TRADITIONAL else LABELS[scheme]
    name = f"{label} recall@{curve.k} of {curve.exposures} exposures"
    at = next(r.pearson for r in study.agreement if (r.scheme, r.exposures, r.k, r.truth_k) == (*shown, wanted))
    if at is None or curve.highest_pearson is None:
        return f"{name} has no correlation with true recall@{wanted}: {curve.reason or 'undefined'}"
    says = f"; Theorem 1: {curve.predicted:.0f}" if scheme == TRADITIONAL else ""
    highest = f"highest {curve.highest_pearson:.3f} at {_several(curve.pearson)}"
    return f"{name}: Pearson {at:.3f} with true recall@{wanted}, {highest}{says}"


def _several(ks: tuple[int, ...]) -> str:
    return f"{ks[0]}" if len(ks) == 1 else f"{ks[0]} to {ks[-1]}"


def _curves_subtitle(study: Study, scheme: str) -> str:
    n = len({row.model for row in study.estimates})
    what = (
        "recall among the exposed items only"
        if scheme == TRADITIONAL
        else "recall over all candidates, estimated from the exposed ones,"
    )
    return f"How {what} agrees with the truth, over {n} models; N = {study.candidates:.0f} candidates of each user"


def _models(study: Study) -> Figure:
    width, height = 15.0, 7.6
    show = study.settings.show
    subtitle = (
        f"{len(standings(study, study.shown(FULL)))} models, {show.exposures} random exposures of each user; shaded: "
        "truly better than one model, and placed below it"
    )
    figure = figure_with_title(width, height, headline(study), subtitle)
    axes = figure.subplots(
        1,
        2,
        gridspec_kw={
            "left": 0.85 / width,
            "right": 1 - 0.35 / width,
            "top": 1 - 1.45 / height,
            "bottom": 1.25 / height,
            "wspace": 0.16,
        },
    )
    for one, scheme in zip(axes, (TRADITIONAL, ESTIMATES[0]), strict=True):
        _draw_models(one, study, scheme)
    groups = [
        group for group in GROUPS if group in {study.groups.get(m, "") for m in standings(study, study.shown(FULL))}
    ]
    handles: list[Line2D | Patch] = [
        Line2D(
            [],
            [],
            color=GROUPS[g][0],
            marker=GROUPS[g][1],
            markersize=GROUPS[g][2],
            markeredgecolor="white",
            linewidth=0,
            label=g or "model",
        )
        for g in groups
    ]
    handles += [
        Patch(color="#fde3cf", label="truly better, placed below"),
        Line2D([], [], color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="estimate = truth"),
    ]
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.1 / height),
        ncols=len(handles),
        frameon=False,
        fontsize=10,
    )
    return figure


def _draw_models(axes: Axes, study: Study, scheme: str) -> None:
    cell = study.shown(scheme)
    own, truth = standings(study, cell), standings(study, study.shown(FULL))
    points = {m: (x, y) for m in own if (x := truth[m].value) is not None and (y := own[m].value) is not None}
    axes.spines[:].set_color(PALE)
    axes.tick_params(length=0, pad=5)
    axes.grid(color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(f"true recall@{study.settings.show.ure}", labelpad=5)
    axes.set_ylabel(f"{study.name(cell)}, from {cell.exposures} exposures", labelpad=6)
    if not points:
        return
    for model, (x, y) in points.items():
        colour, marker, size = GROUPS[study.groups.get(model, "")]
        axes.plot(x, y, marker, color=colour, markersize=size, markeredgecolor="white", markeredgewidth=0.9, zorder=4)
    axes.margins(0.09)
    axes.autoscale_view()
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    if scheme != TRADITIONAL:
        ends = max(left, low), min(right, high)
        axes.plot(ends, ends, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    one = trap(study)
    if one in points:
        wrong = truly_better(study, cell, one)
        x, y = points[one]
        axes.fill_between([x, right], low, y, color="#fde3cf", linewidth=0, zorder=0)
        axes.set_title(
            f"{one} stands above {len(wrong) or 'no'} {'model' if len(wrong) == 1 else 'models'} truly better",
            size=11.5,
            color=INK,
            pad=8,
        )
    axes.set(xlim=(left, right), ylim=(low, high))
    _label(axes, points, _named(study, points, (one, winner(study, cell), winner(study, study.shown(FULL)))))


def _named(study: Study, points: dict[str, tuple[float, float]], chosen: tuple[str | None, ...]) -> list[str]:
    """The models that carry their name.

    The one that is shaded from, the scheme's first, the truly best, better debiased ones, hard negatives.
    """
    one = chosen[0]
    better = [
        m for m in points if study.groups.get(m) == "debiased" and one in points and points[m][0] > points[one][0]
    ]
    hard = [m for m in points if study.groups.get(m) == "hard negatives"]
    return list(dict.fromkeys([*(m for m in chosen if m in points), *better, *hard]))


def _label(axes: Axes, points: dict[str, tuple[float, float]], names: list[str]) -> None:
    """Names beside their points, each on the first side that is free of points and of other names."""
    at = {model: axes.transData.transform(xy) for model, xy in points.items()}
    taken: list[tuple[float, float, float, float]] = [(x - 9, y - 9, x + 9, y + 9) for x, y in at.values()]
    frame = axes.get_window_extent()
    for model in names:
        for dx, dy, ha, va in SIDES:
            text = axes.annotate(
                model,
                points[model],
                (dx, dy),
                textcoords="offset points",
                ha=ha,
                va=va,
                size=9.2,
                zorder=6,
                path_effects=HALO,
            )
            box = text.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(
                box.x0 < b[2] and b[0] < box.x1 and box.y0 - 2 < b[3] and b[1] < box.y1 + 2 for b in taken
            ):
                taken.append((box.x0, box.y0, box.x1, box.y1))
                if abs(dx) + abs(dy) > 20:
                    axes.annotate(
                        "",
                        points[model],
                        (dx * 0.92, dy * 0.85),
                        textcoords="offset points",
                        arrowprops={"arrowstyle": "-", "color": MUTED, "lw": 0.7},
                        zorder=3,
                    )
                break
            text.remove()


SIDES = tuple(
    (dx, dy, ha, va)
    for far in (1, 2.4, 4, 6)
    for dx, dy, ha, va in (
        (8 * far, 0, "left", "center"), (-8 * far, 0, "right", "center"),
        (0, 8 * far, "center", "bottom"), (0, -8 * far, "center", "top"),
        (7 * far, 7 * far, "left", "bottom"), (-7 * far, 7 * far, "right", "bottom"),
        (7 * far, -7 * far, "left", "top"), (-7 * far, -7 * far, "right", "top"),
    )
)  # fmt: skip
