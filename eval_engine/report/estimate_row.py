"""One line of the estimates table as plain Python: what the report is made from.

A number that does not exist (no user with a positive, one user only) is None or NaN and is shown as an en dash, never
as 0; the reason stands under the table.
"""

import math
from typing import NamedTuple, TypeGuard


class EstimateRow(NamedTuple):
    """One estimator's value of one model, with its interval and the number of users it rests on."""

    model: str
    estimator: str
    metric: str
    k: int
    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    n_users: int | None
    n_left_out: int | None
    estimand: str | None  # in words
    n_unknown: int = 0  # users whose value cannot be known from partial lists; if there is one, there is no value
    ties_low: float | None = None  # the value with equal scores ordered against the model
    ties_high: float | None = None  # and for it
    chance_best: float | None = None  # among the models of the run
    left_out: str | None = None  # which users, in words
    reason: str | None = None  # why there is no value, or no interval
    slice: str | None = "all"  # which users or items: `category=toys`; the whole: `all`, or NULL


def defined(x: float | None) -> TypeGuard[float]:
    """Whether x is a number at all."""
    return x is not None and math.isfinite(x)
