"""Days in run_ids, and which runs a window adds up."""

from datetime import UTC, date, datetime, timedelta

import pytest
from pydantic import ValidationError

from eval_engine.evaluation.days import DayRun, Window, day_of, days_of, window_id

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def of(run_id: str, hours: int = 0) -> DayRun:
    day = day_of(run_id)
    assert day is not None
    return DayRun(run_id, day, NOON + timedelta(hours=hours))


@pytest.mark.parametrize(
    ("run_id", "day"),
    [
        ("2026-11-17", date(2026, 11, 17)),
        ("manual__2026-11-17T00:00:00+00:00", date(2026, 11, 17)),
        ("a-2026-02-30-2026-03-01", date(2026, 3, 1)),
        ("12026-11-17", None),
        ("demo", None),
    ],
)
def test_the_day_of_a_run_id(run_id: str, day: date | None) -> None:
    assert day_of(run_id) == day
    assert day_of(window_id(run_id)) == day


def test_a_window_holds_the_last_days_and_the_newest_run_of_each() -> None:
    runs = [of(f"2026-11-{n:02}") for n in range(1, 20)] + [of("late-2026-11-15", 1), of("late-2026-11-17", 5)]
    chosen = days_of(of("2026-11-17"), runs, Window(days=4))
    assert [one.run_id for one in chosen] == ["2026-11-17", "2026-11-16", "late-2026-11-15", "2026-11-14"]
    since = days_of(of("2026-11-03"), runs, Window(since=date(2026, 11, 2)))
    assert [one.run_id for one in since] == ["2026-11-03", "2026-11-02"]


def test_days_without_a_run_are_left_out() -> None:
    runs = [of("2026-11-12"), of("2026-11-17")]
    assert len(days_of(of("2026-11-17"), runs, Window(days=7))) == 2
    assert [one.run_id for one in days_of(of("2026-11-17"), [], Window(days=7))] == ["2026-11-17"]


@pytest.mark.parametrize("given", [{}, {"days": 7, "since": "2026-11-01"}, 1, {"days": 400}, "7d"])
def test_windows_that_mean_nothing_are_errors(given: object) -> None:
    with pytest.raises(ValidationError):
        Window.model_validate(given)


def test_a_number_is_a_number_of_days() -> None:
    assert Window.model_validate(7) == Window(days=7)
