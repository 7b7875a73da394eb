"""A table of texts: on the terminal by rich, and on a self-contained HTML page with pictures inside.

Every text that comes from outside (names of models, settings) is escaped, and not taken for markup.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval_engine.plain_text import plain
from eval_engine.report.html import PAGE
from eval_engine.report.study_tables import figure_html
from eval_engine.storage.atomic_file import write_atomically


class Sheet(NamedTuple):
    """A table of texts."""

    title: str
    heads: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    note: str = ""
    optional: tuple[str, ...] = ()  # heads of columns that a terminal leaves out if it is too narrow, first to last
    page_only: bool = False  # too wide for any terminal


def print_sheets(sheets: Iterable[Sheet], console: Console) -> None:
    """Print the tables, each with the columns that fit; a cell is broken only where the rest does not fit either."""
    for sheet in sheets:
        if sheet.page_only:
            console.print(Text(f"{sheet.title}: on the page.\n", style="bold"))
            continue
        shown = _fitting(sheet, console.width)
        missing = [head for n, head in enumerate(sheet.heads) if n not in shown]
        parts = (sheet.note.removesuffix("."), f"On the page: {', '.join(missing)}" if missing else "")
        note = "".join(f"{part}. " for part in parts if part).strip()
        fits = _width(sheet, shown) <= console.width
        table = Table(
            title=Text(sheet.title, style="bold"), caption=Text(note, style="dim not italic"),
            title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
        )  # fmt: skip
        for n in shown:
            head = "\n".join(textwrap.wrap(sheet.heads[n], _widths(sheet)[n]))
            table.add_column(Text(head), justify="left" if n == 0 else "right", overflow="fold", no_wrap=fits)
        for line in sheet.lines:
            table.add_row(*(Text(line[n]) for n in shown))
        console.print(table)
        console.print()


def _fitting(sheet: Sheet, width: int) -> list[int]:
    """The columns without as many of the optional ones as it takes."""
    shown = list(range(len(sheet.heads)))
    for head in sheet.optional:
        if _width(sheet, shown) <= width:
            break
        shown.remove(sheet.heads.index(head))
    return shown


def _widths(sheet: Sheet) -> list[int]:
    """Characters of each column: of its widest cell, or of the longest word in its head."""
    return [
        max(*(len(word) for word in head.split()), *(Text(line[n]).cell_len for line in sheet.lines), 1)
        for n, head in enumerate(sheet.heads)
    ]


def _width(sheet: Sheet, shown: Sequence[int]) -> int:
    """Characters of a table of these columns, with its edges."""
    widths = _widths(sheet)
    return sum(widths[n] + 2 for n in shown) + 1


def save_sheets(
    heading: str,
    sheets: Iterable[Sheet],
    pictures: Mapping[str, Path],
    run_facts: Mapping[str, str],
    path: str | Path,
) -> Path:
    """Write the page; pictures: PNG files to embed, by what they show."""
    figures = "\n".join(figure_html(what, file) for what, file in pictures.items())
    facts = "".join(
        f'<tr><th scope="row">{escape(plain(name))}</th><td>{escape(plain(fact))}</td></tr>'
        for name, fact in run_facts.items()
    )
    content = PAGE.substitute(
        title=escape(heading),
        heading=escape(heading),
        settings="",
        notices="",
        verdicts="",
        picture="",
        sections=figures + "\n" + "\n".join(map(_section, sheets)),
        facts=f'<section><h2>The run</h2><div class="wide"><table><tbody>{facts}</tbody></table></div></section>',
    )
    return write_atomically(content.encode(), path)


def _section(sheet: Sheet) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in sheet.heads)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in sheet.lines
    )
    note = f'<p class="note">{escape(sheet.note)}</p>' if sheet.note else ""
    return (
        f'<section><h2>{escape(sheet.title)}</h2><div class="wide"><table class="numbers"><thead><tr>{heads}</tr>'
        f"</thead><tbody>{lines}</tbody></table></div>{note}</section>"
    )
