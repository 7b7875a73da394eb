"""The estimates of a target in the terminal: a row per model, a column per scheme.

    truth   traditional    URE balanced       URE macro
               recall@5   95 % interval   95 % interval
                                             its target
    ---------------------------------------------------
    0.1088    0.7655 ▼2          0.0931          0.0898
                          0.0702–0.1160   0.0757–0.1039
                                                 0.0909

Only estimates have intervals here; the page has all of them. What a cell holds is on one line where the width allows
it, else line by line, and columns that do not fit follow in a table of their own, so that nothing is cut.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from eval_engine.report.cell import best_value, digits, interval_text, mark_text, percent_text, value_text
from eval_engine.report.orders import Agreement, in_clear_flip, misplaced
from eval_engine.report.panel import Panel
from eval_engine.report.scheme import ESTIMATE, Scheme

CLEAR, NOISE = "bold red", "yellow"
MAX_NAME = 24  # characters of a model's name on a line; the rest of a longer one follows below
MAX_WORD = 20  # of a word in the head of a column
EDGE, GAP = 2, 2  # columns of the terminal around a table, and between two of its columns


class Column(NamedTuple):
    """A scheme's head, and a cell for each model; all in pieces that go on one line or below each other."""

    head: list[str]
    cells: list[list[Text]]

    def width(self, separator: str) -> int:
        """Characters that it takes with its cells' pieces joined by this; a head is broken between words."""
        words = [min(len(word), MAX_WORD) for piece in self.head for word in piece.split()]
        lines = [line.cell_len for cell in self.cells for line in Text(separator).join(cell).split("\n")]
        return max([*words, *lines], default=0)


def estimates_block(panel: Panel, compared: Mapping[Scheme, Agreement], confidence: float, width: int, n: int) -> Group:
    """The tables, the first with the title; n: the number of models of the run, of which the panel may have some."""
    title = Text(f"{panel.target} of {n} {'model' if n == 1 else 'models'}", style="bold")
    columns = [_column(panel, scheme, compared.get(scheme), confidence) for scheme in _shown(panel)]
    room = width - EDGE - min(max(map(len, (*panel.models, "model"))), MAX_NAME)
    separator = " " if sum(column.width(" ") + GAP for column in columns) <= room else "\n"
    blocks = _blocks(columns, separator, room)
    return Group(title, *(_table(panel, block, separator) for block in blocks))


def mark_style(compared: Agreement, model: str) -> str:
    """The style of a model that the scheme misplaces."""
    return CLEAR if in_clear_flip(compared, model) else NOISE


def _shown(panel: Panel) -> Iterator[Scheme]:
    """The schemes that have a column: what an estimate has as a target of its own is in the estimate's column."""
    targets = {panel.own_target(scheme) for scheme in panel.schemes}
    return (scheme for scheme in panel.schemes if scheme not in targets)


def _column(panel: Panel, scheme: Scheme, compared: Agreement | None, confidence: float) -> Column:
    head = [scheme.label]
    head += [str(scheme.metric)] if scheme.metric != panel.target else []
    head += [f"{percent_text(confidence)} interval"] if scheme.role == ESTIMATE else []
    head += ["its target"] if panel.own_target(scheme) else []
    return Column(head, [_cell(panel, scheme, model, compared) for model in panel.models])


def _cell(panel: Panel, scheme: Scheme, model: str, compared: Agreement | None) -> list[Text]:
    decimals, value = digits(panel, scheme), panel.value(scheme, model)
    best = value is not None and value == best_value(panel, scheme)
    text = Text().append(value_text(value, decimals), style="bold" if best else "")
    if compared and model in misplaced(compared):
        text.append(f" {mark_text(compared, model)}", style=mark_style(compared, model))
    cell = [text]
    if scheme.role == ESTIMATE and value is not None:
        interval = interval_text(panel.rows.get((scheme, model)), decimals).replace(" to ", "–")
        cell.append(Text(interval, style="dim"))
    if target := panel.own_target(scheme):
        cell.append(Text(value_text(panel.value(target, model), digits(panel, target)), style="dim"))
    return cell


def _blocks(columns: Sequence[Column], separator: str, room: int) -> Iterator[list[Column]]:
    """As many columns at a time as there is room for beside the models' names."""
    block: list[Column] = []
    for column in columns:
        if block and sum(c.width(separator) + GAP for c in (*block, column)) > room:
            yield block
            block = []
        block.append(column)
    yield block


def _table(panel: Panel, columns: Sequence[Column], separator: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("model", overflow="fold", max_width=MAX_NAME)
    for column in columns:
        width = column.width(separator)
        lines = [line for piece in column.head for line in textwrap.wrap(piece, width)]
        table.add_column(Text("\n".join(lines)), justify="right", overflow="fold", min_width=width)
    for n, model in enumerate(panel.models):
        table.add_row(Text(model), *(Text(separator).join(column.cells[n]) for column in columns))
    return table
