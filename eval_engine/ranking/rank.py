"""Ranks every labelled pair in the full score lists of its models: `above`, `tied`, `candidates`, and the top of each list.

Spark is asked where each user's vector lies (user_id and file position only, no score), joins the labels to that, and hands each task the
users of the row groups it reads itself. Scores are read once and never shuffled; one job ranks all models.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from eval_engine.errors import DataError
from eval_engine.labels import SOURCES
from eval_engine.ranking.rank_users import Ranking, rank_users
from eval_engine.ranking.splits import plan_splits
from eval_engine.tables import RANKS


class ScoreTable(NamedTuple):
    """A score table as read by Spark, and its column of vectors."""

    df: DataFrame
    user_column: str
    score_column: str
    model: str | None  # None: the column `model` of the table tells
    name: str  # what errors call it


def scored_users(tables: list[ScoreTable]) -> DataFrame:
    """model, user_id, input, file, row_index of every row of every score table; reads no score."""
    parts = []
    for number, table in enumerate(tables):
        model = F.lit(table.model) if table.model else F.col("model")
        kind = table.df.schema[table.user_column].dataType
        user = F.col(table.user_column) if isinstance(kind, T.StringType) else F.col(table.user_column).cast("bigint")
        parts.append(
            table.df.select(
                model.alias("model"),
                user.alias("user_id"),
                F.lit(number).alias("input"),
                F.col("_metadata.file_path").alias("file"),
                F.col("_metadata.row_index").alias("row_index"),
            )
        )
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part)
    return together


class Scored(NamedTuple):
    """The files that hold live score rows, each with the number of its input, and the models."""

    files: list[tuple[str, int]]
    models: list[str]


def scored(users: DataFrame) -> Scored:
    """Files and models of the scored users; what comes to the driver grows with neither users nor items."""
    rows = users.groupBy("file", "input", "model").agg(F.count(F.lit(1))).collect()
    return Scored(sorted({(r["file"], r["input"]) for r in rows}), sorted({r["model"] for r in rows if r["model"] is not None}))


def judged_users(users: DataFrame, labels: DataFrame, models: list[str]) -> DataFrame:
    """user_id, rule, told of each user without id, scored twice by a model, or labelled but not scored by every model."""
    labelled = labels.where(" OR ".join(f"size({source}.items) > 0" for source in SOURCES)).select("user_id", F.lit(True).alias("labelled"))
    scored = users.groupBy("user_id").agg(F.collect_list("model").alias("models"))
    joined = scored.join(labelled, "user_id", "full")
    known = F.array_distinct(F.coalesce("models", F.array().cast("array<string>")))
    missing = F.array_except(F.array(*[F.lit(m) for m in models]), known)
    rule = F.coalesce(
        F.when(F.col("user_id").isNull(), F.lit("null_key")),
        F.when(F.size("models") > F.size(known), F.lit("duplicate_key")),
        F.when(F.col("labelled") & (F.size(missing) > 0), F.lit("not_scored")),
    )
    told = F.concat(F.lit("user_id="), F.coalesce(F.col("user_id").cast("string"), F.lit("NULL")))
    told = F.when(rule == "not_scored", F.concat(told, F.lit(", model="), missing[0])).otherwise(told)
    return joined.select("user_id", rule.alias("rule"), told.alias("told")).where("rule IS NOT NULL")


def coverage_problems(judged: DataFrame) -> DataFrame:
    """rule, n_rows, example: one row per rule that some user breaks."""
    return judged.groupBy("rule").agg(F.count(F.lit(1)).alias("n_rows"), F.min("told").alias("example"))


REMEDY = {
    "null_key": "a score row needs its user_id. Fix the job that writes the scores",
    "duplicate_key": "a model scores a user in one row. Remove the copies",
    "not_scored": "a user with labels needs scores of every model, or the models are compared on different users. Score these users",
}


def refuse(rule: str, n_rows: int, example: str) -> DataError:
    """The error of a rule that the score tables break."""
    hint = ", or set on_bad_rows: quarantine to leave them out" if rule == "not_scored" else ""
    return DataError(
        f"scores: {n_rows:,} {'user breaks' if n_rows == 1 else 'users break'} the rule {rule} (first: {example}): {REMEDY[rule]}{hint}."
    )


def rank(spark: SparkSession, users: DataFrame, labels: DataFrame, files: list[tuple[str, int]], ranking: Ranking) -> DataFrame:
    """The ranks table's rows of every scored user, but for run_id."""
    at_least = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    splits = plan_splits([(file, ranking.columns[number]) for file, number in files], at_least)
    where = spark.createDataFrame(splits, "file STRING, first_row BIGINT, end_row BIGINT, n_bytes BIGINT, task INT").drop("n_bytes")
    inside = (users["file"] == where["file"]) & (users["row_index"] >= where["first_row"]) & (users["row_index"] < where["end_row"])
    placed = users.join(F.broadcast(where), inside).select(users["*"], "task")
    plan = (
        placed.join(labels, "user_id", "left")
        .repartitionById(1 + max(s.task for s in splits), "task")
        .sortWithinPartitions("file", "row_index")
        .select("model", "user_id", "input", "file", "row_index", *SOURCES, "excluded")
    )
    id_type = dict(users.dtypes)["user_id"].upper()
    return plan.mapInArrow(rank_users(ranking), RANKS.columns(id_type).removeprefix("run_id STRING NOT NULL, ").replace(" NOT NULL", ""))
