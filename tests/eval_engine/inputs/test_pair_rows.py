"""Pairs that workers read from the files themselves are those that Spark reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from eval_engine.config import Input
from eval_engine.inputs.pair_rows import PAIR, PairFiles, PairRows, pair_files, spans_of

DDL = "user_id BIGINT, item_id BIGINT"
Pairs = list[tuple[Any, Any]]


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def collected(rows: PairRows, ddl: str = DDL, one_of: int = 1) -> Pairs:
    return sorted((row[0], row[1]) for row in rows.mapped(same, ddl, one_of).collect())


def written(folder: Path, table: pa.Table, n_files: int, group: int) -> None:
    folder.mkdir(parents=True)
    step = -(-table.num_rows // n_files)
    for n in range(n_files):
        pq.write_table(table.slice(n * step, step), folder / f"{n}.parquet", row_group_size=group)


@pytest.fixture
def table() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "value": rng.random(1000),
            "who": rng.integers(0, 90, 1000).astype(np.int32),
            "item_id": rng.integers(0, 9, 1000),
        }
    )


@pytest.mark.parametrize(("n_files", "group", "n_tasks"), [(1, 1000, 1), (3, 7, 16)])
@pytest.mark.parametrize("one_of", [1, 3])
def test_every_row_once_under_our_names(
    tmp_path: Path, spark: SparkSession, table: pa.Table, n_files: int, group: int, n_tasks: int, one_of: int
) -> None:
    written(tmp_path / "pairs", table, n_files, group)
    where = Input.model_validate({"path": str(tmp_path / "pairs"), "columns": {"user_id": "who"}})
    df = spark.read.parquet(where.path).select(F.col("who").cast("bigint").alias("user_id"), "item_id")
    files = pair_files(spark, "heldout", where)
    assert files == PairFiles(tuple(sorted(map(str, (tmp_path / "pairs").glob("*")))), ("who", "item_id"), "heldout")
    assert len({span.task for span in spans_of(files)}) == n_tasks
    mine = collected(PairRows(df, files), one_of=one_of)
    assert mine == collected(PairRows(df), one_of=one_of)
    assert len(mine) == 1000 if one_of == 1 else 0 < len(mine) < 1000


def test_text_ids(tmp_path: Path, spark: SparkSession) -> None:
    table = pa.table({"user_id": ["b", "a", "b", "é"], "item_id": pa.array(["x", "y", "z", ""], pa.large_string())})
    written(tmp_path / "pairs", table, 1, 2)
    where = Input.model_validate({"path": str(tmp_path / "pairs")})
    files, df = pair_files(spark, "heldout", where), spark.read.parquet(where.path).select(*PAIR)
    ddl = "user_id STRING, item_id STRING"
    assert collected(PairRows(df, files), ddl) == [("a", "y"), ("b", "x"), ("b", "z"), ("é", "")]
    assert collected(PairRows(df, files), ddl, one_of=2) == collected(PairRows(df), ddl, one_of=2)


def test_what_only_spark_can_read(tmp_path: Path, spark: SparkSession, table: pa.Table) -> None:
    (tmp_path / "pairs.csv").write_text("user_id,item_id\n1,2\n")
    assert pair_files(spark, "heldout", Input.model_validate({"path": str(tmp_path / "pairs.csv")})) is None
    write_deltalake(tmp_path / "parts", table, partition_by=["item_id"])
    where = Input.model_validate({"path": str(tmp_path / "parts"), "columns": {"user_id": "who"}})
    assert pair_files(spark, "heldout", where) is None  # items are in the names of folders
    write_deltalake(tmp_path / "whole", table)
    where = Input.model_validate({"path": str(tmp_path / "whole"), "columns": {"user_id": "who"}})
    assert pair_files(spark, "heldout", where) is not None


def test_a_row_without_a_user_is_an_error(tmp_path: Path, spark: SparkSession) -> None:
    written(tmp_path / "pairs", pa.table({"user_id": [1, None], "item_id": [1, 2]}), 1, 9)
    where = Input.model_validate({"path": str(tmp_path / "pairs")})
    rows = PairRows(spark.read.parquet(where.path), pair_files(spark, "heldout", where))
    with pytest.raises(PySparkException, match=r"heldout: .*0.parquet has a row without user_id or item_id"):
        collected(rows)
