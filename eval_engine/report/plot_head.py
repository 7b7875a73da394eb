"""The text above the charts of the picture: checks that did not pass; the title; the verdict by each metric.

A failed check is framed in red on top of all: a reader who has only the picture must see it first.
"""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from eval_engine.report.check_line import FAIL, WARN, CheckLine
from eval_engine.report.finding import BY_METRIC, headline, verdicts
from eval_engine.report.panel import Panel
from eval_engine.report.plot_orders import INK
from eval_engine.report.quality_block import notices

EDGE = 0.02  # of the picture's width, left of all text
COLOURS = {FAIL: "#b3000c", WARN: "#7d6400"}
LETTERS, TITLE_LETTERS = 160, 100  # of a line
METRICS = 8  # whose verdicts are shown
MARGIN, TITLE, LINE = 0.22, 0.29, 0.21  # inches above a block of text, of a line of the title, of another line


class Line(NamedTuple):
    """A line of the notice."""

    text: str
    colour: str
    weight: str


class Head(NamedTuple):
    """What stands above the charts."""

    notice: list[Line]
    title: list[str]
    verdicts: list[str]

    @property
    def title_top(self) -> float:
        """Inches from the top to the title."""
        return MARGIN + (LINE * len(self.notice) + MARGIN if self.notice else 0.0)

    @property
    def verdicts_top(self) -> float:
        """Inches from the top to the verdicts."""
        return self.title_top + TITLE * len(self.title) + MARGIN / 2

    @property
    def height(self) -> float:
        """Inches of it all."""
        two_lines = self.title_top + 2 * TITLE  # room that is kept for a title, so that one line looks no different
        return max(two_lines, self.verdicts_top + LINE * len(self.verdicts) + MARGIN / 2)


def head(panel: Panel, every: Sequence[Panel], checks: Sequence[CheckLine]) -> Head:
    """The text of a picture of this panel; every: all panels of the run."""
    return Head(
        _notice(checks), textwrap.wrap(headline(panel), TITLE_LETTERS, max_lines=2, placeholder=" …"), _best(every)
    )


def draw_head(figure: Figure, text: Head) -> None:
    """Draw it at the top of the figure."""
    height = figure.get_figheight()
    if text.notice:
        tall = LINE * len(text.notice) + MARGIN / 2
        corner, size = (EDGE / 2, 1 - (MARGIN / 2 + tall) / height), (1 - EDGE, tall / height)
        frame = Rectangle(corner, *size, facecolor="#fff5f4", edgecolor=text.notice[0].colour, linewidth=1.8)
        frame.set_transform(figure.transFigure)
        figure.add_artist(frame)
    for n, line in enumerate(text.notice):
        y = 1 - (MARGIN * 0.8 + LINE * n) / height
        figure.text(EDGE, y, line.text, va="top", color=line.colour, weight=line.weight)
    figure.text(EDGE, 1 - text.title_top / height, "\n".join(text.title), size=15.5, weight="bold", va="top")
    for n, verdict in enumerate(text.verdicts):
        y = 1 - (text.verdicts_top + LINE * n) / height
        figure.text(EDGE, y, verdict, va="top", weight="normal" if n else "bold")


def _notice(checks: Sequence[CheckLine]) -> list[Line]:
    lines = []
    for notice in notices(checks):
        lines += [Line(text, COLOURS[notice.verdict], "bold") for text in textwrap.wrap(notice.title, LETTERS)]
        lines += [Line(text, INK, "normal") for line in notice.lines for text in textwrap.wrap(line, LETTERS)]
    return lines


def _best(every: Sequence[Panel]) -> list[str]:
    lines = [
        textwrap.wrap(f"{metric}: {sentence}", LETTERS, max_lines=1, placeholder=" …")[0]
        for metric, sentence in verdicts(every)
    ]
    more = [f"{len(lines) - METRICS} more metrics: see the page"] if len(lines) > METRICS else []
    return [BY_METRIC, *lines[:METRICS], *more] if lines else []
