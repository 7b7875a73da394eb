"""Rank every labelled pair of one run in the full score lists of its models.

    spark-submit jobs/rank.py --config conf/demo.yaml --run-id 2026-11-15

Reads scores, exposures, feedback, catalogue and, where there is one, the truth. Writes catalogue, ranks, quality, quarantine (replaces this
run_id only: safe to retry). Scores are read once (twice where a
user's rows are spread over files); evaluating needs only what is written here.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from eval_engine import labels as user_labels
from eval_engine.catalogue import n_items
from eval_engine.config import Input, Scores
from eval_engine.delta_commit import WrittenFile
from eval_engine.errors import DataError
from eval_engine.inputs import empty, read_input, same_id_types
from eval_engine.judged_labels import OUTSIDE_FRAME, TABLE, refuse
from eval_engine.lake import Lake
from eval_engine.ranking import coverage
from eval_engine.ranking import rank as ranking
from eval_engine.ranking.dense import Plan, user_id
from eval_engine.ranking.part_files import Part, Target, sweep
from eval_engine.ranking.settings import Ranking
from eval_engine.ranking.thresholds import thresholds_sql
from eval_engine.session import few_scan_tasks, planned_once, rows_per_batch
from eval_engine.tables import CATALOGUE, QUALITY, QUARANTINE, RANKS
from jobs.fingerprint import digest, ranked_from
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.score_tables import ScoreTable, forget_copy, score_table
from jobs.stage import stage, stage_status

PAIR = {"user_id": "id", "item_id": "id", "value": "value"}
ITEM = {"item_id": "id", "position": "position"}
Quality = list[tuple[str, str, int, str, str]]  # table, rule, n_rows, example, action


class Ranked(NamedTuple):
    """What the lake holds already of this run."""

    models: tuple[str, ...]  # ranked from the same inputs, or by the torch job: kept
    dropped: tuple[str, ...]  # in the lake, but no longer in the config, or from other inputs
    inputs: dict[int, str]  # of each score table that is still to be ranked, by number: its fingerprint


class Checked(NamedTuple):
    """Inputs that can be ranked, and what was found wrong with them on the way."""

    catalogue: DataFrame
    labels: DataFrame  # one row per user
    scored: ranking.Scored
    tables: list[ScoreTable]
    n_items: int
    id_type: str
    quality: Quality


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Check, rank and write."""
    lake = Lake(spark, config.lake)
    run_id = {"run_id": config.run_id}
    done_before = stage_status(lake, config.run_id, "rank") == "done"
    with stage(lake, config, "rank", inputs_of(config) | scores_of(config)), planned_once(spark), ExitStack() as until_done:
        ranked = already_ranked(spark, config, lake)
        if done_before and not ranked.inputs and not ranked.dropped and not config.fused_models():
            console.print(f"[green]✓[/] {', '.join(sorted(ranked.models))} already ranked from the same inputs")
            return
        with spark_progress(spark, console, "Checking the inputs"):
            inputs = until_done.enter_context(checked(spark, config, ranked))
        for table in inputs.tables:
            console.print(f"[dim]{table.source.name}: {table.path_taken}[/]", highlight=False)
        lake.replace(CATALOGUE, inputs.catalogue.coalesce(1), run_id)
        written = lake.read(CATALOGUE, config.run_id).select(F.col("_metadata.file_path").alias("file")).distinct().collect()
        settings = Ranking(inputs.n_items, config.top + 1, tuple(row["file"] for row in written), config.on_bad_rows)
        if config.fused_models():
            fused = lake.read(RANKS, config.run_id).where(F.col("model").isin(*config.fused_models()))
            coverage.refuse_stale(fused, inputs.labels, settings)
        if inputs.scored.models:
            with spark_progress(spark, console, f"Ranking {', '.join(sorted(inputs.scored.models))}"), few_scan_tasks(spark):
                made = ranking.plans(spark, inputs.scored, inputs.labels, settings)
                by_model = {model: ranked.inputs[number] for model, number in inputs.scored.models.items()}
                write_ranks(lake, config.run_id, inputs.id_type, made, by_model, ranked.models)
        elif ranked.dropped:
            lake.remove(RANKS, run_id, ranked.models)
        if lake.in_catalog:
            lake.view("thresholds", thresholds_sql(lake.name(RANKS), {metric.k for metric in config.evaluate.metrics}))
        quality = inputs.quality + (_unranked(lake, config.run_id) if config.on_bad_rows == "quarantine" else [])
        lake.replace(QUALITY, spark.createDataFrame(quality, "table STRING, rule STRING, n_rows BIGINT, example STRING, action STRING"), run_id)
        kept_out = any(action == "quarantined" for *_, action in quality)
        rows = _quarantined(inputs.labels, lake, config.run_id) if kept_out else spark.createDataFrame([], "table STRING, rule STRING, row STRING")
        lake.replace(QUARANTINE, rows, run_id)
        for table_name, rule, n_rows, example, action in quality:
            console.print(f"[yellow]{table_name}: {n_rows:,} rows {rule}, {action}[/] [dim](first: {example})[/]", highlight=False)


