"""Written tables, by whichever way they were written: rules, small rows, and what two ways read of them."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from eval_engine.columns import ID, INT, STRING, Column, List, Map, Struct
from eval_engine.errors import DataError, LakeError
from eval_engine.lake.delta_table import changed_rules, fields_of
from eval_engine.lake.lake import Lake
from eval_engine.tables import (
    AGREEMENT,
    BQS,
    DESIGN_STUDY,
    ESTIMATES,
    EXPOSURE_PLAN,
    GATES,
    POPULARITY,
    POPULARITY_CLASSES,
    PROPENSITIES,
    PROPENSITY_CALIBRATION,
    PROPENSITY_FITS,
    PROPENSITY_USERS,
    QUALITY,
    RANKS,
    REVERSALS,
    RUNS,
    STRATA,
    STUDY_ESTIMATES,
    TABLES,
    TEST_SET_ITEMS,
    TEST_SET_PAIRS,
    TEST_SET_USERS,
    TEST_SETS,
    TRIALS,
    USER_METRICS,
    Table,
)

OTHERS = (
    TRIALS,
    AGREEMENT,
    STUDY_ESTIMATES,
    USER_METRICS,
    PROPENSITIES,
    PROPENSITY_USERS,
    PROPENSITY_FITS,
    PROPENSITY_CALIBRATION,
    REVERSALS,
    STRATA,
    TEST_SETS,
    TEST_SET_USERS,
    TEST_SET_ITEMS,
    TEST_SET_PAIRS,
    GATES,
    POPULARITY,
    POPULARITY_CLASSES,
    BQS,
    EXPOSURE_PLAN,
    DESIGN_STUDY,
)  # tests/jobs/: test_popularity.py, test_bqs.py, test_design.py, test_design_study.py, test_train.py, test_study.py, test_readers.py, test_propensity.py, test_test_sets.py, test_gate.py
EVALUATED = [table for table in TABLES if table.rules and table not in OTHERS]
NO_SPARK: Any = None
RUN = dict.fromkeys(RUNS.names[2:]) | {"status": "done", "process": "p", "config": "{}", "versions": {}, "outputs": {}}


@pytest.mark.parametrize("table", EVALUATED, ids=lambda table: table.name)
def test_rows_keep_the_rules_of_their_table(finished_run: Any, spark: SparkSession, table: Table) -> None:
    rows = Lake(spark, finished_run.config["lake"]).read(table, "small")
    broken = " OR ".join(f"NOT coalesce(({rule}), false)" for rule in table.rules)
    n_rows, n_broken = rows.selectExpr("count(*)", f"count_if({broken})").first()
    assert table == QUALITY or n_rows > 0
    assert n_broken == 0  # Delta does not check files that are committed by name


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


@pytest.mark.parametrize(("id_type", "ids"), [("BIGINT", [7, 8]), ("STRING", ["x", "y"])])
def test_files_of_a_table_are_read_as_delta_reads_them(
    tmp_path: Path, spark: SparkSession, id_type: str, ids: list[Any]
) -> None:
    lake = Lake(spark, str(tmp_path))
    for run_id, count in (("day-1", 3), ("day-1", 5), ("a:2+b", 9)):  # the second takes the place of the first
        rows = [{"item_id": one, "count": count, "class": "low"} for one in ids]
        lake.put(POPULARITY, rows, {"run_id": run_id}, id_type)
    for run_id in ("day-1", "a:2+b", "day-3"):
        found, expected = lake.read_files(POPULARITY, run_id), lake.read(POPULARITY, run_id).drop("run_id")
        assert found.dtypes == expected.dtypes
        assert sorted(found.collect()) == sorted(expected.collect())
    assert sorted(map(tuple, lake.read_files(POPULARITY, "day-1").collect())) == [(one, 5, "low") for one in ids]
    assert lake.id_type(POPULARITY, "item_id", "day-1") == id_type
    with pytest.raises(LakeError, match=r"There is no table .*ranks` yet"):
        lake.id_type(RANKS, "user_id", "day-1")


def test_processes_that_read_a_table_end_as_they_should(finished_run: Any) -> None:
    read = (
        "from eval_engine.lake.delta_table import rows_of; from eval_engine.tables import RUNS; "
        f"print(len(rows_of({finished_run.config['lake'] + '/runs'!r}, RUNS, {{'run_id': 'small'}})))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", read], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(12)
    ]
    ended = [(*process.communicate(), process.returncode) for process in started]
    assert {(said, status) for said, _, status in ended} == {(b"2\n", 0)}, ended


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


def contract(rules: tuple[str, ...], *new: str) -> Table:
    """A table of lists by user; new: names of the columns and fields that the older version does not have."""
    labels = (Column("items", List(ID), "Items."), Column("above", List(INT), "Ranks."), Column("n", INT, "Number."))
    inside = Struct(*(field for field in labels if field.name == "items" or f"random.{field.name}" in new))
    columns = (
        Column("run_id", STRING, "Run.", nullable=False),
        Column("user_id", ID, "User.", nullable=False),
        Column("random", inside, "Lists."),
        Column("slice", STRING, "Slice.", nullable=False),
        Column("wins", Map(STRING, INT), "Wins."),
        Column("truth", Struct(*labels), "Lists."),
    )
    kept = tuple(column for column in columns if column.name not in ("slice", "wins", "truth") or column.name in new)
    return Table("lists", "Lists.", kept, ("run_id", "user_id"), rules)


OLDER = contract(("user_id >= 0", "size(random.items) > 0", "user_id < 9"))
NEWER = contract(
    ("user_id >= 0", "truth IS NULL OR size(truth.items) = truth.n"),
    "random.above",
    "random.n",
    "slice",
    "wins",
    "truth",
)


@pytest.mark.parametrize("by_spark", [False, True])
def test_an_older_table_gets_columns_structs_their_fields_and_rules(
    tmp_path: Path, spark: SparkSession, by_spark: bool
) -> None:
    lake = Lake(spark, str(tmp_path))
    row = {"user_id": 1, "random": {"items": [7]}}
    lake.put(OLDER, [row], {"run_id": "old"})
    older = {"run_id": "old", "user_id": 1, "random": Row(items=[7], above=None, n=None)}
    older |= {"slice": None, "wins": None, "truth": None}
    assert lake.read(NEWER, "old").first().asDict() == older  # as the older version left it
    if by_spark:
        lake.spark_only_reason = "so the test says"
    lake.create(NEWER, "BIGINT", {"run_id": "new"})
    delta = DeltaTable(tmp_path / "lists")
    assert sorted(fields_of(pa.schema(delta.schema().to_arrow()))) == sorted(NEWER.fields)
    stored = {key: rule for key, rule in delta.metadata().configuration.items() if "constraints" in key}
    assert stored.keys() == {"delta.constraints.rule_0", "delta.constraints.rule_1"}
    assert changed_rules(NEWER, stored) == ([], {})
    for again in (lake, Lake(spark, str(tmp_path))):
        again.create(NEWER, "BIGINT", {"run_id": "new"})
        assert DeltaTable(tmp_path / "lists").version() == delta.version()  # nothing was left to do
    full = {"items": [7], "above": [2], "n": 1}
    lake.put(
        NEWER, [{"user_id": 2, "random": full, "slice": "all", "wins": {"b": 3}, "truth": full}], {"run_id": "new"}
    )
    assert lake.read(NEWER, "old").first().asDict() == older
    assert lake.read(NEWER, "new").select("truth.above", "random.n", "wins").first() == ([2], 1, {"b": 3})
    rows = DeltaTable(tmp_path / "lists").to_pyarrow_table().to_pylist()
    assert {(row["user_id"], row["random"]["n"], row["truth"] is None) for row in rows} == {
        (1, None, True),
        (2, 1, False),
    }
    with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT"):  # by Spark's own writer, the new rule holds
        lake.replace(
            NEWER, lake.read(NEWER, "new").withColumn("truth", F.col("truth").withField("n", F.lit(5))), {"run_id": "x"}
        )


def test_ids_of_another_type_leave_an_older_table_as_it_was(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(spark, str(tmp_path))
    lake.create(OLDER, "BIGINT", {"run_id": "r"})
    version = DeltaTable(tmp_path / "lists").version()
    with pytest.raises(DataError, match="ids are of one type in a lake"):
        lake.create(NEWER, "STRING", {"run_id": "r"})
    assert DeltaTable(tmp_path / "lists").version() == version


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
