"""Intervals of estimates that hold at every look, beside the ordinary ones: columns anytime_low, anytime_high.

    value -+ c(n) se        statistics/confidence_sequences.py; n users, alpha = 1 - confidence; nowhere inside the
                            ordinary interval, which few hits widen (statistics/few_hits.py)

They hold for estimates of a sample that only grows from look to look, as those of a window `since` a day. NULL where
the setting evaluate.anytime is missing, and where the estimate has no standard error.
"""

from collections.abc import Iterable
from typing import Any

from eval_engine.config import Anytime
from eval_engine.statistics.confidence_sequences import sequence_factor


def with_sequences(rows: Iterable[dict[str, Any]], confidence: float, anytime: Anytime | None) -> list[dict[str, Any]]:
    """The rows of estimates with both columns."""
    return [row | _ends(row, confidence, anytime) for row in rows]


def _ends(row: dict[str, Any], confidence: float, anytime: Anytime | None) -> dict[str, float | None]:
    if anytime is None or row["standard_error"] is None or row["low"] is None or not row["n_users"]:
        return {"anytime_low": None, "anytime_high": None}
    width = float(sequence_factor(row["n_users"], 1 - confidence, anytime.tightest_at)) * row["standard_error"]
    return {
        "anytime_low": min(row["value"] - width, row["low"]),
        "anytime_high": max(row["value"] + width, row["high"]),
    }
