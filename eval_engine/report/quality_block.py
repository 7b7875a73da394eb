"""Is the random data random? The verdicts of the checks, one line each, for the terminal and the page; nothing where no check was made.

Sentences hold item ids from outside: escaped in the page, printed as they are in the terminal.
"""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

QUESTION = "Is the random data random?"
STYLES = {"pass": "green", "warn": "yellow", "fail": "bold red"}
MARKS = {"warn": "noise", "fail": "clear"}  # classes of page.html
ORDER = ("uniform_exposure", "overlap", "positives_per_user", "score_coverage")


class CheckLine(NamedTuple):
    """A check and what it says."""

    check: str
    verdict: str
    sentence: str


def check_lines(quality: Iterable[Mapping[str, Any]]) -> list[CheckLine]:
    """The rows of the quality table that are checks, those about the drawing first."""
    lines = [CheckLine(row["rule"], row["verdict"], row["example"]) for row in quality if row.get("verdict")]
    return sorted(lines, key=lambda line: (ORDER.index(line.check) if line.check in ORDER else len(ORDER), line.check))


def checks_table(lines: list[CheckLine]) -> Table | None:
    """For the terminal."""
    if not lines:
        return None
    table = Table(title=Text(QUESTION, style="bold"), title_justify="left", box=None, show_header=False, pad_edge=False)
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(
            Text(line.verdict, style=STYLES.get(line.verdict, "dim")), line.check, Text(line.sentence, style="dim")
        )
    return table


def checks_html(lines: list[CheckLine]) -> str:
    """For the page."""
    if not lines:
        return ""
    cells = "".join(
        f'<tr><th scope="row">{escape(line.check)}</th><td><span class="{MARKS.get(line.verdict, "")}">{escape(line.verdict)}</span></td>'
        f"<td>{escape(line.sentence)}</td></tr>"
        for line in lines
    )
    return f'<section><h2>{QUESTION}</h2><div class="wide"><table><tbody>{cells}</tbody></table></div></section>'
