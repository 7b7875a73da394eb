"""The popularity stage on real files: counts and classes, its tables, and what it says of bad input."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine import popularity_classes
from eval_engine.errors import ConfigError, DataError
from jobs import popularity
from jobs.cli import load
from jobs.pipeline import stages_of

QUIET = Console(quiet=True)


def rows(run: Any, table: str) -> list[dict[str, Any]]:
    return DeltaTable(run.folder / "lake" / table).to_pyarrow_table().to_pylist()


def started(run: Any, spark: SparkSession, **section: Any) -> dict[str, Any]:
    """The stage is run with this section; its row of popularity_classes."""
    run.config["popularity"] = section
    popularity.run(spark, load(run.write()), QUIET)
    (row,) = rows(run, "popularity_classes")
    return row


def positives(run: Any) -> np.ndarray:
    """The number of training positives of each item, by a loop."""
    pairs = run.tables["feedback"].to_pylist()
    return np.array([sum(p["item_id"] == i and p["value"] > 3 for p in pairs) for i in run.items.tolist()])


def test_counts_and_classes_are_those_of_arrays_whatever_the_partitions(small_run: Any, spark: SparkSession) -> None:
    counts = positives(small_run)
    assert (counts == 0).any()
    for method in ("elbow", "share"):
        row = started(small_run, spark, method=method)
        found = popularity_classes(counts, method)
        stored = {one["item_id"]: one for one in rows(small_run, "popularity")}
        assert [stored[i]["count"] for i in small_run.items.tolist()] == counts.tolist()
        assert [stored[i]["class"] for i in small_run.items.tolist()] == found.class_of_each.tolist()
        assert (row["n_unseen"], row["n_low"]) == ((counts == 0).sum(), found.n_low)
        assert (row["n_middle"], row["n_high"]) == (found.n_middle, found.n_high)
        assert (row["low_at_most"], row["high_above"]) == (found.low_at_most, found.high_above)
        assert row["reason"] == (found.thresholds.reason or None)
        distinct, items = np.unique(counts, return_counts=True)
        assert dict(row["counts"]) == dict(zip(distinct.tolist(), items.tolist(), strict=True))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        assert started(small_run, spark, method="share") == row
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert {one["item_id"]: one for one in rows(small_run, "popularity")} == stored


def test_bad_rows_are_an_error_or_counted(small_run: Any, spark: SparkSession) -> None:
    counts = positives(small_run)
    feedback = small_run.tables["feedback"]
    bad = pa.table({"user_id": [100, 101, 102], "item_id": [1000, 7, 1003], "value": [None, 5.0, float("nan")]})
    small_run.tables["feedback"] = pa.concat_tables([feedback, bad])
    with pytest.raises(DataError, match=r"feedback: 3 rows break a rule \(first: item_id=7 is not in the catalogue"):
        started(small_run, spark, method="quantile")
    small_run.config["on_bad_rows"] = "quarantine"
    row = started(small_run, spark, method="quantile")
    assert row["n_bad_rows"] == 3
    stored = {one["item_id"]: one["count"] for one in rows(small_run, "popularity")}
    assert [stored[i] for i in small_run.items.tolist()] == counts.tolist()


def test_no_positive_at_all_is_said(small_run: Any, spark: SparkSession) -> None:
    small_run.config["positive"] = "value > 9"
    row = started(small_run, spark)
    assert row["reason"] == "no item has a training positive"
    assert {one["class"] for one in rows(small_run, "popularity")} == {"unseen"}


def test_the_section_asks_for_the_stage_and_needs_feedback(small_run: Any) -> None:
    assert "popularity" not in stages_of(load(small_run.write()))
    small_run.config["popularity"] = {}
    assert "popularity" in stages_of(load(small_run.write()))
    small_run.config["popularity"] = {"method": "knee"}
    with pytest.raises(ConfigError, match=r"popularity\.method"):
        load(small_run.write())
    small_run.config["popularity"] = {}
    del small_run.config["inputs"]["feedback"]
    small_run.config["frame"] = "all_items"
    with pytest.raises(ConfigError, match=r"popularity counts training pairs, so inputs.feedback is needed"):
        load(small_run.write())
