"""Is the random data random? The results of its checks, for terminal, picture and page; nothing without a check.

A check that failed, or warns, comes before any number: its figures, what they mean for the numbers, what to do. A line
per check follows.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from eval_engine.quality.check_words import ANY_MEANING, ANY_REMEDY, MEANING, REMEDY
from eval_engine.report.cell import names_text
from eval_engine.report.check_line import FAIL, WARN, CheckLine

QUESTION = "Is the random data random?"
STYLES = {"pass": "green", WARN: "yellow", FAIL: "bold red"}
TITLES = {
    FAIL: "Do not rely on numbers that rest on the random exposures: they failed the {}",
    WARN: "Read numbers that rest on the random exposures with care: there is a warning of the {}",
}
MARKS = {WARN: "noise", FAIL: "clear"}  # classes of page.html


class Notice(NamedTuple):
    """What must be read before the numbers."""

    verdict: str  # of its checks: fail or warn
    title: str
    lines: tuple[str, ...]  # of each check: its figures, what they mean, what to do


def notices(checks: Sequence[CheckLine]) -> Iterator[Notice]:
    """The failures, then the warnings."""
    for verdict, what in TITLES.items():
        if lines := [line for line in checks if line.verdict == verdict]:
            names = names_text([line.check for line in lines], most=len(lines))
            title = what.format(f"{'check' if len(lines) == 1 else 'checks'} {names}")
            yield Notice(verdict, title, tuple(text for line in lines for text in _sentences(line)))


def _sentences(line: CheckLine) -> Iterator[str]:
    yield f"{line.check}: {line.sentence}"
    yield f"What it means: {_small(MEANING.get(line.check, ANY_MEANING))}"
    yield f"What to do: {_small(REMEDY.get(line.check, ANY_REMEDY))}."


def _small(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def notices_block(checks: Sequence[CheckLine]) -> Group | None:
    """For the terminal."""
    parts = [
        text
        for notice in notices(checks)
        for text in (Text(notice.title, style=STYLES[notice.verdict]), *map(Text, notice.lines), Text())
    ]
    return Group(*parts) if parts else None


def notices_html(checks: Sequence[CheckLine]) -> str:
    """For the page."""
    return "\n".join(
        f'<section class="notice {notice.verdict}" role="alert"><h2>{escape(notice.title)}</h2>'
        f"{''.join(f'<p>{escape(line)}</p>' for line in notice.lines)}</section>"
        for notice in notices(checks)
    )


def checks_table(lines: Sequence[CheckLine]) -> Table | None:
    """Every check, for the terminal; below the notices, which have the sentences of those that did not pass."""
    if not lines:
        return None
    table = Table(title=Text(QUESTION, style="bold"), title_justify="left", box=None, show_header=False, pad_edge=False)
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(
            Text(line.verdict, style=STYLES.get(line.verdict, "dim")),
            Text(line.check),
            Text("see above" if line.verdict in TITLES else line.sentence, style="dim"),
        )
    return table


def checks_html(lines: Sequence[CheckLine]) -> str:
    """Every check, for the page."""
    if not lines:
        return ""
    cells = "".join(
        f'<tr><th scope="row">{escape(line.check)}</th>'
        f'<td><span class="{MARKS.get(line.verdict, "")}">{escape(line.verdict)}</span></td>'
        f"<td>{escape(line.sentence)}</td></tr>"
        for line in lines
    )
    return f'<section><h2>{QUESTION}</h2><div class="wide"><table><tbody>{cells}</tbody></table></div></section>'
