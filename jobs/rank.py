"""Rank every labelled pair of one run in the full score lists of its models.

    spark-submit jobs/rank.py --config conf/demo.yaml --run-id 2026-11-15

Reads scores, exposures, feedback, catalogue and, where there is one, the truth. Writes catalogue, ranks, quality, quarantine (replaces this
run_id only: safe to retry). Scores are read once; evaluating needs only what is written here.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from rich.console import Console

from eval_engine import labels as label_rules
from eval_engine.catalogue import n_items
from eval_engine.config import Input, Scores
from eval_engine.errors import DataError
from eval_engine.inputs import empty, read_input, read_table, same_id_types
from eval_engine.lake import Lake
from eval_engine.ranking import rank as ranking
from eval_engine.session import rows_per_batch
from eval_engine.tables import CATALOGUE, QUALITY, QUARANTINE, RANKS
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import stage

PAIR = {"user_id": "id", "item_id": "id", "value": "value"}
ITEM = {"item_id": "id", "position": "position"}
Quality = list[tuple[str, str, int, str, str]]  # table, rule, n_rows, example, action


class Checked(NamedTuple):
    """Inputs that can be ranked, and what was found wrong with them on the way."""

    catalogue: DataFrame
    labels: DataFrame  # one row per user
    users: DataFrame  # where each user's scores lie
    tables: list[ranking.ScoreTable]
    scored: ranking.Scored
    n_items: int
    quality: Quality


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Check, rank and write."""
    lake = Lake(spark, config.lake)
    run_id = {"run_id": config.run_id}
    with stage(lake, config, "rank", inputs_of(config) | scores_of(config)), ExitStack() as until_done:
        with spark_progress(spark, console, "Checking the inputs"):
            inputs = until_done.enter_context(checked(spark, config))
        with spark_progress(spark, console, f"Ranking {', '.join(inputs.scored.models)}"):
            lake.replace(CATALOGUE, inputs.catalogue.coalesce(1), run_id)
            written = lake.read(CATALOGUE, config.run_id).select(F.col("_metadata.file_path").alias("file")).distinct()
            lake.replace(RANKS, rank(spark, config, inputs, tuple(row["file"] for row in written.collect())), run_id)
        quality = inputs.quality + (_unranked(lake, config.run_id) if config.on_bad_rows == "quarantine" else [])
        lake.replace(QUALITY, spark.createDataFrame(quality, "table STRING, rule STRING, n_rows BIGINT, example STRING, action STRING"), run_id)
        kept_out = any(action == "quarantined" for *_, action in quality)
        rows = _quarantined(inputs.labels, lake, config.run_id) if kept_out else spark.createDataFrame([], "table STRING, rule STRING, row STRING")
        lake.replace(QUARANTINE, rows, run_id)
        for table, rule, n_rows, example, action in quality:
            console.print(f"[yellow]{table}: {n_rows:,} rows {rule}, {action}[/] [dim](first: {example})[/]", highlight=False)


@contextmanager
def checked(spark: SparkSession, config: RunConfig) -> Iterator[Checked]:
    """Reads everything but scores, and raises on what cannot be used; writes nothing. Labels are kept by Spark until the block ends."""
    inputs = inputs_of(config)
    catalogue = _read(spark, "catalogue", config.inputs.catalogue, ITEM)
    frames = {source: _read(spark, table, inputs[table], PAIR) for source, table in label_rules.TABLE.items() if table in inputs}
    tables = [_score_table(spark, name, table) for name, table in scores_of(config).items()]
    users = ranking.scored_users(tables)
    same_id_types({"catalogue": catalogue, "scores": users} | {label_rules.TABLE[source]: df for source, df in frames.items()})
    n = n_items(catalogue)
    if not n:
        raise empty("catalogue", config.inputs.catalogue.path)
    spark.conf.set(*rows_per_batch(n))
    labels = label_rules.user_labels(frames, catalogue, config.frame).persist()
    try:
        for source in label_rules.empty_sources(labels, frames):
            raise empty(label_rules.TABLE[source], inputs[label_rules.TABLE[source]].path)
        quality = _judge_labels(labels, config)
        scored = ranking.scored(users)
        if not scored.files:
            raise DataError(
                f"scores: {', '.join(table.path for table in config.score_tables())}: no rows. Check the paths and the job that writes the scores."
            )
        judged = ranking.judged_users(users, labels, scored.models)
        uncovered = _judge_coverage(judged, config)
        if uncovered:  # left out for every model, or the models would be compared on different users
            users = users.join(judged.select("user_id"), "user_id", "left_anti")
        quality += uncovered
        yield Checked(catalogue, labels, users, tables, scored, n, quality)
    finally:
        labels.unpersist()  # also after an error: a session that goes on would find the old labels under the same paths


