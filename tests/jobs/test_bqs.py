"""Balanced quality scores of a whole run, with repeats of training."""

from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine import bqs
from eval_engine.errors import ConfigError
from jobs import train
from jobs.cli import load


def test_repeats_are_models_of_their_own_and_scored_against_their_baseline(small_run: Any, spark: SparkSession) -> None:
    small_run.hold_out()
    small_run.config |= {
        "popularity": {"method": "quantile"},
        "train": {
            "scores": str(small_run.folder / "scores"),
            "repeats": 2,
            "models": [{"model": name, "epochs": 1, "dims": 4} for name in ("bpr_mf", "bpr_ips")],
        },
        "bqs": {"metrics": ["recall@3", "ndcg@3"], "estimators": ["holdout"]},
    }
    del small_run.config["scores"]
    small_run.config["evaluate"] = {"metrics": ["recall@3", "ndcg@3"], "replicates": 50}
    config = load(small_run.write())
    assert [m.name for m in config.train.panel] == ["bpr_mf#1", "bpr_mf#2", "bpr_ips#1", "bpr_ips#2"]
    assert [config.train.seed_of(m) for m in config.train.panel] == [0, 1, 0, 1]
    train.run(config, Console(quiet=True))
    small_run.run(spark)
    rows = {(row["metric"], row["repeat"]): row for row in small_run.rows(spark, "bqs")}
    assert set(rows) == {(metric, n) for metric in ("recall", "ndcg") for n in (0, 1, 2)}
    estimates = {
        (row["model"], row["metric"], row["slice"]): row["value"]
        for row in small_run.rows(spark, "estimates")
        if row["estimator"] == "holdout"
    }
    assert estimates["bpr_mf#1", "recall", "all"] != estimates["bpr_mf#2", "recall", "all"]
    for (metric, n), row in rows.items():
        if n:
            parts = [estimates[f"{m}#{n}", metric, s] for s in ("all", "popularity=low") for m in ("bpr_ips", "bpr_mf")]
            assert row["value"] == pytest.approx(bqs(*parts, a=10 if metric == "recall" else 2))
            assert row["low"] <= row["high"]
    assert rows["recall", 0]["value"] == pytest.approx((rows["recall", 1]["value"] + rows["recall", 2]["value"]) / 2)


def test_a_search_for_delta_orders_its_trials_by_the_score(small_run: Any) -> None:
    base = {"epochs": 2, "dims": 4, "stop_on": "ndcg@3", "validation_share": 0.4}
    fixed = {"maximise": "bqs", "base": base}
    search = {"model": "bpr_ensemble", "fixed": fixed, "grid": {"delta": [0.01, 1.0, 50.0]}}
    small_run.config["train"] = {"scores": str(small_run.folder / "scores"), "search": [search]}
    del small_run.config["scores"]
    config = load(small_run.write())
    train.run(config, Console(quiet=True))
    trials = DeltaTable(small_run.folder / "lake" / "trials").to_pyarrow_table().to_pylist()
    assert {(row["stop_on"], row["better"], row["error"]) for row in trials} == {("bqs(ndcg@3)", "higher", None)}
    by_score = sorted(trials, key=lambda row: -row["held_out"])
    assert by_score[0]["held_out"] > by_score[-1]["held_out"] > 0
    console = Console(record=True, width=150)
    train.show_trials(config, console)
    shown = console.export_text()
    places = [shown.index(row["model"]) for row in by_score]
    assert places[0] == min(places)
    assert places[-1] == max(places)


def test_models_that_are_left_out_change_no_pair(small_run: Any) -> None:
    small_run.hold_out()
    small_run.config |= {
        "popularity": {},
        "train": {"scores": str(small_run.folder / "s"), "models": [{"model": "bpr_mf"}, {"model": "bpr_ips"}]},
        "bqs": {"metrics": ["recall@3"]},
    }
    del small_run.config["scores"]
    config = load(small_run.write())
    assert config.without(("bpr_mf",)).bqs_rule() == config.bqs_rule()


def test_scores_need_their_metric_their_classes_and_pairs(small_run: Any) -> None:
    small_run.hold_out()
    small_run.config["bqs"] = {"metrics": ["recall@5"], "pairs": [{"baseline": "a", "debiased": "b"}]}
    with pytest.raises(ConfigError, match=r"recall@5 is not among evaluate.metrics"):
        load(small_run.write())
    small_run.config["bqs"]["metrics"] = ["recall@3"]
    with pytest.raises(ConfigError, match=r"classes of popularity need the section popularity"):
        load(small_run.write())
    small_run.config |= {"popularity": {}, "bqs": {"metrics": ["recall@3"]}}
    with pytest.raises(ConfigError, match=r"no model of `train` is known to be a debiased one"):
        load(small_run.write())