def already_ranked(spark: SparkSession, config: RunConfig, lake: Lake) -> Ranked:
    """Which models need not be ranked, because the lake has them from the same inputs, and which tables do."""
    tables = list(scores_of(config).values())
    settings = [config.frame, config.top, config.on_bad_rows, sorted(config.fused_models())]
    inputs = ranked_from(spark, tables, inputs_of(config).values(), settings)
    if config.on_bad_rows == "quarantine":  # users that one model did not score are left out for all: each depends on all
        inputs = [digest(own, inputs) for own in inputs]
    have = (
        {row["model"]: row["inputs"] for row in lake.read(RANKS, config.run_id).select("model", "inputs").distinct().collect()}
        if lake.has(RANKS)
        else {}
    )
    missing = [name for name in config.fused_models() if name not in have]
    if missing:
        raise DataError(
            f"ranks: model {missing[0]} has output: ranks, but the lake has no ranks of it for run {config.run_id}. Run jobs/train.py first."
        )
    kept = tuple(sorted(model for model, was in have.items() if was in inputs or model in config.fused_models()))
    return Ranked(kept, tuple(set(have) - set(kept)), {number: own for number, own in enumerate(inputs) if own not in have.values()})


@contextmanager
def checked(spark: SparkSession, config: RunConfig, ranked: Ranked) -> Iterator[Checked]:
    """Reads everything but scores, and raises on what cannot be used; writes nothing but copies of tables that only Spark can read. Labels are kept by
    Spark until the block ends."""
    inputs = inputs_of(config)
    catalogue = _read(spark, "catalogue", config.inputs.catalogue, ITEM)
    frames = {source: _read(spark, table, inputs[table], PAIR) for source, table in TABLE.items() if table in inputs}
    staging = _staging(config)
    with ExitStack() as until_done:
        if staging:
            until_done.callback(forget_copy, staging)
        tables = [
            score_table(spark, number, name, where, staging)
            for number, (name, where) in enumerate(scores_of(config).items())
            if number in ranked.inputs
        ]
        ids = {table.source.name: _ids(table) for table in tables}
        id_type = same_id_types({"catalogue": catalogue} | {TABLE[source]: df for source, df in frames.items()} | ids)
        n = n_items(catalogue)
        if not n:
            raise empty("catalogue", config.inputs.catalogue.path)
        spark.conf.set(*rows_per_batch(n))
        labels = user_labels.user_labels(frames, catalogue, config.frame).persist()
        until_done.callback(labels.unpersist)  # also after an error: a session that goes on would find the old labels under the same paths
        without_rows, most = user_labels.label_counts(labels, frames)
        for source in without_rows:
            raise empty(TABLE[source], inputs[TABLE[source]].path)
        spark.conf.set(*rows_per_batch(most))
        quality = _judge_labels(labels, config)
        with few_scan_tasks(spark):
            scored = ranking.scored(spark, [ranking.Table(table.df, table.source, table.files) for table in tables], id_type)
        if scored.rows is not None:
            until_done.callback(scored.rows.rows.unpersist)
        if tables and scored.users is None:
            raise DataError(
                f"scores: {', '.join(table.path for table in config.score_tables())}: no rows. Check the paths and the job that writes the scores."
            )
        users = [scored.users] if scored.users is not None else []
        if ranked.models:
            kept = Lake(spark, config.lake).read(RANKS, config.run_id).where(F.col("model").isin(*ranked.models))
            users.append(kept.select("model", "user_id"))
        judged = coverage.judged_users(reduce(DataFrame.unionByName, users), labels, sorted({*scored.models, *ranked.models}))
        uncovered = _judge_coverage(judged, config)
        if uncovered:  # left out for every model, or the models would be compared on different users
            scored = ranking.without(scored, judged.select("user_id"))
        yield Checked(catalogue, labels, scored, tables, n, id_type, quality + uncovered)