def rank(spark: SparkSession, config: RunConfig, inputs: Checked, catalogue_files: tuple[str, ...]) -> DataFrame:
    """The ranks of every scored user."""
    columns = tuple(table.score_column for table in inputs.tables)
    settings = ranking.Ranking(inputs.n_items, config.top + 1, columns, catalogue_files, config.on_bad_rows)
    return ranking.rank(spark, inputs.users, inputs.labels, inputs.scored.files, settings)


def inputs_of(config: RunConfig) -> dict[str, Input]:
    """The input tables that the config has, by name."""
    return {name: where for name in ("catalogue", "exposures", "feedback", "truth") if (where := getattr(config.inputs, name))}


def scores_of(config: RunConfig) -> dict[str, Scores]:
    """The score tables, by what errors call them."""
    return {f"scores of {table.model or table.path}": table for table in config.score_tables()}


def _read(spark: SparkSession, table: str, where: Input, wanted: dict[str, str]) -> DataFrame:
    return read_input(spark, table, where.path, where.format, where.columns, wanted)


def _score_table(spark: SparkSession, name: str, where: Scores) -> ranking.ScoreTable:
    """A dense score table: user_id and a vector per user."""
    df = read_table(spark, name, where.path, where.format)
    user, vector = where.columns.get("user_id", "user_id"), where.columns.get("scores", "scores")
    for needed in (user, vector) if where.model else (user, vector, "model"):
        if needed not in df.columns:
            raise DataError(
                f"{name}: column {needed!r} is missing; found {', '.join(df.columns)}. A dense score table has user_id, scores (float32 in catalogue order) "
                "and, if the config gives no model name, model: map them with columns, or give model."
            )
    kind = df.schema[vector].dataType
    if not isinstance(kind, T.BinaryType) and kind != T.ArrayType(T.FloatType()):
        raise DataError(
            f"{name}: column {vector!r} has type {kind.simpleString().upper()}, but BINARY (float32 little-endian) or ARRAY<FLOAT> is needed."
        )
    return ranking.ScoreTable(df, user, vector, where.model, name)


def _judge_labels(labels: DataFrame, config: RunConfig) -> Quality:
    """What the label tables break: an error, or counted."""
    quality: Quality = []
    for row in sorted(label_rules.broken_rules(labels).collect()):
        counted = row["rule"] == label_rules.OUTSIDE_FRAME
        if config.on_bad_rows == "error" and not counted:
            raise label_rules.refuse(*row)
        quality.append(
            (label_rules.TABLE[row["source"]], row["rule"], row["n_rows"], row["example"], "not candidates, left out" if counted else "quarantined")
        )
    return quality


def _judge_coverage(judged: DataFrame, config: RunConfig) -> Quality:
    """How users of scores and labels fit together: users without scores may be left out, copies never."""
    quality: Quality = []
    for row in sorted(ranking.coverage_problems(judged).collect()):
        if config.on_bad_rows == "error" or row["rule"] != "not_scored":
            raise ranking.refuse(*row)
        quality.append(("scores", row["rule"], row["n_rows"], row["example"], "left out"))
    return quality


def _unranked(lake: Lake, run_id: str) -> Quality:
    """Score vectors that could not be ranked, as the ranks table tells."""
    bad = lake.read(RANKS, run_id).where("problem IS NOT NULL")
    example = F.concat(F.lit("model="), "model", F.lit(", user_id="), F.col("user_id").cast("string"), F.lit(": "), "problem")
    found = bad.agg(F.count(F.lit(1)).alias("n_rows"), F.min(example).alias("example")).first()
    return [("scores", "bad_vector", found["n_rows"], found["example"], "quarantined")] if found and found["n_rows"] else []


def _quarantined(labels: DataFrame, lake: Lake, run_id: str) -> DataFrame:
    """The rows that were kept out, as JSON."""
    table = F.create_map(*[F.lit(x) for entry in label_rules.TABLE.items() for x in entry])[F.col("source")]
    rows = label_rules.broken_pairs(labels).where(F.col("rule") != label_rules.OUTSIDE_FRAME)
    pairs = rows.select(table.alias("table"), "rule", F.to_json(F.struct("user_id", "item_id", "value"), {"ignoreNullFields": "false"}).alias("row"))
    bad = lake.read(RANKS, run_id).where("problem IS NOT NULL")
    vectors = bad.select(
        F.lit("scores").alias("table"), F.lit("bad_vector").alias("rule"), F.to_json(F.struct("model", "user_id", "problem")).alias("row")
    )
    return pairs.unionByName(vectors)


if __name__ == "__main__":
    from jobs.cli import run_stage

    run_stage("rank", run)
