"""Written tables, by whichever way they were written: rules, small rows, and what two ways read of them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.columns import STRING, Column, Struct
from eval_engine.errors import DataError, LakeError
from eval_engine.lake.delta_table import changed_rules, fields_of
from eval_engine.lake.lake import Lake
from eval_engine.lake.spark_table import with_new_columns
from eval_engine.tables import (
    AGREEMENT,
    ESTIMATES,
    QUALITY,
    RANKS,
    RUNS,
    STUDY_ESTIMATES,
    TABLES,
    TRIALS,
    USER_METRICS,
    Table,
)

OTHERS = (
    TRIALS,
    AGREEMENT,
    STUDY_ESTIMATES,
    USER_METRICS,
)  # tests/jobs/: test_train.py, test_study.py, test_readers.py
EVALUATED = [table for table in TABLES if table.rules and table not in OTHERS]
NO_SPARK: Any = None
RUN = dict.fromkeys(RUNS.names[2:]) | {"status": "done", "process": "p", "config": "{}", "versions": {}, "outputs": {}}


@pytest.mark.parametrize("table", EVALUATED, ids=lambda table: table.name)
def test_rows_keep_the_rules_of_their_table(finished_run: Any, spark: SparkSession, table: Table) -> None:
    rows = Lake(spark, finished_run.config["lake"]).read(table, "small")
    assert table == QUALITY or not rows.isEmpty()
    broken = rows.where(" OR ".join(f"NOT coalesce(({rule}), false)" for rule in table.rules))
    assert broken.isEmpty()  # Delta does not check files that are committed by name


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
        row = RUN | {"status": status, "started_at": now, "versions": {"spark": "x"}}
        lake.put(RUNS, [row], {"run_id": "r", "stage": stage})
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
    fewer = {name: value for name, value in RUN.items() if name in old.names}
    Lake(spark, str(tmp_path)).put(old, [fewer], {"run_id": "r", "stage": "rank"})
    lake = Lake(spark, str(tmp_path))
    if by_spark:  # as where Arrow does not reach the lake
        lake.spark_only_reason = "so the test says"
    lake.put(RUNS, [RUN | {"outputs": {"a": "b"}}], {"run_id": "r", "stage": "evaluate"})
    rows = sorted(lake.rows(RUNS, {"run_id": "r"}), key=lambda row: row["stage"])
    assert [(row["stage"], row["process"], row["outputs"]) for row in rows] == [
        ("evaluate", "p", {"a": "b"}),
        ("rank", None, None),
    ]


def older_ranks() -> Table:
    """A contract of ranks before it had complete labels, exposure probabilities and candidates of label sets."""
    labels = ("items", "values", "scores", "above", "tied")
    kept = ("run_id", "model", "inputs", "user_id", "candidates", "scored", "random", "top", "problem")
    columns = []
    for column in RANKS.columns:
        if column.name in kept and isinstance(column.type, Struct):
            columns.append(replace(column, type=Struct(*(f for f in column.type.fields if f.name in labels))))
        elif column.name in kept:
            columns.append(column)
    rules = ("scored >= 0", *("candidates >= 0",) * len(RANKS.rules))  # one more than now, all others changed
    older = replace(RANKS, columns=tuple(columns), rules=rules)
    assert {"truth", "truth.items", "random.probabilities"} <= set(RANKS.fields) - set(older.fields)
    return older


def ranked(spark: SparkSession, user_id: int) -> DataFrame:
    """A row of the older contract, but for run_id."""
    places = "'scores', array(3f), 'above', array(0), 'tied', array(0)"
    labels = f"named_struct('items', array(1L), 'values', array(2d), {places})"
    top = "named_struct('items', array(1L), 'scores', array(3f))"
    return spark.sql(
        f"SELECT 'm' AS model, 'x' AS inputs, {user_id}L AS user_id, 5 AS candidates, 5 AS scored, {labels} AS random, "
        f"{top} AS top, CAST(NULL AS STRING) AS problem"
    )


@pytest.mark.parametrize("by_spark", [False, True])
def test_structs_get_new_fields_and_the_table_its_new_rules(
    tmp_path: Path, spark: SparkSession, by_spark: bool
) -> None:
    lake = Lake(spark, str(tmp_path))
    lake.replace(older_ranks(), ranked(spark, 1), {"run_id": "old"})
    (read,) = lake.read(RANKS, "old").collect()  # as the older version left it
    assert (read["random"]["items"], read["random"]["probabilities"], read["truth"]) == ([1], None, None)
    if by_spark:
        lake.spark_only_reason = "so the test says"
    lake.create(RANKS, "BIGINT", {"run_id": "new"})
    delta = DeltaTable(tmp_path / "ranks")
    assert sorted(fields_of(pa.schema(delta.schema().to_arrow()))) == sorted(RANKS.fields)
    stored = {key: rule for key, rule in delta.metadata().configuration.items() if "constraints" in key}
    assert stored.keys() == {f"delta.constraints.rule_{n}" for n in range(len(RANKS.rules))}
    assert changed_rules(RANKS, stored) == ([], {})
    version = delta.version()
    for again in (lake, Lake(spark, str(tmp_path))):
        again.create(RANKS, "BIGINT", {"run_id": "new"})
        assert DeltaTable(tmp_path / "ranks").version() == version  # nothing was left to do
    new = with_new_columns(ranked(spark, 2), RANKS).drop("run_id")
    lake.replace(RANKS, new.withColumn("truth", F.col("random").dropFields("k", "thresholds")), {"run_id": "new"})
    (read,) = lake.read(RANKS, "old").collect()
    assert (read["random"]["items"], read["random"]["probabilities"], read["truth"]) == ([1], None, None)
    assert lake.read(RANKS, "new").select("truth.above").first() == ([0],)
    rows = DeltaTable(tmp_path / "ranks").to_pyarrow_table().to_pylist()
    assert {(row["user_id"], row["truth"] is None) for row in rows} == {(1, True), (2, False)}


def test_ids_of_another_type_leave_an_older_table_as_it_was(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(spark, str(tmp_path))
    lake.create(older_ranks(), "BIGINT", {"run_id": "r"})
    version = DeltaTable(tmp_path / "ranks").version()
    with pytest.raises(DataError, match="ids are of one type in a lake"):
        lake.create(RANKS, "STRING", {"run_id": "r"})
    assert DeltaTable(tmp_path / "ranks").version() == version


def test_rows_are_given_by_name(tmp_path: Path) -> None:
    lake, where = Lake(NO_SPARK, str(tmp_path)), {"run_id": "r", "stage": "rank"}
    for row, message in (
        ({name: value for name, value in RUN.items() if name != "error"}, "a row of runs lacks error"),
        (RUN | {"colour": "red"}, "a row of runs has colour, not one of config, "),
        (RUN | {"run_id": "r"}, "a row of runs has run_id, "),
    ):
        with pytest.raises(ValueError, match=message):
            lake.put(RUNS, [RUN, row], where)
    assert list(tmp_path.iterdir()) == []
    lake.put(RUNS, [dict(reversed(RUN.items()))], where)
    assert lake.rows(RUNS, where) == [RUN | where]


def test_a_scheme_that_only_spark_may_know_is_no_missing_table(caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(NO_SPARK, "/nowhere")
    lake.root = "odd-store://bucket/lake"
    with caplog.at_level("INFO"), pytest.raises(AttributeError, match="NoneType"):  # Spark is asked, and there is none
        lake.partitions(RANKS, "r")
    assert "ranks` is read by Spark, since delta-rs cannot: Unknown scheme: odd-store" in caplog.text


def test_a_table_with_a_column_of_a_newer_version_is_refused(tmp_path: Path, spark: SparkSession) -> None:
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
