"""A pair turned round says the same."""

import math

import pytest

from eval_engine.report.comparison_row import ComparisonRow

PAIR = ComparisonRow(
    "ure_macro", "recall", 10, "a", "b", 0.1, 0.05, 0.2, 0.95, 0.01, 0.02, "a better", 7, 5, 3, 0.01, 40, 0.8
)


def test_turned():
    turned = PAIR.turned()
    assert (turned.model_a, turned.model_b, turned.difference, turned.low, turned.high) == ("b", "a", -0.1, -0.2, -0.05)
    assert (turned.verdict, turned.wins, turned.ties, turned.losses) == ("b better", 3, 5, 7)
    assert turned.turned() == PAIR
    nothing = PAIR._replace(difference=None, low=None, high=None, verdict="not decided", wins=None, losses=None)
    assert nothing.turned() == nothing._replace(model_a="b", model_b="a")


@pytest.mark.parametrize(("p_holm", "clear"), [(0.049, True), (0.0501, False), (None, None), (math.nan, None)])
def test_clear_is_by_p_adjusted_over_all_pairs(p_holm, clear):
    assert PAIR._replace(p=0.001, p_holm=p_holm).clear is clear
