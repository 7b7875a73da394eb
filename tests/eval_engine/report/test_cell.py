"""Numbers as they are shown."""

import math

import pytest

from eval_engine.report.cell import UNDEFINED, best_value, count_text, digits, interval_text, mark_text, percent_text, users_text, value_text
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.orders import agreements
from eval_engine.report.panel import panels


def row(model, value, estimator="ure_macro", low=None, high=None, n_users=100, n_left_out=0):
    return EstimateRow(model, estimator, "recall", 10, value, None, low, high, n_users, n_left_out, "")


@pytest.mark.parametrize(("x", "text"), [(0.12345, "0.1235"), (0.0, "0.0000"), (None, UNDEFINED), (math.nan, UNDEFINED), (math.inf, UNDEFINED)])
def test_value_text(x, text):
    assert value_text(x, 4) == text


@pytest.mark.parametrize(("largest", "decimals"), [(0.9, 4), (0.0345, 4), (0.00345, 5), (0.000345, 6), (1e-15, 9), (0.0, 4), (None, 4)])
def test_small_values_get_more_decimals(largest, decimals):
    (panel,) = panels([row("a", largest), row("b", 0.0)])
    assert digits(panel, panel.schemes[0]) == decimals


def test_interval_text():
    assert interval_text(row("a", 0.2, low=0.1, high=0.3), 4) == "0.1000 to 0.3000"
    assert interval_text(row("a", 0.2, low=0.1), 4) == UNDEFINED
    assert interval_text(None, 4) == UNDEFINED


def test_best_value_needs_two_models():
    (panel,) = panels([row("a", 0.1), row("b", 0.3), row("c", None)])
    assert best_value(panel, panel.schemes[0]) == 0.3
    (single,) = panels([row("a", 0.1), row("b", None)])
    assert best_value(single, single.schemes[0]) is None


def test_marks_are_hollow_within_the_intervals():
    truth = [row("a", 0.3, "full_macro"), row("b", 0.2, "full_macro"), row("c", 0.1, "full_macro")]
    clear = [row("a", 0.1, low=0.09, high=0.11), row("b", 0.2, low=0.19, high=0.21), row("c", 0.3, low=0.29, high=0.31)]
    noise = [row("a", 0.1, low=0.0, high=0.9), row("b", 0.2, low=0.0, high=0.9), row("c", 0.3, low=0.0, high=0.9)]
    (held,) = agreements(panels(truth + clear)[0])
    assert [mark_text(held, m) for m in "abcx"] == ["▼2", "▲1 ▼1", "▲2", ""]
    (held,) = agreements(panels(truth + noise)[0])
    assert [mark_text(held, m) for m in "abc"] == ["▽2", "△1 ▽1", "△2"]


def test_users_are_grouped_and_ranges_shown():
    rows = [
        row("a", 0.1, n_users=1000, n_left_out=20),
        row("b", 0.1, n_users=990, n_left_out=30),
        row("a", 0.1, "ure_micro", n_users=1020),
        row("a", 0.1, "full_micro", n_users=1020),
    ]
    assert users_text(panels(rows)[0]) == "URE macro: 990 to 1,000 users, 20 to 30 left out. URE micro, URE micro's target: 1,020 users."


def test_counts_and_shares():
    assert (count_text(1234567), count_text(None)) == ("1,234,567", UNDEFINED)
    assert (percent_text(0.95), percent_text(0.999)) == ("95 %", "99.9 %")
