"""Estimates over test sets, from files to tables: against loops over the pairs of each draw."""

from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError
from eval_engine.lake.lake import Lake
from jobs import evaluate, report
from jobs.cli import load
from tests.conftest import SmallRun
from tests.jobs.test_logged_feedback import logged_run, rows

SETS: list[dict[str, Any]] = [
    {"strategy": "FULL"},
    {"strategy": "REG", "share": 0.4, "pairs": True},
    {"strategy": "WTD_H", "share": 0.3, "draws": 3, "pairs": True},
    {"strategy": "CAP", "draws": 2, "pairs": True},
]
K = 3


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Any:
    run = SmallRun(tmp_path_factory.mktemp("tested"))
    logged_run(run)
    run.config["test_sets"] = SETS
    run.run(spark)
    return run


def per_user(run: Any, model: str, pairs: set[tuple[int, int]]) -> dict[int, dict[str, float]]:
    """The metrics at 3 of each user with a positive in the set, by sorting the user's scores."""
    found = {}
    for u, user in enumerate(run.users.tolist()):
        left = [i for i in range(len(run.items)) if not run.logged_matrix[u, i]]
        order = sorted(left, key=lambda i: -run.scores[model][u, i])
        liked = [
            i
            for i in range(len(run.items))
            if run.held_matrix[u, i] and run.truth_values[u, i] > 3 and (user, int(run.items[i])) in pairs
        ]
        if not liked:
            continue
        ranks = sorted(order.index(i) + 1 for i in liked)
        top = [r for r in ranks if r <= K]
        ideal = sum(1 / np.log2(r + 1) for r in range(1, min(K, len(liked)) + 1))
        found[user] = {
            "recall": len(top) / len(liked),
            "precision": len(top) / K,
            "ndcg": sum(1 / np.log2(r + 1) for r in top) / ideal,
            "map": sum((n + 1) / r for n, r in enumerate(top)) / len(liked),
        }
    return found


def test_estimates_are_the_mean_of_holdout_over_draws(tested: Any) -> None:
    pairs: dict[tuple[str, int], set[tuple[int, int]]] = {}
    for row in rows(tested, "test_set_pairs"):
        pairs.setdefault((row["name"], row["draw"]), set()).add((row["user_id"], row["item_id"]))
    estimates = {(r["model"], r["estimator"], r["metric"]): r for r in rows(tested, "estimates") if r["slice"] == "all"}
    assert "test_set" not in {name for _, name, _ in estimates}
    for model in ("a", "b"):
        for name, draws in (("reg", 1), ("wtd_h", 3), ("cap", 2)):
            each = [per_user(tested, model, pairs[name, draw]) for draw in range(draws)]
            for metric in ("recall", "precision", "ndcg", "map"):
                values = [np.mean([own[metric] for own in one.values()]) for one in each]
                row = estimates[model, f"test_set({name})", metric]
                assert row["value"] == pytest.approx(np.mean(values), rel=1e-9), (name, metric)
                assert row["draws"] == draws
                sd = None if draws == 1 else pytest.approx(np.std(values, ddof=1), rel=1e-6, abs=1e-12)
                assert row["draws_sd"] == sd
                assert row["n_users"] == round(np.mean([len(one) for one in each]))
                assert row["low"] < row["value"] < row["high"]
                assert (row["unreliable"], row["reason"]) == (None, None)
        for metric in ("recall", "precision", "ndcg", "map", "dcg", "rbp(p=0.8)", "auc"):
            full, holdout = (estimates[model, name, metric] for name in ("test_set(full)", "holdout"))
            for column in ("value", "n_users", "n_left_out", "n_pairs"):
                assert full[column] == pytest.approx(holdout[column], rel=1e-12)
            assert full["standard_error"] == pytest.approx(holdout["standard_error"], rel=0.5)
    assert all(row["draws"] is None for key, row in estimates.items() if not key[1].startswith("test_set("))


def test_models_are_compared_and_estimators_agree_under_test_sets(tested: Any) -> None:
    names = {row["estimator"] for row in rows(tested, "comparisons")}
    assert {"test_set(full)", "test_set(wtd_h)", "test_set(cap)"} <= names
    assert "test_set" not in names
    agreement = [row for row in rows(tested, "estimator_agreement") if row["estimator"] == "test_set(wtd_h)"]
    assert {row["metric"] for row in agreement} >= {"recall", "ndcg"}
    compared = {
        (r["estimator"], r["metric"]): r["difference"] for r in rows(tested, "comparisons") if r["slice"] == "all"
    }
    estimates = {(r["model"], r["estimator"], r["metric"]): r["value"] for r in rows(tested, "estimates")}
    difference = estimates["a", "test_set(wtd_h)", "recall"] - estimates["b", "test_set(wtd_h)", "recall"]
    assert compared["test_set(wtd_h)", "recall"] == pytest.approx(difference)


def test_the_report_names_test_sets(tested: Any, spark: SparkSession) -> None:
    console = Console(record=True, width=300)
    report.run(spark, load(tested.write()), console)
    assert "test set (wtd_h)" in console.export_text()
    (page,) = (path.read_text() for path in (tested.folder / "report").glob("*.html"))
    assert "test set (wtd_h)" in page


def test_spark_workers_give_the_same_tables(tested: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(tested, "estimates")
    monkeypatch.setattr(evaluate, "SMALL_BYTES", 0)
    monkeypatch.setattr(evaluate, "SMALL_STATISTICS", 0)
    evaluate.run(spark, load(tested.write()), Console(quiet=True))
    key = ("model", "estimator", "metric", "k", "slice")

    def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(found, key=lambda row: [str(row[name]) for name in key])

    assert in_order(rows(tested, "estimates")) == in_order(before)


def test_test_sets_of_other_settings_or_of_no_job(tested: Any, spark: SparkSession) -> None:
    for sets, message in (
        ([*SETS, {"strategy": "SKEW"}], "draw 0 of the test set skew of run_id=small was not drawn"),
        ([{"strategy": "REG", "share": 0.5}], "draw 0 of the test set reg .* drawn with other settings"),
    ):
        config = load(tested.write()).model_dump() | {"test_sets": sets}
        changed = type(load(tested.write())).model_validate(config)
        with (
            pytest.raises(DataError, match=message),
            evaluate.test_sets_of(Lake(spark, changed.lake), changed),
        ):
            pass
