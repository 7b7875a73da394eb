"""Numbers as they are shown."""

import math

import pytest

from eval_engine.report.answers import Answers
from eval_engine.report.cell import (
    UNDEFINED,
    best_value,
    count_text,
    digits,
    interval_text,
    mark_text,
    names_text,
    open_ties,
    p_text,
    percent_text,
    reasons,
    ties_text,
    users_text,
    value_text,
)
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.orders import agreements
from eval_engine.report.panel import panels


def row(model, value, estimator="ure_macro", low=None, high=None, n_users=100, n_left_out=0):
    return EstimateRow(model, estimator, "recall", 10, value, None, low, high, n_users, n_left_out, "")


@pytest.mark.parametrize(
    ("x", "text"),
    [(0.12345, "0.1235"), (0.0, "0.0000"), (None, UNDEFINED), (math.nan, UNDEFINED), (math.inf, UNDEFINED)],
)
def test_value_text(x, text):
    assert value_text(x, 4) == text


@pytest.mark.parametrize(("p", "text"), [(0.0, "<0.0001"), (9e-5, "<0.0001"), (1e-4, "0.0001"), (None, UNDEFINED)])
def test_p_text(p, text):
    assert p_text(p) == text


@pytest.mark.parametrize(
    ("largest", "decimals"), [(0.9, 4), (0.0345, 4), (0.00345, 5), (0.000345, 6), (1e-15, 9), (0.0, 4), (None, 4)]
)
def test_small_values_get_more_decimals(largest, decimals):
    (panel,) = panels(Answers([row("a", largest), row("b", 0.0)]))
    assert digits(panel, panel.schemes[0]) == decimals


def test_interval_text():
    assert interval_text(row("a", 0.2, low=0.1, high=0.3), 4) == "0.1000 to 0.3000"
    assert interval_text(row("a", 0.2, low=0.1), 4) == UNDEFINED
    assert interval_text(None, 4) == UNDEFINED


def test_best_value_needs_two_models():
    (panel,) = panels(Answers([row("a", 0.1), row("b", 0.3), row("c", None)]))
    assert best_value(panel, panel.schemes[0]) == 0.3
    (single,) = panels(Answers([row("a", 0.1), row("b", None)]))
    assert best_value(single, single.schemes[0]) is None


def test_marks_are_hollow_within_the_intervals():
    truth = [row("a", 0.3, "full_macro"), row("b", 0.2, "full_macro"), row("c", 0.1, "full_macro")]
    clear = [row("a", 0.1, low=0.09, high=0.11), row("b", 0.2, low=0.19, high=0.21), row("c", 0.3, low=0.29, high=0.31)]
    noise = [row("a", 0.1, low=0.0, high=0.9), row("b", 0.2, low=0.0, high=0.9), row("c", 0.3, low=0.0, high=0.9)]
    (held,) = agreements(panels(Answers(truth + clear))[0])
    assert [mark_text(held, m) for m in "abcx"] == ["▼2", "▲1 ▼1", "▲2", ""]
    (held,) = agreements(panels(Answers(truth + noise))[0])
    assert [mark_text(held, m) for m in "abc"] == ["▽2", "△1 ▽1", "△2"]


def test_users_are_grouped_and_ranges_shown():
    rows = [
        row("a", 0.1, n_users=1000, n_left_out=20),
        row("b", 0.1, n_users=990, n_left_out=30),
        row("a", 0.1, "ure_micro", n_users=1020),
        row("a", 0.1, "full_micro", n_users=1020),
        row("a", 0.1, "full_macro", n_users=1020),
    ]
    assert (
        users_text(panels(Answers(rows))[0])
        == "truth, URE micro, URE micro's target: 1,020 users. URE macro: 990 to 1,000 users, 20 to 30 left out."
    )


def test_counts_and_shares():
    assert (count_text(1234567), count_text(None)) == ("1,234,567", UNDEFINED)
    assert (percent_text(0.95), percent_text(0.999)) == ("95 %", "99.9 %")


def test_which_users_are_left_out_is_said():
    rows = [
        row("a", 0.1, n_left_out=5)._replace(left_out="users without a positive"),
        row("a", 0.1, "ure_micro", n_left_out=5),
    ]
    assert (
        users_text(panels(Answers(rows))[0])
        == "URE macro: 100 users, 5 left out (without a positive). URE micro: 100 users, 5 left out."
    )


def test_users_that_are_not_known_are_counted_unless_the_reason_says_so():
    unknown = row("a", None)._replace(n_unknown=7)
    assert users_text(panels(Answers([unknown]))[0]) == "URE macro: 100 users, up to 7 not known from partial lists."
    assert (
        users_text(panels(Answers([unknown._replace(reason="of 7 users it cannot be known")]))[0])
        == "URE macro: 100 users."
    )


def test_reasons_once_per_column():
    why = "no user can be used"
    all_missing = [row(m, None, "ure_balanced")._replace(reason=why) for m in "abcde"]
    one_missing = [row("a", None)._replace(reason=why), *(row(m, 0.1, low=0.0, high=0.2) for m in "bcde")]
    some = [row(m, None, "ure_micro")._replace(reason=f"of {m} users") for m in "ab"] + [
        row("c", 0.1, "ure_micro", 0.0, 0.2)
    ]
    (panel,) = panels(Answers(all_missing + one_missing + some))
    assert reasons(panel) == [
        "URE balanced: no user can be used.",
        "URE macro of a: no user can be used.",
        "URE micro of b and a: of b users (b; the others likewise).",
    ]
    assert reasons(panels(Answers([row("a", 0.1)]))[0]) == []


def test_a_missing_interval_has_a_reason_too():
    assert reasons(panels(Answers([row("a", 0.1)._replace(reason="one user has no standard error")]))[0]) == [
        "URE macro: one user has no standard error."
    ]


def test_ties_are_shown_and_in_the_terminal_where_they_matter():
    small = row("a", 0.2, low=0.1, high=0.3)._replace(ties_low=0.19, ties_high=0.21)
    large = row("b", 0.2, low=0.1, high=0.3)._replace(ties_low=0.0, ties_high=0.21)
    assert (
        ties_text(small, 4),
        ties_text(small._replace(ties_high=0.19), 4),
        ties_text(row("a", 0.2), 4),
        ties_text(None, 4),
    ) == (
        "0.1900 to 0.2100",
        "",
        "",
        "",
    )
    assert open_ties(panels(Answers([small]))[0]) == []
    assert open_ties(panels(Answers([small, large]))[0]) == [
        "URE macro, equal scores ordered against or for the model: b 0.0000 to 0.2100."
    ]


def test_names():
    assert [names_text(list("abcd"[:n])) for n in range(1, 5)] == ["a", "a and b", "a, b and c", "4 models"]
