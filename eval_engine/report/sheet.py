"""A table of texts: on the terminal by rich, and on a self-contained HTML page with pictures inside.

Every text that comes from outside (names of models, settings) is escaped, and not taken for markup.
"""

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
    shades: Sequence[tuple[float | None, ...]] = ()  # of each cell but the first of a line, 0 to 1; () for none


def print_sheets(sheets: Iterable[Sheet], console: Console) -> None:
    """Print the tables."""
    for sheet in sheets:
        table = Table(
            title=Text(sheet.title, style="bold"), caption=Text(sheet.note, style="dim not italic"),
            title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
        )  # fmt: skip
        for n, head in enumerate(sheet.heads):
            table.add_column(Text(head), justify="left" if n == 0 else "right", overflow="fold")
        for line in sheet.lines:
            table.add_row(*(Text(cell) for cell in line))
        console.print(table)
        console.print()


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


def _cell(text: str, shade: float | None) -> str:
    """A cell, darker with its shade."""
    kind = "" if shade is None else f' class="s{min(5, int(shade * 6))}"'
    return f"<td{kind}>{escape(text)}</td>"


def _section(sheet: Sheet) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in sheet.heads)
    shades = sheet.shades or [(None,) * (len(sheet.heads) - 1)] * len(sheet.lines)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(map(_cell, rest, own))}</tr>'
        for (first, *rest), own in zip(sheet.lines, shades, strict=True)
    )
    note = f'<p class="note">{escape(sheet.note)}</p>' if sheet.note else ""
    return (
        f'<section><h2>{escape(sheet.title)}</h2><div class="wide"><table class="numbers"><thead><tr>{heads}</tr>'
        f"</thead><tbody>{lines}</tbody></table></div>{note}</section>"
    )
