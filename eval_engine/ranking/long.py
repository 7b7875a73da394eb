"""Ranks every labelled pair in long score tables: (user, item, score) rows, in any order, in any number of files.

Workers read the user column first and tell where each user's rows lie. A user whose rows lie together (a table sorted or clustered by user) is ranked
by the one task that reads them, and every score is read once. The rows of a user that lie apart are ranked where they lie, in two passes
(ranking/spread.py). Scores are never shuffled.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.judged_labels import SOURCES
from eval_engine.ranking.dense import Plan, where
from eval_engine.ranking.dense_worker import Files
from eval_engine.ranking.long_worker import index_rows, rank_gathered
from eval_engine.ranking.settings import Ranking
from eval_engine.ranking.splits import Split, plan_splits

ROW_BYTES = 64  # what a user, an item and a score take while they are ranked: a task gets 8 M rows, and stays under 1 GB
INDEX = "model STRING, user_id {id}, file INT, task INT, first_row BIGINT, last_row BIGINT, n_rows BIGINT"


class Index(NamedTuple):
    """Where the rows of long tables lie."""

    files: Files
    splits: list[Split]
    rows: DataFrame  # INDEX: a row per user and part of a file
    users: DataFrame  # model, user_id, input, file, first_row, last_row, n_rows, gathered: a row per user


def long_index(spark: SparkSession, files: Files, id_type: str) -> Index:
    """Reads the user columns."""
    at_least = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    splits = plan_splits([(path, source.score) for path, source in files], at_least, ROW_BYTES)
    n_tasks = 1 + max((s.task for s in splits), default=0)
    work = where(spark, splits, files).select(F.col("number").alias("file"), "first_row", "end_row", "task").repartitionById(n_tasks, "task")
    rows = work.mapInArrow(index_rows(files), INDEX.format(id=id_type)).persist()
    table = F.element_at(F.lit([source.number for _, source in files]), F.col("file") + 1).alias("input")
    ends = [F.min("file").alias("file"), F.max("file").alias("last_file"), F.min("first_row").alias("first_row"), F.max("last_row").alias("last_row")]
    users = rows.groupBy("model", "user_id", table).agg(*ends, F.sum("n_rows").alias("n_rows"))
    together = (F.col("file") == F.col("last_file")) & (F.col("last_row") - F.col("first_row") + 1 == F.col("n_rows"))
    return Index(files, splits, rows, users.withColumn("gathered", together).drop("last_file"))


def gathered_plan(spark: SparkSession, users: DataFrame, labels: DataFrame, index: Index, ranking: Ranking) -> Plan:
    """What to rank where, of users whose rows lie together."""
    places = where(spark, index.splits, index.files)
    inside = (F.col("file") == F.col("number")) & (F.col("first_row") >= F.col("from_row")) & (F.col("first_row") < F.col("end_row"))
    placed = users.join(F.broadcast(places.select("number", F.col("first_row").alias("from_row"), "end_row", "task")), inside)
    rows = (
        placed.select("model", "user_id", "file", "first_row", "last_row", "task")
        .join(labels.select("user_id", *SOURCES, "excluded"), "user_id", "left")
        .repartitionById(1 + max(s.task for s in index.splits), "task")
        .sortWithinPartitions("file", "first_row")
        .select("model", "user_id", "file", "first_row", "last_row", *SOURCES, "excluded")
    )
    return Plan(rows, rank_gathered(ranking, index.files))
