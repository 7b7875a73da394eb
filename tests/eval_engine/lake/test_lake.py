"""Written tables, by whichever way they were written: rules, small rows, and what two ways read of them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eval_engine.columns import STRING, Column, Struct
from eval_engine.errors import DataError, LakeError
from eval_engine.lake.lake import Lake
from eval_engine.tables import (
    AGREEMENT,
    ESTIMATES,
    LABELS,
    QUALITY,
    RANKS,
    RUNS,
    STUDY_ESTIMATES,
    TABLES,
    TRIALS,
    Table,
)

EVALUATED = [table for table in TABLES if table.rules and table not in (TRIALS, AGREEMENT, STUDY_ESTIMATES)]


@pytest.mark.parametrize("table", EVALUATED, ids=lambda table: table.name)
def test_rows_keep_the_rules_of_their_table(finished_run: Any, spark: SparkSession, table: Table) -> None:
    rows = Lake(spark, finished_run.config["lake"]).read(table, "small")
    assert table == QUALITY or not rows.isEmpty()
    broken = rows.where(" OR ".join(f"NOT coalesce(({rule}), false)" for rule in table.rules))
    assert (
        broken.isEmpty()
    )  # Delta does not look at files that are committed by name. Of the others: tests/jobs/test_train.py, test_study.py


def test_few_rows_are_read_as_spark_reads_them(finished_run: Any, spark: SparkSession) -> None:
    lake = Lake(spark, finished_run.config["lake"])
    for table, key in (
        (RUNS, lambda row: row["stage"]),
        (ESTIMATES, lambda row: [str(row[name]) for name in ESTIMATES.key]),
    ):
        ours = sorted(lake.rows(table, {"run_id": "small"}), key=key)
        theirs = sorted((row.asDict() for row in lake.read(table, "small").collect()), key=key)
        for row in (*ours, *theirs):
            row.pop("started_at", None)  # Spark tells it in the zone of the driver
        assert ours == theirs
        assert ours


def test_few_rows_take_the_place_of_a_stage_only(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(spark, str(tmp_path / "a lake"))
    now = datetime.now(UTC)
    for stage, status in (("rank", "running"), ("evaluate", "done"), ("rank", "failed")):
        lake.put(RUNS, [(status, now, 1.5, "{}", {"spark": "x"}, {}, None, "p", {})], {"run_id": "r", "stage": stage})
    assert {
        (row["stage"], row["status"], row["versions"]["spark"], row["started_at"])
        for row in lake.rows(RUNS, {"run_id": "r"})
    } == {
        ("rank", "failed", "x", now),
        ("evaluate", "done", "x", now),
    }
    lake.put(RUNS, [], {"run_id": "r", "stage": "rank"})
    assert [row["stage"] for row in lake.rows(RUNS, {"run_id": "r"})] == ["evaluate"]
    assert lake.rows(RUNS, {"run_id": "other"}) == []
    assert lake.rows(QUALITY, {"run_id": "r"}) == lake.partitions(RANKS, "r") == []


def test_who_only_reads_writes_nothing(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(spark, str(tmp_path / "none"))
    assert lake.rows(RUNS, {"run_id": "r"}) == lake.partitions(RANKS, "r") == []
    assert not (tmp_path / "none").exists()


def test_ids_are_of_one_type_whoever_writes_them(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(spark, str(tmp_path / "lake"))
    lake.create(RANKS, "BIGINT", {"run_id": "r"})
    lake.create(RANKS, "BIGINT", {"run_id": "r"})
    with pytest.raises(
        DataError, match=r"ranks.user_id is STRING in this run but BIGINT in the lake: ids are of one type"
    ):
        lake.create(RANKS, "STRING", {"run_id": "r"})


@pytest.mark.parametrize("by_spark", [False, True])
def test_a_table_of_an_older_version_gets_its_new_columns_and_keeps_its_rows(
    tmp_path: Path, spark: SparkSession, by_spark: bool
) -> None:
    old = replace(RUNS, columns=tuple(c for c in RUNS.columns if c.name not in ("process", "outputs")))
    now = datetime.now(UTC)
    Lake(spark, str(tmp_path)).put(old, [("done", now, 1.5, "{}", {}, {}, None)], {"run_id": "r", "stage": "rank"})
    lake = Lake(spark, str(tmp_path))
    if by_spark:  # as where Arrow does not reach the lake
        lake.spark_only_reason = "so the test says"
    lake.put(RUNS, [("done", now, 1.5, "{}", {}, {}, None, "p", {"a": "b"})], {"run_id": "r", "stage": "evaluate"})
    rows = sorted(lake.rows(RUNS, {"run_id": "r"}), key=lambda row: row["stage"])
    assert [(row["stage"], row["process"], row["outputs"]) for row in rows] == [
        ("evaluate", "p", {"a": "b"}),
        ("rank", None, None),
    ]


def test_a_struct_gets_its_new_fields(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(spark, str(tmp_path))
    fewer = Struct(*(field for field in LABELS.fields if field.name != "probabilities"))
    columns = tuple(replace(c, type=fewer) if c.type == LABELS else c for c in RANKS.columns)
    old = replace(RANKS, columns=columns, rules=())
    assert set(RANKS.fields) - set(old.fields) == {"random.probabilities", "truth.probabilities"}
    lake.create(old, "BIGINT", {"run_id": "r"})
    lake.create(RANKS, "BIGINT", {"run_id": "r"})
    assert "probabilities" in lake.read(RANKS, "r").select("random.*").columns


def test_a_table_with_a_column_that_nobody_knows_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(spark, str(tmp_path))
    newer = replace(QUALITY, columns=(*QUALITY.columns, Column("colour", STRING, "A colour.")))
    lake.create(newer, "BIGINT", {"run_id": "r"})
    with pytest.raises(LakeError, match=r"quality has the column colour, which this version does not know"):
        lake.create(QUALITY, "BIGINT", {"run_id": "r"})


def test_an_error_of_spark_is_not_taken_for_a_missing_table(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(spark, str(tmp_path))
    assert not lake.has(QUALITY)
    lake.create(QUALITY, "BIGINT", {"run_id": "r"})
    (tmp_path / "quality" / "_delta_log" / "00000000000000000000.json").write_text("not JSON")
    with pytest.raises(Exception, match=r"(?i)json|log|quality"):
        lake.rows(QUALITY, {"run_id": "r"})
