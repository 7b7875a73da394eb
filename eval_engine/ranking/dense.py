"""Ranks every labelled pair in dense score tables: a row per user, the vector of all its scores in it.

Spark is asked where each user's vector lies (user_id and file position only, no score), joins the labels to that, and hands each task the
users of the row groups it reads itself. Scores are read once and never shuffled; one job ranks all models.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from eval_engine.errors import DataError
from eval_engine.judged_labels import SOURCES
from eval_engine.ranking.dense_worker import Files, rank_vectors
from eval_engine.ranking.part_files import Worker
from eval_engine.ranking.settings import Ranking, Source
from eval_engine.ranking.splits import Split, plan_splits


class Plan(NamedTuple):
    """Rows for tasks, in the order a task works them off, and the worker function for mapInArrow."""

    rows: DataFrame
    worker: Worker


def scored_users(tables: list[tuple[DataFrame, Source]]) -> DataFrame:
    """model, user_id, input, file, row_index of every row of every score table; reads no score."""
    parts = []
    for df, source in tables:
        parts.append(
            df.select(
                (F.lit(source.model) if source.model else F.col("model")).alias("model"),
                user_id(df, source).alias("user_id"),
                F.lit(source.number).alias("input"),
                F.col("_metadata.file_path").alias("file"),
                F.col("_metadata.row_index").alias("row_index"),
            )
        )
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part)
    return together


def user_id(df: DataFrame, source: Source) -> Column:
    """The table's user ids, BIGINT or STRING."""
    column = F.col(f"`{source.user}`")
    return column if isinstance(df.schema[source.user].dataType, T.StringType) else column.cast("bigint")


def scored_files(users: DataFrame) -> tuple[list[tuple[str, int]], dict[str, int]]:
    """(file, input) of each file that holds live rows, and the input of each model; what comes to the driver grows with neither users nor items."""
    rows = users.groupBy("file", "input", "model").count().collect()
    return sorted({(r["file"], r["input"]) for r in rows}), models_of(rows)


def models_of(rows: list[Row]) -> dict[str, int]:
    """The input of each model, of rows with model, input and count."""
    if nobody := sum(row["count"] for row in rows if row["model"] is None):
        raise DataError(f"scores: {nobody:,} rows or users have model=NULL. A score row needs its model: fix the job that writes the scores.")
    return {row["model"]: row["input"] for row in rows}


def dense_plan(spark: SparkSession, users: DataFrame, labels: DataFrame, files: Files, ranking: Ranking) -> Plan:
    """What to rank where; users as scored_users has them."""
    at_least = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    splits = plan_splits([(path, source.score) for path, source in files], at_least)
    placed = users.join(F.broadcast(where(spark, splits, files)), _inside(users)).select("model", "user_id", "number", "row_index", "task")
    rows = (
        placed.join(labels.select("user_id", *SOURCES, "excluded"), "user_id", "left")
        .repartitionById(1 + max(s.task for s in splits), "task")
        .sortWithinPartitions("number", "row_index")
        .select("model", "user_id", F.col("number").alias("file"), "row_index", *SOURCES, "excluded")
    )
    return Plan(rows, rank_vectors(ranking, files))


def where(spark: SparkSession, splits: list[Split], files: Files) -> DataFrame:
    """path, number, first_row, end_row, task of each split."""
    numbers = {path: number for number, (path, _) in enumerate(files)}
    rows = [(split.file, numbers[split.file], split.first_row, split.end_row, split.task) for split in splits]
    return spark.createDataFrame(rows, "path STRING, number INT, first_row BIGINT, end_row BIGINT, task INT")


def _inside(users: DataFrame) -> Column:
    return (users["file"] == F.col("path")) & (users["row_index"] >= F.col("first_row")) & (users["row_index"] < F.col("end_row"))
