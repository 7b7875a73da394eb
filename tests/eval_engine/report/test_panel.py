"""Which rows belong together, what they are compared with, and how models are sorted."""

import math

import pytest

from eval_engine.errors import DataError
from eval_engine.metric import Metric
from eval_engine.report.answers import Answers
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.panel import Scheme, panels


def row(model: str, estimator: str, value: float | None, k: int = 10, metric: str = "recall") -> EstimateRow:
    return EstimateRow(model, estimator, metric, k, value, None, None, None, 100, 0, "")


def test_one_panel_per_target_and_traditional_stands_beside_each():
    rows = [
        row("m", "ure_macro", 0.1, 20),
        row("m", "ure_macro", 0.1, 5),
        row("m", "traditional", 0.5, 3),
        row("m", "traditional", 0.5, 1),
    ]
    small, large = panels(Answers(rows))
    assert (small.target, large.target) == (Metric("recall", 5), Metric("recall", 20))
    assert [str(s) for s in small.schemes] == ["traditional recall@1", "traditional recall@3", "URE macro recall@5"]
    assert [str(s) for s in large.schemes] == ["traditional recall@1", "traditional recall@3", "URE macro recall@20"]


def test_a_naive_scheme_of_the_targets_cutoffs_stands_beside_its_own_and_another_beside_each():
    rows = [row("m", name, 0.1, k) for name in ("ure_macro", "holdout") for k in (5, 20)]
    small, large = panels(Answers([*rows, row("m", "traditional", 0.5, 5)]))
    assert [str(s) for s in small.schemes] == ["traditional recall@5", "held-out pairs recall@5", "URE macro recall@5"]
    assert [str(s) for s in large.schemes] == [
        "traditional recall@5",
        "held-out pairs recall@20",
        "URE macro recall@20",
    ]


def test_naive_schemes_alone_are_reported_as_such():
    rows = [row(model, "holdout", value) for model, value in (("m", 0.5), ("n", 0.6))]
    (panel,) = panels(Answers(rows))
    assert panel.models == ("n", "m")
    assert panel.best_estimate == panel.reference == Scheme("holdout", Metric("recall", 10))
    assert not panel.has_truth
    assert panel.best_estimate.spoken == "held-out pairs (naive: no estimate over all candidates)"


def test_models_are_sorted_by_the_truth_undefined_last_ties_by_name():
    rows = [
        row("b", "full_macro", 0.2),
        row("a", "full_macro", 0.2),
        row("n", "full_macro", math.nan),
        row("c", "full_macro", 0.3),
    ]
    rows += [row("only_ure", "ure_macro", 0.9)]
    (panel,) = panels(Answers(rows))
    assert panel.models == ("c", "a", "b", "n", "only_ure")


def test_models_are_sorted_by_ure_where_there_is_no_truth():
    (panel,) = panels(
        Answers(
            [
                row("a", "ure_macro", 0.1),
                row("b", "ure_macro", 0.2),
                row("a", "ure_micro", 0.9),
                row("b", "ure_micro", 0.1),
            ]
        )
    )
    assert panel.models == ("b", "a")
    assert panel.reference == Scheme("ure_macro", Metric("recall", 10))
    assert not panel.has_truth


def test_an_estimator_unknown_to_the_report_is_a_column_all_the_same():
    rows = [row("a", name, 0.1) for name in ("z_own", "ure_micro", "full_macro", "an_own\n")]
    (panel,) = panels(Answers(rows))
    assert [s.label for s in panel.schemes] == ["truth", "URE micro", "an own\\n", "z own"]
    assert [s.role for s in panel.schemes] == ["truth", "estimate", "estimate", "estimate"]
    assert panel.best_estimate.estimator == "ure_micro"
    assert panels(Answers(rows[:1]))[0].best_estimate.estimator == "z_own"


def test_two_rows_for_one_cell_are_an_error_that_names_it():
    with pytest.raises(DataError, match=r"model='a', estimator='ure_macro', metric=recall@10, slice='all'"):
        panels(Answers([row("a", "ure_macro", 0.1), row("a", "ure_macro", 0.2)]))


