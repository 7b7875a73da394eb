"""Orders and flips on rows made by hand; the brute force of flips shares nothing with the code under test."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_engine.metric import Metric
from eval_engine.report.answers import Answers
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.orders import Flip, agreement, agreements, misplaced, order, prefers
from eval_engine.report.panel import Panel, Scheme, panels

TRUTH = Scheme("full_macro", Metric("recall", 10))
URE = Scheme("ure_macro", Metric("recall", 10))
MICRO = Scheme("ure_micro", Metric("recall", 10))
TRADITIONAL = Scheme("traditional", Metric("recall", 5))


def rows(scheme: Scheme, values: dict[str, float | None], half: float | None = None) -> list[EstimateRow]:
    made = []
    for model, value in values.items():
        low, high = (None, None) if half is None or value is None else (value - half, value + half)
        se = None if half is None else half / 1.96
        made.append(
            EstimateRow(model, scheme.estimator, scheme.metric.name, scheme.metric.k, value, se, low, high, 100, 0, "")
        )
    return made


def panel_of(*parts: list[EstimateRow]) -> Panel:
    (panel,) = panels(Answers([row for part in parts for row in part]))
    return panel


def test_order_is_by_value_descending_with_ties_and_undefined_stated():
    panel = panel_of(rows(URE, {"a": 0.1, "b": 0.3, "c": 0.3, "d": None, "e": math.nan, "f": 0.2}))
    given_order = order(panel, URE)
    assert given_order.groups == (("b", "c"), ("f",), ("a",))
    assert given_order.undefined == ("d", "e")


def test_a_scheme_without_a_row_for_a_model_leaves_it_undefined():
    panel = panel_of(rows(TRUTH, {"a": 0.1, "b": 0.2}), rows(URE, {"a": 0.1}))
    assert order(panel, URE).undefined == ("b",)
    assert prefers(panel, URE, "a", "b") is None


def test_one_flip_with_its_gaps():
    panel = panel_of(rows(TRUTH, {"a": 0.3, "b": 0.1}), rows(TRADITIONAL, {"a": 0.50, "b": 0.54}, half=0.01))
    (compared,) = agreements(panel)
    assert compared.n_pairs == 1
    (flip,) = compared.flips
    assert (flip.above, flip.below, flip.clear) == ("b", "a", True)
    assert flip.gap == pytest.approx(0.04)
    assert flip.reference_gap == pytest.approx(0.2)


def test_a_flip_is_clear_only_beyond_the_root_of_summed_squares():
    truth = rows(TRUTH, {"a": 0.3, "b": 0.1})
    inside = panel_of(truth, rows(TRADITIONAL, {"a": 0.50, "b": 0.5141}, half=0.01))  # sqrt(2) * 0.01 = 0.014142
    beyond = panel_of(truth, rows(TRADITIONAL, {"a": 0.50, "b": 0.5143}, half=0.01))
    assert [f.clear for f in agreements(inside)[0].flips] == [False]
    assert [f.clear for f in agreements(beyond)[0].flips] == [True]


def test_a_flip_against_a_noisy_reference_is_not_clear():
    traditional = rows(TRADITIONAL, {"a": 0.50, "b": 0.60}, half=0.01)
    assert agreements(panel_of(rows(TRUTH, {"a": 0.11, "b": 0.10}, half=0.02), traditional))[0].flips[0].clear is False
    assert agreements(panel_of(rows(TRUTH, {"a": 0.21, "b": 0.10}, half=0.02), traditional))[0].flips[0].clear is True


def test_without_an_interval_a_truth_is_exact_and_anything_else_is_never_clear():
    truth = rows(TRUTH, {"a": 0.11, "b": 0.10})
    assert agreements(panel_of(truth, rows(TRADITIONAL, {"a": 0.5, "b": 0.6})))[0].flips[0].clear is False
    assert agreements(panel_of(truth, rows(TRADITIONAL, {"a": 0.5, "b": 0.6}, half=0.01)))[0].flips[0].clear is True


def test_an_interval_cut_off_at_zero_keeps_its_uncut_half_width():
    cut = [
        EstimateRow(model, "traditional", "recall", 5, value, 0.02, max(value - 0.04, 0.0), value + 0.04, 9, 0, "")
        for model, value in (("a", 0.0), ("b", 0.05))
    ]
    assert (
        agreements(panel_of(rows(TRUTH, {"a": 0.3, "b": 0.1}), cut))[0].flips[0].clear is False
    )  # 0.05 < sqrt(2) * 0.04


def pair(scheme: Scheme, a: str, b: str, difference: float, p_holm: float | None) -> ComparisonRow:
    return ComparisonRow(
        scheme.estimator, scheme.metric.name, scheme.metric.k, a, b, difference, None, None, 0.95, p_holm, p_holm,
        "not decided",
    )  # fmt: skip


def clear_of(traditional_p: float | None, truth_p: float | None, half: float) -> tuple[bool, bool]:
    """Of the one flip: whether it is clear, and whether users were compared for it."""
    estimates = rows(TRUTH, {"a": 0.3, "b": 0.1}, half) + rows(TRADITIONAL, {"a": 0.50, "b": 0.51}, half)
    (panel,) = panels(
        Answers(estimates, [pair(TRADITIONAL, "a", "b", -0.01, traditional_p), pair(TRUTH, "b", "a", -0.2, truth_p)])
    )
    (flip,) = agreements(panel)[0].flips
    return flip.clear, flip.paired


def test_a_paired_comparison_decides_where_single_intervals_overlap():
    assert clear_of(0.01, 0.01, half=0.5) == (True, True)


def test_a_paired_comparison_decides_where_single_intervals_are_apart():
    assert clear_of(0.3, 0.01, half=0.001) == (False, True)
    assert clear_of(0.01, 0.3, half=0.001) == (False, True)  # the truth likewise


def test_a_pair_without_p_goes_by_the_intervals():
    assert clear_of(None, 0.01, half=0.001) == (True, False)
    assert clear_of(None, 0.01, half=0.5) == (False, False)
    assert clear_of(0.01, None, half=0.001) == (True, False)


def test_ties_and_undefined_are_undecided_not_flipped():
    panel = panel_of(
        rows(TRUTH, {"a": 0.3, "b": 0.2, "c": 0.1, "d": None}),
        rows(TRADITIONAL, {"a": 0.5, "b": 0.5, "c": 0.6, "d": 0.1}),
    )
    (compared,) = agreements(panel)
    assert {(f.above, f.below) for f in compared.flips} == {("c", "a"), ("c", "b")}
    assert set(compared.undecided) == {("a", "b"), ("a", "d"), ("b", "d"), ("c", "d")}
    assert compared.n_pairs == 6


def test_one_model_has_no_pairs():
    (compared,) = agreements(panel_of(rows(TRUTH, {"a": 0.3}), rows(TRADITIONAL, {"a": 0.5})))
    assert (compared.n_pairs, compared.flips, compared.undecided) == (0, (), ())


def test_without_truth_the_naive_scheme_is_compared_with_the_estimate_and_that_with_nothing():
    panel = panel_of(
        rows(URE, {"a": 0.3, "b": 0.1}, half=0.01),
        rows(MICRO, {"a": 0.1, "b": 0.3}, half=0.01),
        rows(TRADITIONAL, {"a": 0.5, "b": 0.6}, half=0.01),
    )
    (compared,) = agreements(panel)
    assert (compared.scheme, compared.reference) == (TRADITIONAL, URE)
    assert [(f.above, f.below, f.clear) for f in compared.flips] == [("b", "a", True)]


def test_ure_micro_is_the_reference_where_it_is_all_there_is():
    (compared,) = agreements(panel_of(rows(MICRO, {"a": 0.3, "b": 0.1}), rows(TRADITIONAL, {"a": 0.5, "b": 0.6})))
    assert compared.reference == MICRO


def test_with_truth_every_estimate_is_compared_with_it_too():
    panel = panel_of(
        rows(TRUTH, {"a": 0.3, "b": 0.1}), rows(URE, {"a": 0.3, "b": 0.1}), rows(MICRO, {"a": 0.1, "b": 0.3})
    )
    assert {a.scheme: len(a.flips) for a in agreements(panel)} == {URE: 0, MICRO: 1}


def test_clear_flips_come_first_then_the_widest():
    truth = rows(TRUTH, {"a": 0.5, "b": 0.4, "c": 0.1})
    wide = rows(TRADITIONAL, {"c": 0.9}, half=0.5) + rows(TRADITIONAL, {"b": 0.8, "a": 0.1}, half=0.01)
    flips = agreements(panel_of(truth, wide))[0].flips
    assert [(f.above, f.below, f.clear) for f in flips] == [("c", "a", True), ("b", "a", True), ("c", "b", False)]


def test_misplaced_counts_both_directions():
    panel = panel_of(rows(TRUTH, {"a": 0.3, "b": 0.2, "c": 0.1}), rows(TRADITIONAL, {"a": 0.1, "b": 0.2, "c": 0.3}))
    assert misplaced(agreements(panel)[0]) == {"a": (0, 2), "b": (1, 1), "c": (2, 0)}


VALUES = st.dictionaries(
    st.sampled_from("abcdef"), st.one_of(st.none(), st.just(math.nan), st.integers(-2, 2).map(float)), min_size=6
)


@given(VALUES, VALUES)
def test_every_pair_is_agreed_flipped_or_undecided(truth, scheme):
    panel = panel_of(rows(TRUTH, truth), rows(URE, scheme))
    compared = agreement(panel, URE, TRUTH)
    flips, undecided, agreed = set(), set(), 0
    for a in "abcdef":
        for b in "abcdef":
            if a < b:
                numbers = [truth[a], truth[b], scheme[a], scheme[b]]
                product = math.nan if None in numbers else (numbers[0] - numbers[1]) * (numbers[2] - numbers[3])
                if math.isnan(product) or product == 0:
                    undecided.add(frozenset((a, b)))
                elif product < 0:
                    flips.add((a, b) if scheme[a] > scheme[b] else (b, a))
                else:
                    agreed += 1
    assert {(f.above, f.below) for f in compared.flips} == flips
    assert {frozenset(pair) for pair in compared.undecided} == undecided
    assert compared.n_pairs - len(compared.flips) - len(compared.undecided) == agreed
    assert all(isinstance(f, Flip) and f.gap > 0 and f.reference_gap > 0 for f in compared.flips)
