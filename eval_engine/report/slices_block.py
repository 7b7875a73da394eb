"""Slices in the terminal: for each slicing a row per value and a column per model, by the best estimate.

    category       mf_ips        popularity
    ---------------------------------------
    all            0.0931 ●          0.0360
    1,174 users  0.0702–0.1160  0.0247–0.0473
    toys           0.0310      0.0840 ○ ▲1

● the model with the highest value, better than every other one beyond chance; ○ the highest, but not decided. ▲n ▼n:
the slice puts the model above, below n models that the whole puts the other way round, both beyond chance.
"""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from eval_engine.plain_text import few_names
from eval_engine.report.cell import UNDEFINED, count_text, decimals_for, interval_text, percent_text, value_text
from eval_engine.report.check_line import doubt
from eval_engine.report.estimates_block import CLEAR, EDGE, GAP, NOISE
from eval_engine.report.panel import Panel
from eval_engine.report.short_names import MAX_NAME, short_names
from eval_engine.report.slices import SliceRow, Slicing, contradictions_text, left_out_text, slicings

MOST_VALUES = 12  # slices in the terminal: those with the most users
MOST_SENTENCES = 5  # contradictions in words
MOST_SLICINGS = 6  # in the terminal
BEST = {True: "●", False: "○"}  # by whether it is decided
LEGEND = (
    "● highest, and better than every other model beyond chance; ○ highest, not decided. ▲n ▼n: above, below n models "
    "that the whole puts the other way round, both beyond chance"
)
FAMILY = "all pairs of models in all slices and the whole considered (Holm)"


def slices_blocks(panel: Panel, confidence: float, width: int) -> list[RenderableType]:
    """A block for each slicing; what is left out is counted, and on the page."""
    every = slicings(panel)
    blocks: list[RenderableType] = [_block(slicing, confidence, width) for slicing in every[:MOST_SLICINGS]]
    if more := [slicing.name for slicing in every[MOST_SLICINGS:]]:
        blocks.append(Text(f"{len(more)} more slicings: the page has them: {few_names(more)}.", style="dim"))
    return blocks


def slicing_title(slicing: Slicing) -> str:
    """What the numbers are."""
    text = f"{slicing.scheme.metric} by {slicing.name}, by {slicing.scheme.spoken}"
    return f"{text}, {doubt(slicing.failed)}" if slicing.failed else text


def best_text(row: SliceRow, model: str) -> str:
    """The marks of a model in a slice; empty if it has none."""
    above, below = row.misplaced(model)
    marks = [BEST[row.decided]] if model == row.best else []
    return " ".join([*marks, *([f"▲{above}"] if above else []), *([f"▼{below}"] if below else [])])


def _block(slicing: Slicing, confidence: float, width: int) -> Group:
    decimals = decimals_for(row.estimate(model) for row in (slicing.whole, *slicing.rows) for model in slicing.models)
    rows = (slicing.whole, *slicing.largest(MOST_VALUES))
    cells = {model: [_cell(row, model, decimals) for row in rows] for model in slicing.models}
    names = short_names(slicing.models, MAX_NAME)
    widths = {m: max(len(names[m]), *(line.cell_len for cell in cells[m] for line in cell.split("\n"))) for m in cells}
    values = short_names(row.value for row in rows)
    left = max(len(text) for row in rows for text in (_head(slicing), values[row.value], *_below(row, names)))
    shown = slicing.models[: _fitting([widths[model] for model in slicing.models], width - EDGE - left)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(Text(_head(slicing)), overflow="fold")
    for model in shown:
        table.add_column(Text(names[model]), justify="right", overflow="fold", min_width=widths[model])
    for n, row in enumerate(rows):
        below = _below(row, {model: names[model] for model in slicing.models if model not in shown})
        first = Text(values[row.value]).append("".join(f"\n{line}" for line in below), style="dim")
        table.add_row(first, *(cells[model][n] for model in shown))
    title = Text(f"{slicing_title(slicing)}, with {percent_text(confidence)} intervals", style="bold")
    return Group(title, table, _legend(slicing, len(slicing.rows) - len(rows) + 1, len(slicing.models) - len(shown)))


def _head(slicing: Slicing) -> str:
    return short_names([slicing.name])[slicing.name]


def _below(row: SliceRow, hidden: Mapping[str, str]) -> list[str]:
    """What follows the name of a slice: its users, and its best model if that has no column."""
    lines = [] if row.n_users is None else [f"{count_text(row.n_users)} {'user' if row.n_users == 1 else 'users'}"]
    return lines + ([f"{BEST[row.decided]} {hidden[row.best]}"] if row.best and row.best in hidden else [])


def _cell(row: SliceRow, model: str, decimals: int) -> Text:
    value = row.estimate(model)
    text = Text().append(value_text(value, decimals), style="bold" if model == row.best else "")
    if marks := best_text(row, model):
        text.append(f" {marks}", style=CLEAR if any(row.misplaced(model)) else "" if row.decided else NOISE)
    interval = interval_text(row.estimates.get(model), decimals).replace(" to ", "–")
    return text if value is None or interval == UNDEFINED else text.append(f"\n{interval}", style="dim")


def _fitting(widths: Sequence[int], room: int) -> int:
    """How many columns there is room for, at least one."""
    shown = 0
    while shown < len(widths) and (not shown or sum(widths[: shown + 1]) + GAP * (shown + 1) <= room):
        shown += 1
    return shown


def _legend(slicing: Slicing, more_values: int, more_models: int) -> Text:
    text = Text(f"{LEGEND}, {FAMILY}.", style="dim")
    if more := left_out_text(more_values, more_models):
        text.append(f"\nNot shown: {more}. The page has more of them.")
    sentences = contradictions_text(slicing, MOST_SENTENCES)
    for sentence in sentences:
        text.append(f"\n{sentence}", style=CLEAR)
    if n_more := sum(len(row.contradictions) for row in slicing.rows) - len(sentences):
        text.append(f"\n{n_more:,} more contradictions of the whole: the page has more of them.")
    return text
