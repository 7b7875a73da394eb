"""Which rows belong together, what they are held against, and how models are sorted."""

import math

import pytest

from eval_engine.errors import DataError
from eval_engine.metric import Metric
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.panel import Scheme, panels


def row(model: str, estimator: str, value: float | None, k: int = 10) -> EstimateRow:
    return EstimateRow(model, estimator, "recall", k, value, None, None, None, 100, 0, "")


def test_one_panel_per_target_and_traditional_stands_beside_each():
    rows = [row("m", "ure_macro", 0.1, 20), row("m", "ure_macro", 0.1, 5), row("m", "traditional", 0.5, 3), row("m", "traditional", 0.5, 1)]
    small, large = panels(rows)
    assert (small.target, large.target) == (Metric("recall", 5), Metric("recall", 20))
    assert [str(s) for s in small.schemes] == ["traditional recall@1", "traditional recall@3", "URE macro recall@5"]
    assert [str(s) for s in large.schemes] == ["traditional recall@1", "traditional recall@3", "URE macro recall@20"]


def test_a_traditional_scheme_alone_has_no_target():
    assert panels([row("m", "traditional", 0.5)]) == []


def test_models_are_sorted_by_the_truth_undefined_last_ties_by_name():
    rows = [row("b", "full_macro", 0.2), row("a", "full_macro", 0.2), row("n", "full_macro", math.nan), row("c", "full_macro", 0.3)]
    rows += [row("only_ure", "ure_macro", 0.9)]
    (panel,) = panels(rows)
    assert panel.models == ("c", "a", "b", "n", "only_ure")


def test_models_are_sorted_by_ure_where_there_is_no_truth():
    (panel,) = panels([row("a", "ure_macro", 0.1), row("b", "ure_macro", 0.2), row("a", "ure_micro", 0.9), row("b", "ure_micro", 0.1)])
    assert panel.models == ("b", "a")
    assert panel.reference == Scheme("ure_macro", Metric("recall", 10))
    assert not panel.has_truth


def test_an_estimator_unknown_to_the_report_is_a_column_all_the_same():
    (panel,) = panels([row("a", "ure_balanced", 0.1), row("a", "full_micro", 0.1)])
    assert [s.label for s in panel.schemes] == ["URE micro's target", "ure balanced"]


def test_two_rows_for_one_cell_are_an_error_that_names_it():
    with pytest.raises(DataError, match=r"model='a', estimator='ure_macro', metric=recall@10"):
        panels([row("a", "ure_macro", 0.1), row("a", "ure_macro", 0.2)])
