"""Checks in the terminal and on the page: one line each, text from outside escaped, nothing without a check."""

import io
import re
from xml.etree import ElementTree

from rich.console import Console

from eval_engine.report.check_line import check_lines
from eval_engine.report.quality_block import QUESTION, checks_html, checks_table, notices_block

EVIL = '<script>alert("x")</script> & $title [bold]'
QUALITY = [
    {"rule": "duplicate_key", "verdict": None, "example": "user_id=1"},
    {"rule": "score_coverage", "verdict": "warn", "example": "9 of 10 users"},
    {"rule": "uniform_exposure", "verdict": "fail", "example": f"the worst, item_id={EVIL}"},
]


def test_only_checks_are_lines_and_those_of_the_drawing_come_first() -> None:
    assert [line[:2] for line in check_lines(QUALITY)] == [("uniform_exposure", "fail"), ("score_coverage", "warn")]
    assert check_lines([{"rule": "not_scored", "example": ""}]) == []  # a lake of an earlier version


def test_the_terminal_prints_sentences_as_they_are() -> None:
    file = io.StringIO()
    lines = check_lines(QUALITY)
    Console(file=file, width=200).print(notices_block(lines), checks_table(lines))
    text = file.getvalue()
    assert QUESTION in text
    assert text.count(f"the worst, item_id={EVIL}") == 1
    assert re.search(r"warn +score_coverage +see above", text)
    assert checks_table([]) is None


def test_the_block_of_the_page_is_whole_and_escaped_or_not_there() -> None:
    text = checks_html(check_lines(QUALITY))
    assert "<script" not in text
    rows = list(ElementTree.fromstring(text).iter("tr"))
    assert [["".join(cell.itertext()) for cell in row] for row in rows] == [
        [line.check, line.verdict, line.sentence] for line in check_lines(QUALITY)
    ]
    assert checks_html([]) == ""