def test_recall_has_seven_columns_and_balanced_ure_stands_next_to_the_truth():
    names = ("full_micro", "ure_micro", "full_selected", "ure_macro", "ure_balanced", "full_macro")
    (panel,) = panels(Answers([*(row("m", name, 0.1) for name in names), row("m", "traditional", 0.5, 5)]))
    labels = [
        "truth",
        "traditional",
        "URE balanced",
        "URE macro",
        "URE macro's target",
        "URE micro",
        "URE micro's target",
    ]
    assert [s.label for s in panel.schemes] == labels
    targets = {s.label: own.label for s in panel.schemes if (own := panel.target_of(s))}
    assert targets == {"URE balanced": "truth", "URE macro": "URE macro's target", "URE micro": "URE micro's target"}


@pytest.mark.parametrize(
    ("metric", "k", "estimators", "labels"),
    [
        ("auc", 0, ("ure_macro", "full_selected", "full_macro"), ["truth", "URE", "URE's target"]),
        ("map", 10, ("ure_macro", "full_macro"), ["truth", "URE"]),
        ("precision", 10, ("ure_mean", "full_mean", "traditional"), ["truth", "traditional", "URE"]),
        ("dcg", 10, ("ure_mean", "full_mean"), ["truth", "URE"]),
        ("hit_rate", 1, ("ure_mean", "full_mean"), ["truth", "URE"]),
        ("ndcg", 10, ("full_macro", "ure_mean", "full_mean"), ["truth", "URE", "truth of users with a positive"]),
    ],
)
def test_other_metrics_have_one_ure_and_the_truth_that_it_estimates(metric, k, estimators, labels):
    (panel,) = panels(Answers([row(model, name, 0.1, k, metric) for name in estimators for model in "ab"]))
    assert [s.label for s in panel.schemes] == labels
    assert panel.has_truth
    assert panel.truth == panel.schemes[0]
    (alone,) = panels(
        Answers([row(model, name, 0.1, k, metric) for name in estimators if name[:3] == "ure" for model in "ab"])
    )
    assert (alone.has_truth, alone.truth, alone.reference.label) == (False, None, "URE")


def test_without_truth_balanced_ure_is_the_reference_unless_it_is_undefined():
    rows = [
        row("a", "ure_macro", 0.1),
        row("b", "ure_macro", 0.2),
        row("a", "ure_balanced", None),
        row("b", "ure_balanced", None),
    ]
    assert panels(Answers(rows))[0].reference.estimator == "ure_macro"
    rows[3] = row("b", "ure_balanced", 0.3)
    (panel,) = panels(Answers(rows))
    assert panel.reference.estimator == "ure_balanced"
    assert panel.models == ("b", "a")


def test_a_truth_without_any_value_is_no_judge():
    (panel,) = panels(Answers([row("a", "full_macro", None), row("a", "ure_macro", 0.1)]))
    assert (panel.has_truth, panel.reference.estimator) == (False, "ure_macro")


def test_panels_come_in_the_order_that_was_asked_for_else_by_name():
    rows = [
        row("a", "ure_macro", 0.1, 0, "auc"),
        row("a", "ure_macro", 0.1, 20),
        row("a", "ure_macro", 0.1, 5),
        row("a", "ure_mean", 0.1, 5, "dcg"),
    ]
    assert [str(panel.target) for panel in panels(Answers(rows))] == ["auc", "dcg@5", "recall@5", "recall@20"]
    asked = (Metric("dcg", 5), Metric("recall", 20))
    assert [str(panel.target) for panel in panels(Answers(rows, metrics=asked))] == [
        "dcg@5",
        "recall@20",
        "auc",
        "recall@5",
    ]


def test_a_pair_is_found_in_either_order():
    pair = ComparisonRow("ure_macro", "recall", 10, "a", "b", 0.1, 0.05, 0.15, 0.95, 0.01, 0.02, "a better", 7, 5, 3)
    (panel,) = panels(
        Answers([row("a", "ure_macro", 0.2), row("b", "ure_macro", 0.1), row("a", "ure_micro", 0.2)], [pair])
    )
    scheme, other = panel.schemes
    assert panel.pair(scheme, "a", "b") == pair
    assert panel.pair(scheme, "b", "a") == pair.turned()
    assert panel.pair(other, "a", "b") is None
