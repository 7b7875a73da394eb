"""The curve of `plumbline power`: the smallest difference that is seen with a number of users, by way to expose.

Errors fall with the square root of the users, so from what the pilot's users see

    detectable(n) = detectable sqrt(n_pilot / n)        as a share of the value; its uncertainty is that of the users

A picture has a panel per pair of models, those that take most users first, at most PANELS of them.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from eval_engine.exposure_design.power import DESIGNS, Power
from eval_engine.plain_text import plain
from eval_engine.report.plot_orders import INK, MUTED, PALE
from eval_engine.report.study_plot import COLOURS, LINES, figure_with_title, png
from eval_engine.storage.atomic_file import write_atomically

PANELS = 6
STEPS = 7  # numbers of users in the printed curve, at most
POINTS = 60
Cell = tuple[float, float, float]


def seen_with(row: Power, n_pilot: int, n_users: float) -> Cell:
    """The smallest difference that is seen with so many users, a share of the value, and its interval.

    >>> row = Power(0, 1, "pair", 10, 0.2, 0.004, 0.002, 400.0, 100.0, 1600.0, 0.04, 99, 1.0)
    >>> seen_with(row, 100, 400)
    (0.02, 0.01, 0.04)
    """
    value = row.detectable * math.sqrt(n_pilot / n_users)
    return value, value * math.sqrt(row.low / row.users), value * math.sqrt(row.high / row.users)


def users_shown(rows: Sequence[Power]) -> list[int]:
    """Numbers of users from below the fewest to beyond the most that are needed: 1 and 3 times powers of ten.

    >>> users_shown([Power(0, 1, "pair", 10, 0.2, 0.0, 0.0, 4000.0, 0.0, 0.0, 0.0, 99, 1.0)])
    [3000, 10000]
    """
    needed = [row.users for row in rows if row.users > 0]
    if not needed:
        return []
    found, first = [], math.floor(math.log10(min(needed)))
    for power in range(first, first + 12):
        for step in (1, 3):
            n = step * 10**power if power >= 0 else 0
            if n and 3.4 * n > min(needed):
                found.append(n)
            if n > max(needed):
                return _thinned(found)
    return _thinned(found)


def _thinned(numbers: list[int]) -> list[int]:
    """At most STEPS of them, the last among them."""
    return numbers[:: -max(1, -(-len(numbers) // STEPS))][::-1]


def save_curve(
    rows: Sequence[Power], models: Sequence[str], n_pilot: int, there: int, detect: float, what: str, path: Path
) -> Path:
    """Draw the curves and write them as PNG. there: users who are there; detect: the difference that is asked for."""
    return write_atomically(png(lambda: _curve(rows, models, n_pilot, there, detect, what)), path)


def _curve(rows: Sequence[Power], models: Sequence[str], n_pilot: int, there: int, detect: float, what: str) -> Figure:
    known = [row for row in rows if row.users > 0]
    e = min((row.exposures for row in known), default=0)
    hardest = {(row.first, row.second): row.users for row in known if (row.design, row.exposures) == (DESIGNS[0], e)}
    every = sorted(hardest, key=lambda pair: -hardest[pair])
    pairs = every[:PANELS]
    columns = min(3, max(1, len(pairs)))
    n_rows = max(1, -(-len(pairs) // columns))
    width, height = max(8.0, 1.2 + 4.2 * columns), 2.1 + 3.3 * n_rows
    left_out = f"; the {PANELS} of {len(every)} pairs that take most users" if len(every) > PANELS else ""
    subtitle = f"{what}; {e} exposures of each user; shaded: what the pilot leaves open{left_out}"
    figure = figure_with_title(width, height, "Smallest difference that is seen, by number of users", subtitle)
    grid = figure.subplots(
        n_rows, columns, sharex=True, sharey=True, squeeze=False,
        gridspec_kw={
            "left": 0.95 / width, "right": 1 - 0.25 / width, "bottom": 1.05 / height, "top": 1 - 1.35 / height,
            "hspace": 0.28, "wspace": 0.08,
        },
    )  # fmt: skip
    for n, axes in enumerate(grid.ravel()):
        if n >= len(pairs):
            axes.set_axis_off()
            continue
        own = [row for row in known if (row.first, row.second) == pairs[n] and row.exposures == e]
        _panel(axes, own, n_pilot, there, detect)
        axes.set_title(" and ".join(plain(models[m]) for m in pairs[n]), size=10.5, color=INK)
    for axes in grid[:, 0]:
        axes.set_ylabel("share of the value")
    if pairs:
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="lower center", bbox_to_anchor=(0.5, 0.06 / height), ncols=len(handles), frameon=False
        )
    return figure


def _panel(axes: Axes, rows: Sequence[Power], n_pilot: int, there: int, detect: float) -> None:
    low = min(*(row.low for row in rows), there) / 3
    high = max(*(row.high for row in rows), there) * 3
    users = [low * (high / low) ** (n / (POINTS - 1)) for n in range(POINTS)]
    for row in rows:
        colour = COLOURS[DESIGNS.index(row.design)]
        values, bottom, top = zip(*(seen_with(row, n_pilot, n) for n in users), strict=True)
        axes.fill_between(users, bottom, top, color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            users, values, linestyle=LINES[DESIGNS.index(row.design)], color=colour, linewidth=2, label=row.design
        )
    axes.axhline(detect, color=MUTED, linewidth=1.4, linestyle=":", label="difference asked for")
    axes.axvline(there, color=MUTED, linewidth=1, label="users there are")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.set_xlabel("users")
    axes.grid(color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_color(PALE)
    axes.tick_params(length=0, pad=4, labelsize=9)
