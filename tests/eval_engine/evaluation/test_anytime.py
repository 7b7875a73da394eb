"""Columns of intervals at every look."""

import math
from typing import Any

from eval_engine.config import Anytime
from eval_engine.evaluation.anytime import with_sequences


def row(**given: Any) -> dict[str, Any]:
    return {"value": 0.2, "standard_error": 0.01, "low": 0.18, "high": 0.22, "n_users": 1000} | given


def test_the_interval_is_that_of_the_formula() -> None:
    (found,) = with_sequences([row()], 0.95, Anytime(tightest_at=2000))
    r_squared = (-2 * math.log(0.05) + math.log(-2 * math.log(0.05)) + 1) / 2000
    growth = 1000 * r_squared
    half_width = 0.01 * math.sqrt(2 * (growth + 1) / growth * math.log(math.sqrt(growth + 1) / 0.05))
    assert math.isclose(found["anytime_high"], 0.2 + half_width)
    assert math.isclose(found["anytime_low"], 0.2 - half_width)


def test_null_where_nothing_is_asked_for_or_known() -> None:
    nothing = {"anytime_low": None, "anytime_high": None}
    assert with_sequences([row()], 0.95, None) == [row() | nothing]
    unknown = [row(standard_error=None, low=None), row(low=None), row(n_users=0), row(n_users=None)]
    assert with_sequences(unknown, 0.95, Anytime()) == [one | nothing for one in unknown]
