"""Slices, values of single users and metrics of top lists, from a config to tables; and slice tables that cannot be meant."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.config import Slices, SliceTable
from eval_engine.errors import DataError
from eval_engine.evaluation import slice_tables
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.lake.lake import Lake
from eval_engine.storage.keyed_table import loaded
from eval_engine.tables import (
    COMPARISONS,
    ESTIMATES,
    ESTIMATOR_AGREEMENT,
    RANKS,
    REVERSALS,
    STATISTICS,
    USER_METRICS,
)
from jobs import evaluate, rank
from jobs.run_config import RunConfig

EVERY = {
    "metrics": ["recall@3", "precision@3", "coverage@3", "gini@3"],
    "traditional": ["recall@2"],
    "user_metrics": True,
}


def with_slices(run: Any, values: dict[str, Any] | None = None) -> Any:
    """A run with a table of items (a category of some) and one of users (a segment of all)."""
    run.tables["items"] = pa.table(
        {"iid": run.items[:20], "category": pa.array(["toys", "books"] * 10), "age": np.arange(20) // 10}
    )
    run.tables["users"] = pa.table({"user_id": run.users, "segment": pa.array(["a", "b", None, "c"] * 10)})
    run.tables |= values or {}
    run.config["slices"] = {
        "items": [{"path": str(run.folder / "in/items"), "by": ["category", "age"], "columns": {"item_id": "iid"}}],
        "users": [{"path": str(run.folder / "in/users"), "by": ["segment"]}],
    }
    run.config["evaluate"] = EVERY
    return run


def evaluated(run: Any, spark: SparkSession) -> Lake:
    run.write()
    config, quiet = RunConfig.model_validate(run.config), Console(quiet=True)
    rank.run(spark, config, quiet)
    evaluate.run(spark, config, quiet)
    return Lake(spark, config.lake)


def rows_of(lake: Lake, table: Any) -> list[dict[str, Any]]:
    return lake.rows(table, {"run_id": "small"})


def test_from_config_to_tables(small_run: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = evaluated(with_slices(small_run), spark)
    estimates = rows_of(lake, ESTIMATES)
    slices = {row["slice"] for row in estimates}
    assert slices == {
        *("all", "category=toys", "category=books", "category=NULL", "age=0", "age=1", "age=NULL"),
        *("segment=a", "segment=b", "segment=c", "segment=NULL"),
    }
    by_key = {(row["slice"], row["model"], row["estimator"], row["metric"], row["k"]): row for row in estimates}
    keys = {key[1:] for key in by_key}
    for part in slices - {"all"}:
        assert {key[1:] for key in by_key if key[0] == part} == {key for key in keys if key[1] != "lists"}
    for names in (("category=toys", "category=books", "category=NULL"), ("age=0", "age=1", "age=NULL")):
        # precision adds up over the slices of items, and users over the slices of users
        parts = [by_key[name, "a", "full_mean", "precision", 3]["value"] for name in names]
        assert sum(parts) == pytest.approx(by_key["all", "a", "full_mean", "precision", 3]["value"])
    users = [by_key[f"segment={s}", "a", "full_mean", "precision", 3]["n_users"] for s in ("a", "b", "c", "NULL")]
    assert users == [10, 10, 10, 10]
    assert {row["slice"] for row in rows_of(lake, COMPARISONS)} == slices
    assert not (small_run.folder / "lake" / "_staging" / "small").exists() or not list(
        (small_run.folder / "lake" / "_staging" / "small").iterdir()
    )

    _values_of_users_add_up(lake, by_key)
    _lists_are_counted(lake, by_key)

    assert {row["slicing"] for row in rows_of(lake, REVERSALS)} == {"category", "age", "segment"}
    _items_are_counted(small_run, lake)
    assert {row["reference"] for row in rows_of(lake, ESTIMATOR_AGREEMENT)} <= {
        *("full_macro", "full_mean", "full_micro", "full_selected")
    }
    written = (ESTIMATES, COMPARISONS, REVERSALS, ESTIMATOR_AGREEMENT)
    tables = {table: sorted(map(str, rows_of(lake, table))) for table in written}
    assert all(tables.values())
    monkeypatch.setattr(evaluate, "SMALL_BYTES", -1)  # by Spark's workers
    evaluate.run(spark, RunConfig.model_validate(small_run.config), Console(quiet=True))
    for table, before in tables.items():
        assert sorted(map(str, rows_of(lake, table))) == before
    assert {row["slice"] for row in rows_of(lake, STATISTICS)} == slices


def _values_of_users_add_up(lake: Lake, estimates: dict[Any, Any]) -> None:
    sums: dict[Any, list[float]] = {}
    for row in rows_of(lake, USER_METRICS):
        total = sums.setdefault((row["model"], row["estimator"], row["metric"], row["k"]), [0.0, 0.0, 0])
        total[0] += row["numerator"]
        total[1] += row["denominator"]
        total[2] += 1
    assert {key for key in sums if key[1] != "ure_balanced"} == {
        key[1:] for key in estimates if key[0] == "all" and key[2] not in ("ure_balanced", "lists")
    }
    for key, (a, b, n) in sums.items():
        row = estimates["all", *key]
        assert n == row["n_users"]
        if key[1] != "ure_balanced":
            assert a / b == pytest.approx(row["value"], rel=1e-9)


def _items_are_counted(run: Any, lake: Lake) -> None:
    """Slices of items say how many items they hold; slices of users do not."""
    table = run.tables["items"]
    flagged = [row for row in rows_of(lake, REVERSALS) if row["flag"] != "none"]
    assert {row["slicing"] for row in flagged} >= {"segment"}
    assert {row["slicing"] for row in flagged} & {"category", "age"}
    for row in flagged:
        if row["slicing"] == "segment":
            assert row["items"] is None
            continue
        values = [str(value) for value in table[row["slicing"]].to_pylist()] + ["NULL"] * 10
        assert row["items"] == [values.count(name.partition("=")[2]) for name in row["slices"]]


def _lists_are_counted(lake: Lake, estimates: dict[Any, Any]) -> None:
    top = {
        model: [row["top"]["items"][:3] for row in lake.read(RANKS, "small").where(f"model = '{model}'").collect()]
        for model in ("a", "b")
    }
    for model, lists in top.items():
        counts = np.zeros(30)
        for items in lists:
            counts[(np.array(items) - 1000) // 3] += 1
        coverage, gini = (estimates["all", model, "lists", name, 3] for name in ("coverage", "gini"))
        assert coverage["value"] == pytest.approx((counts > 0).mean())
        pairs = np.abs(counts[:, None] - counts).sum() / (2 * counts.size**2 * counts.mean())
        assert gini["value"] == pytest.approx(pairs)
        assert gini["n_users"] == 40
        assert gini["low"] is None
        assert "exact" in gini["reason"]


@pytest.mark.parametrize(
    ("table", "rows", "message"),
    [
        ("items", {"iid": [1000, 1003, 1000], "category": ["x", "y", "x"], "age": [1, 2, 1]}, r"slices\.items\[0\]: item_id=1000 stands in it more than once"),
        ("items", {"iid": list(range(300)), "category": [f"c{n}" for n in range(300)], "age": [0] * 300}, r"slices\.items\[0\]\.category has more than 100 different values"),
        ("items", {"iid": [1000], "category": ["NULL"], "age": [1]}, "has the text 'NULL' as a value"),
        ("items", {"iid": [1000], "category": [0.5], "age": [1]}, r"category has type DOUBLE, but the values of a slice are text"),
        ("items", {"iid": ["1000"], "category": ["x"], "age": [1]}, "item_id is STRING, but ids of the run are BIGINT"),
        ("users", {"user_id": [100, None], "segment": ["x", "y"]}, r"slices\.users\[0\]: 1 rows have user_id=NULL"),
        ("users", {"user_id": [100], "country": ["x"]}, "column 'segment' is missing"),
    ],
)  # fmt: skip
def test_slice_tables_that_cannot_be_meant(
    table: str, rows: dict[str, Any], message: str, finished_run: Any, small_run: Any, spark: SparkSession
) -> None:
    run = with_slices(small_run, {table: pa.table(rows)})
    run.write()
    run.config["lake"] = finished_run.config["lake"]
    slices = evaluate.slices_of(spark, Lake(spark, run.config["lake"]), RunConfig.model_validate(run.config))
    with pytest.raises(DataError, match=message), slices:
        pass


def test_small_tables_are_what_spark_reads(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {
        "text": pa.array(["x", None, "", "y y"] * 5),
        "whole": pa.array([3, -1, None, 3] * 5, pa.int16()),
        "flag": pa.array([True, False, None, True] * 5),
        "day": pa.array([date(2026, 1, 2), None, date(1969, 12, 31), date(2026, 1, 2)] * 5),
    }
    table = pa.table({"it": pa.array(range(100, 120), pa.int32()), **columns, "price": pa.array([1, None, 2, 3] * 5)})
    (tmp_path / "items").mkdir()
    for n in (0, 7):
        pq.write_table(table.slice(n, 7 if n == 0 else 13), tmp_path / "items" / f"{n}.parquet")
    where = {"path": str(tmp_path / "items"), "columns": {"item_id": "it"}}
    slices = Slices.model_validate({"items": [where | {"by": list(columns)}]})
    values = (SliceTable.model_validate(where | {"by": ["price"]}),)
    found = []
    for name, at_most in (("here", slice_tables.SMALL_BYTES), ("spark", 0)):
        monkeypatch.setattr(slice_tables, "SMALL_BYTES", at_most)
        before = jobs_so_far(spark)
        read = slice_tables.read_slices(spark, slices, values, "BIGINT", str(tmp_path / name))
        assert (jobs_so_far(spark) > before) == (name == "spark")
        own = [loaded(one) for one in read.item_tables]
        rows = [one.rows(xxhash64(pa.array(range(95, 125)))) for one in own]
        codes = [own[0].codes(column, rows[0], -1).tolist() for column in columns]
        prices = np.append(own[1].columns["price"], -1.0)[rows[1]]
        found.append((read.slicings, read.n_items, codes, np.nan_to_num(prices, nan=-2.0).tolist()))
    assert found[0] == found[1]
    assert {slicing.name: slicing.values for slicing in found[0][0]}["flag"] == ("false", "true")


def jobs_so_far(spark: SparkSession) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup())


def test_two_slicings_of_one_name(small_run: Any) -> None:
    run = with_slices(small_run)
    run.config["slices"]["users"][0]["by"] = ["category"]
    with pytest.raises(ValueError, match="category is the name of two slicings"):
        RunConfig.model_validate(run.config)
