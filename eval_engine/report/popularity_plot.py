"""Pictures of popularity: the curve of counts with its cuts, and the exposure of each class by model.

Nothing but the rows goes into a file, so the same rows give the same bytes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from eval_engine.plain_text import plain
from eval_engine.report.plot_orders import INK, MUTED, PALE
from eval_engine.report.study_plot import COLOURS, figure_with_title, png
from eval_engine.storage.atomic_file import write_atomically
from eval_engine.studies.bqs import CLASSES, LISTS, Evaluated


def save_curve(row: Mapping[str, Any], path: str | Path) -> Path:
    """Draw the counts of items in rising order, and what separates the classes; row: of popularity_classes."""
    return write_atomically(png(lambda: _curve(row)), path)


def save_exposure(read: Evaluated, k: int, path: str | Path) -> Path:
    """Draw the share of recommendations that each class gets, model by model."""
    return write_atomically(png(lambda: _exposure(read, k)), path)


def _curve(row: Mapping[str, Any]) -> Figure:
    width, height = 9.0, 5.6
    counts = {count: n for count, n in dict(row["counts"]).items() if count > 0}
    title = f"Popularity of items: {row['n_low']:,} low, {row['n_middle']:,} middle, {row['n_high']:,} high"
    used = f"method {row['used']}; low: count at most {row['low_at_most']:g}, high: count above {row['high_above']:g}"
    figure = figure_with_title(width, height, title, f"{used}; {row['n_unseen']:,} items without a training positive")
    axes = figure.subplots(gridspec_kw={
        "left": 0.9 / width, "right": 1 - 0.3 / width, "bottom": 0.8 / height, "top": 1 - 1.3 / height,
    })  # fmt: skip
    values = np.array(sorted(counts), np.float64)
    ends = np.cumsum([counts[int(value)] for value in values]) if values.size else np.zeros(0)
    starts = np.concatenate([[0], ends[:-1]]) if values.size else ends
    axes.plot(np.stack([starts, ends], axis=1).ravel(), np.repeat(values, 2), color=COLOURS[0], linewidth=2)
    for n, threshold in enumerate((row["low_at_most"], row["high_above"]), 1):
        place = float(ends[values <= threshold].max(initial=0)) if values.size else 0.0
        axes.axvline(place, color=COLOURS[n], linewidth=1.6, linestyle="--")
    if values.size:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("items, least popular first", color=INK)
    axes.set_ylabel("training positives", color=INK)
    axes.grid(color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED)
    return figure


def _exposure(read: Evaluated, k: int) -> Figure:
    models: Sequence[str] = [m for base in read.baselines for m in (base, *read.techniques(base))]
    width, height = 10.0, 2.0 + 0.28 * max(len(models), 1)
    title = f"Share of the recommendations at {k} that each class of popularity gets"
    figure = figure_with_title(width, height, title, "means over seeds")
    axes = figure.subplots(gridspec_kw={
        "left": 2.4 / width, "right": 1 - 0.3 / width, "bottom": 0.8 / height, "top": 1 - 1.1 / height,
    })  # fmt: skip
    place, left = np.arange(len(models)), np.zeros(len(models))
    for n, name in enumerate(CLASSES):
        shares = [read.value(m, LISTS, "exposure_share", k, f"popularity={name}") for m in models]
        own = np.nan_to_num(np.array(shares, np.float64))
        axes.barh(place, own, left=left, color=COLOURS[n % len(COLOURS)], label=name, height=0.72)
        left += own
    axes.set_yticks(place, [plain(model) for model in models], color=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.legend(ncols=len(CLASSES), frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.35 / height))
    axes.tick_params(colors=MUTED)
    return figure