def write_ranks(lake: Lake, run_id: str, id_type: str, made: list[Plan], inputs: dict[str, str], kept: tuple[str, ...]) -> None:
    """Rank by these plans, and put the ranks in place of all of the run but the kept models'; inputs: what each model is ranked from."""
    where = {"run_id": run_id}
    if lake.not_for_workers():
        told = F.create_map(*[F.lit(x) for entry in inputs.items() for x in entry])[F.col("model")]
        lake.replace(RANKS, ranking.ranked_rows(made, id_type).withColumn("inputs", told), where, kept)
        return
    lake.create(RANKS, id_type, where)
    target = Target(f"{lake.root}/{RANKS.name}", run_id, uuid4().hex)
    committed: list[Part] = []
    try:
        parts = [Part(*row) for row in ranking.written_files(made, target).collect()]
        files = [WrittenFile(part.path, part.n_bytes, where | {"model": part.model, "inputs": inputs[part.model]}, part.stats) for part in parts]
        lake.commit(RANKS, files, where, kept)
        committed = parts
    finally:
        sweep(target, committed)


def _staging(config: RunConfig) -> str | None:
    """Where copies of score tables go."""
    if config.staging is None and "/" not in config.lake:
        return None
    return f"{config.staging or f'{config.lake}/_staging'}/{config.run_id}"


def _ids(table: ScoreTable) -> DataFrame:
    """The table's ids in our types; never run."""
    items = [] if table.source.item is None else [user_id(table.df, table.source._replace(user=table.source.item)).alias("item_id")]
    return table.df.select(user_id(table.df, table.source).alias("user_id"), *items)


def inputs_of(config: RunConfig) -> dict[str, Input]:
    """The input tables that the config has, by name."""
    return {name: where for name in ("catalogue", "exposures", "feedback", "truth") if (where := getattr(config.inputs, name))}


def scores_of(config: RunConfig) -> dict[str, Scores]:
    """The score tables, by what errors call them."""
    return {f"scores of {table.model or table.path}": table for table in config.score_tables()}


def _read(spark: SparkSession, table: str, where: Input, wanted: dict[str, str]) -> DataFrame:
    return read_input(spark, table, where.path, where.format, where.columns, wanted)


def _judge_labels(labels: DataFrame, config: RunConfig) -> Quality:
    """What the label tables break: an error, or counted."""
    quality: Quality = []
    for row in sorted(user_labels.broken_rules(labels).collect()):
        counted = row["rule"] == OUTSIDE_FRAME
        if config.on_bad_rows == "error" and not counted:
            raise refuse(*row)
        quality.append((TABLE[row["source"]], row["rule"], row["n_rows"], row["example"], "not candidates, left out" if counted else "quarantined"))
    return quality


def _judge_coverage(judged: DataFrame, config: RunConfig) -> Quality:
    """How users of scores and labels fit together: users without scores may be left out, copies never."""
    quality: Quality = []
    for row in sorted(coverage.coverage_problems(judged).collect()):
        if config.on_bad_rows == "error" or row["rule"] != "not_scored":
            raise coverage.refuse(*row)
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
    table = F.create_map(*[F.lit(x) for entry in TABLE.items() for x in entry])[F.col("source")]
    rows = user_labels.broken_pairs(labels).where(F.col("rule") != OUTSIDE_FRAME)
    pairs = rows.select(table.alias("table"), "rule", F.to_json(F.struct("user_id", "item_id", "value"), {"ignoreNullFields": "false"}).alias("row"))
    bad = lake.read(RANKS, run_id).where("problem IS NOT NULL")
    vectors = bad.select(
        F.lit("scores").alias("table"), F.lit("bad_vector").alias("rule"), F.to_json(F.struct("model", "user_id", "problem")).alias("row")
    )
    return pairs.unionByName(vectors)


if __name__ == "__main__":
    from jobs.cli import run_stage

    run_stage("rank", run)
