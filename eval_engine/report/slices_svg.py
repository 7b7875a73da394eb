"""A slicing drawn: a row per slice, in it a dot with its interval for each model; the whole on top.

Inline SVG, so that the page's colours apply in its light and its dark setting. Models differ by colour and by the
form of their marker. Of many slices or models, those with the most users, and the best ones in the whole, are drawn.
"""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from eval_engine.report.cell import count_text, decimals_for, interval_text, value_text
from eval_engine.report.estimate_row import defined
from eval_engine.report.short_names import short_names
from eval_engine.report.slices import SliceRow, Slicing, left_out_text

MOST_VALUES, MOST_MODELS = 20, 6
WIDTH, LEFT, RIGHT = 960, 190, 24  # units of the picture: in all, left of the chart, right of it
LANE, PAD = 13, 10  # units of a model in a row, and around the models of a row
FOOT = 26  # units of the axis
MAX_LABEL = 22  # characters
MARKERS = (  # around (0, 0), one per model
    '<circle r="4.5"/>',
    '<rect x="-4" y="-4" width="8" height="8"/>',
    '<path d="M0-5.4 5.2 4H-5.2Z"/>',
    '<path d="M0-5.6 5.6 0 0 5.6-5.6 0Z"/>',
    '<path d="M0 5.4 5.2-4H-5.2Z"/>',
    '<path d="M-5-1.6H-1.6V-5H1.6V-1.6H5V1.6H1.6V5H-1.6V1.6H-5Z"/>',
)


def slices_svg(slicing: Slicing) -> str:
    """The picture, with a note of what it leaves out; empty if there is no value."""
    models = slicing.models[:MOST_MODELS]
    rows = (slicing.whole, *slicing.largest(MOST_VALUES))
    bounds = _bounds(rows, models)
    if bounds is None:
        return ""
    tall = PAD + LANE * len(models)
    height = tall * len(rows) + FOOT
    names = short_names((row.value for row in rows), MAX_LABEL)
    labels = short_names(models, MAX_LABEL)
    parts = list(_axis(bounds, tall * len(rows)))
    for n, row in enumerate(rows):
        parts += _row(row, names[row.value], models, bounds, tall * n, n == 0)
    text = escape(f"{slicing.scheme} of each model by {slicing.name}, with intervals", quote=True)
    more = left_out_text(len(slicing.rows) - len(rows) + 1, len(slicing.models) - len(models))
    note = f'<p class="note">Drawn without {more}: the table has more of them.</p>' if more else ""
    picture = (
        f'<svg class="slices" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{text}">{"".join(parts)}</svg>'
    )
    return f"{_legend([labels[model] for model in models])}{picture}{note}"


def _bounds(rows: Sequence[SliceRow], models: Sequence[str]) -> tuple[float, float] | None:
    """The least and the largest number to draw."""
    estimates = [row.estimates[model] for row in rows for model in models if model in row.estimates]
    numbers = [x for one in estimates for x in (one.value, one.low, one.high) if defined(one.value) and defined(x)]
    if not numbers:
        return None
    low, high = (
        min(*numbers, 0.0) if min(numbers) < 0 or min(numbers) < max(numbers) / 2 else min(numbers),
        max(numbers),
    )
    return (low, high) if high > low else (low, low + 1.0)


def _x(value: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _axis(bounds: tuple[float, float], bottom: int) -> Iterator[str]:
    """Lines at round numbers, four to nine of them."""
    low, high = bounds
    size = 10.0 ** floor(log10((high - low) / 4))
    step = max((size * n for n in (1, 2, 5) if (high - low) / (size * n) >= 4), default=size)
    decimals = max(0, -floor(log10(step) + 1e-9))
    for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1):
        x = _x(n * step, bounds)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>'
        yield f'<text class="axis" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{n * step:.{decimals}f}</text>'


def _legend(labels: Sequence[str]) -> str:
    """A marker and a name for each model, side by side."""
    keys = "".join(
        f'<span><svg class="slices m{n}" viewBox="-7 -7 14 14" aria-hidden="true">{MARKERS[n]}</svg>'
        f"{escape(label)}</span>"
        for n, label in enumerate(labels)
    )
    return f'<p class="keys">{keys}</p>'


def _row(
    row: SliceRow, label: str, models: Sequence[str], bounds: tuple[float, float], top: int, is_whole: bool
) -> Iterator[str]:
    tall = PAD + LANE * len(models)
    if is_whole:
        yield f'<rect class="whole" x="0" y="{top}" width="{WIDTH}" height="{tall}"/>'
    yield f'<line class="grid" x1="0" x2="{WIDTH}" y1="{top + tall}" y2="{top + tall}"/>'
    users = "" if row.n_users is None else f"{count_text(row.n_users)} users"
    middle = top + tall / 2
    yield f'<text class="label" x="0" y="{middle - 1:.1f}">{escape(label)}</text>'
    yield f'<text class="axis" x="0" y="{middle + 13:.1f}">{users}</text>'
    for n, model in enumerate(models):
        yield from _estimate(row, model, n, bounds, top + PAD / 2 + LANE * (n + 0.5))


def _estimate(row: SliceRow, model: str, n: int, bounds: tuple[float, float], y: float) -> Iterator[str]:
    one, value = row.estimates.get(model), row.estimate(model)
    if one is None or value is None:
        return
    decimals = decimals_for([value])
    title = escape(f"{model}, {row.value}: {value_text(value, decimals)}, {interval_text(one, decimals)}")
    line = ""
    if defined(one.low) and defined(one.high):
        line = f'<line x1="{_x(one.low, bounds):.1f}" x2="{_x(one.high, bounds):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    marker = f'<g transform="translate({_x(value, bounds):.1f} {y:.1f})">{MARKERS[n]}</g>'
    yield f'<g class="m{n}"><title>{title}</title>{line}{marker}</g>'
