"""A check of the random exposures in the report: its name, its verdict, and a sentence with its figures."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from eval_engine.plain_text import plain

PASS, WARN, FAIL = "pass", "warn", "fail"
ORDER = ("uniform_exposure", "overlap", "probability_sums", "positives_per_user", "score_coverage")


class CheckLine(NamedTuple):
    """A check, its verdict and its figures in words."""

    check: str
    verdict: str
    sentence: str


def check_lines(quality: Iterable[Mapping[str, Any]]) -> list[CheckLine]:
    """The rows of the quality table that are checks, those about the drawing first."""
    lines = [
        CheckLine(*map(plain, (row["rule"], row["verdict"], row["example"]))) for row in quality if row.get("verdict")
    ]
    return sorted(lines, key=lambda line: (ORDER.index(line.check) if line.check in ORDER else len(ORDER), line.check))


def failed(lines: Iterable[CheckLine]) -> tuple[str, ...]:
    """The names of the checks that failed."""
    return tuple(line.check for line in lines if line.verdict == FAIL)


def doubt(checks: tuple[str, ...]) -> str:
    """The remark on every verdict that rests on data which failed these checks; empty if none failed."""
    return f"not to be relied on ({' and '.join(checks)} failed)" if checks else ""
