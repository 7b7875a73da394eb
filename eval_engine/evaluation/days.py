"""The days that a window adds up: runs of one day each, whose run_id holds the day.

    2026-11-17, daily-2026-11-17, scheduled__2026-11-17T00:00:00+00:00      all of 17 November 2026

A window holds the last `days` days up to that of its run, or all days from `since` on. Of several runs of a day the one
that was evaluated last counts, so that a day that is run again replaces that day only; the run itself always counts for
its own day. A window does not reach back beyond a day whose runs cannot be added to its run (other models, settings,
propensities, edges or thresholds: jobs/merge.py); the table `merges` says which days it holds.
"""

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple, Self

from pydantic import Field, model_validator

from eval_engine.config import Strict

DAY = re.compile(r"(?<!\d)(\d{4}-\d{2}-\d{2})(?!\d)")
SUFFIX = ".window"


class Window(Strict):
    """Which days are added up: `window: 7`, or `window: {since: 2026-11-01}`."""

    days: int | None = Field(None, ge=2, le=366, description="that many, up to the day of the run")
    since: date | None = Field(None, description="from this day on; what intervals at every look need")

    @model_validator(mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return {"days": value} if isinstance(value, int) else value

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.days is None) == (self.since is None):
            raise ValueError("window: give either days or since")
        return self

    def first_day(self, last: date) -> date:
        """The first day of the window whose last day this is."""
        return self.since if self.since is not None else last - timedelta(days=(self.days or 1) - 1)


class DayRun(NamedTuple):
    """A run of one day."""

    run_id: str
    day: date
    evaluated_at: datetime


def day_of(run_id: str) -> date | None:
    """The day in a run_id, the first one; None if there is none.

    >>> day_of("scheduled__2026-11-17T00:00:00+00:00"), day_of("demo")
    (datetime.date(2026, 11, 17), None)
    """
    for match in DAY.finditer(run_id):
        try:
            return date.fromisoformat(match[1])
        except ValueError:  # 2026-13-01
            continue
    return None


def window_id(run_id: str) -> str:
    """The run_id of the window that ends with a run."""
    return f"{run_id}{SUFFIX}"


def days_of(own: DayRun, runs: Iterable[DayRun], window: Window) -> list[DayRun]:
    """The run of each day of a window, the newest day first; days without a run are left out."""
    first, chosen = window.first_day(own.day), {own.day: own}
    for run in sorted(runs, key=lambda run: (run.evaluated_at, run.run_id)):
        if first <= run.day < own.day:
            chosen[run.day] = run
    return [chosen[day] for day in sorted(chosen, reverse=True)]
