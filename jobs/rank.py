"""Rank every labelled pair of one run in the full score lists of its models.

    spark-submit jobs/rank.py --config conf/demo.yaml --run-id 2026-11-15

Reads scores, catalogue, feedback (the training pairs) and the label sets that the config has: exposures, heldout,
truth, designed; without any of them the top lists are all that is made, for jobs/design.py. Writes catalogue, ranks,
quality, quarantine (replaces this run_id only: safe to retry). Before it ranks it checks whether the random exposures
are random (docs/checks.md). Scores are read once (twice where a user's rows are scattered over files); evaluating needs
only what is written here.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text

from eval_engine.config import Input, Scores, folder_name
from eval_engine.errors import DataError
from eval_engine.inputs.catalogue import check_catalogue
from eval_engine.inputs.direct_read import deleted_rows, mapped_columns, not_direct, stored_bytes
from eval_engine.inputs.fingerprints import digest, ranked_from
from eval_engine.inputs.input_format import input_format
from eval_engine.inputs.label_sets import LABEL_SETS, TABLE, TRAINED, pair_columns, probability_column
from eval_engine.inputs.labels import OUTSIDE_FRAME, PROBABILITY, refuse
from eval_engine.inputs.pair_table import PAIR
from eval_engine.inputs.read import empty, plain_id, read_input, same_id_types, table_files
from eval_engine.inputs.score_tables import ScoreTable, forget_copy, score_table
from eval_engine.lake.commits import delete_uncommitted
from eval_engine.lake.lake import Lake
from eval_engine.lake.part_files import Target, WrittenFile, files_of_manifest, new_attempt
from eval_engine.masked import masked
from eval_engine.plain_text import few_names, plain
from eval_engine.quality import exposure_checks
from eval_engine.quality.quality_row import QualityRow
from eval_engine.ranking import coverage
from eval_engine.ranking import rank as ranking
from eval_engine.ranking.facts import Facts
from eval_engine.ranking.ranks_files import unusable_ranks
from eval_engine.ranking.scattered import labels_schema, rows_of_blobs
from eval_engine.ranking.settings import Ranking
from eval_engine.ranking.thresholds import threshold_cutoffs, thresholds_sql
from eval_engine.spark.object_store import check_store
from eval_engine.spark.session import batches_by_bytes, few_scan_tasks, planned_once
from eval_engine.spark.worker_types import Plan
from eval_engine.tables import CATALOGUE, RANKS, TRIALS
from jobs.findings import QUARANTINED, put_quality, put_quarantine
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import done_with, stage

ITEM = {"item_id": "id", "position": "position"}
Quality = list[QualityRow]
NO_LABELS = ("truth",)  # of a run without labels: a set of which no user has any, so that top lists are ranked


class Ranked(NamedTuple):
    """What the lake holds already of this run."""

    models: tuple[str, ...]  # ranked from the same inputs, or by the torch job: kept
    dropped: tuple[str, ...]  # in the lake, but no longer in the config, or from other inputs
    inputs: dict[int, str]  # of each score table that is still to be ranked, by number: its fingerprint


class Checked(NamedTuple):
    """Inputs that can be ranked, and what was found wrong with them on the way."""

    catalogue: WrittenFile | None  # not in the lake's table yet; None: it is
    found: ranking.Assembled
    tables: list[ScoreTable]
    models: dict[str, int]  # to be ranked, and the number of the score table that has it
    quality: Quality


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Check, rank and write."""
    lake = Lake(spark, config.lake)
    if config.staging:
        check_store(spark, config.staging, "staging")
    config = config.without(failed_trials(lake, config))
    run_id = {"run_id": config.run_id}
    before, now = done_with(lake, config.run_id, "rank"), config.model_dump(mode="json")
    done_before = before is not None and all(
        before.get(name) == now[name] for name in ("checks", "positive")
    )  # else the checks are made again
    with (
        stage(lake, config, "rank"),
        planned_once(spark),
        batches_by_bytes(spark),
        ExitStack() as until_done,
    ):
        ranked = already_ranked(spark, config, lake)
        if done_before and not ranked.inputs and not ranked.dropped and not config.fused_models():
            models = few_names(sorted(ranked.models))
            console.print(Text.assemble(("✓", "green"), f" {models} already ranked from the same inputs"))
            return
        with spark_progress(spark, console, "Checking the inputs"):
            inputs = until_done.enter_context(checked(spark, config, lake, ranked))
        if stopped := [row for row in inputs.quality if row.action == exposure_checks.STOPPED]:
            put_quality(lake, config.run_id, "rank", inputs.quality)
            raise exposure_checks.refuse(stopped)
        taken: dict[str, list[str]] = {}
        for table in inputs.tables:
            taken.setdefault(table.path_taken, []).append(table.source.name)
        for path, names in taken.items():
            console.print(Text(plain(masked(f"{few_names(names)}: {path}")), style="dim"))
        if lake.spark_only_reason:
            console.print(Text(plain(masked(f"ranks: written by Spark, since {lake.spark_only_reason}")), style="dim"))
        id_type = inputs.found.id_type
        if inputs.models:
            with spark_progress(spark, console, f"Ranking {few_names(sorted(inputs.models))}"):
                by_model = {model: ranked.inputs[number] for model, number in inputs.models.items()}
                write_ranks(lake, config.run_id, id_type, ranking.plans(inputs.found), by_model, ranked.models)
        elif ranked.dropped:
            lake.remove(RANKS, run_id, ranked.models)
        if inputs.catalogue:
            lake.create(CATALOGUE, id_type, run_id)
            lake.commit(CATALOGUE, [inputs.catalogue], run_id)
        if lake.in_catalog:
            lake.view("thresholds", thresholds_sql(lake.name(RANKS)))
        quality = inputs.quality + (_unranked(lake, config.run_id) if config.on_bad_rows == "quarantine" else [])
        put_quality(lake, config.run_id, "rank", quality)
        bad = any(row.action == QUARANTINED for row in quality)
        put_quarantine(lake, config.run_id, "rank", _quarantined(inputs.found, lake, config.run_id) if bad else None)
        for row in quality:
            if row.verdict is None:
                what, example = f"{row.n_rows:,} rows {row.rule}, {row.action}", f"(first: {plain(row.example)})"
            elif row.verdict in (exposure_checks.WARN, exposure_checks.FAIL):
                what, example = f"{row.rule}: {row.verdict}", plain(row.example)
            else:
                continue
            console.print(Text.assemble((f"{row.table}: {what}", "yellow"), " ", (example, "dim")))


def failed_trials(lake: Lake, config: RunConfig) -> tuple[str, ...]:
    """The trials of a search that failed when they last ran: they have no scores."""
    if config.train is None or not config.train.search:
        return ()
    rows = lake.rows(TRIALS, {"run_id": config.run_id})
    return tuple(
        sorted(row["model"] for row in rows if row["status"] == "failed" and row["model"] in config.train.trials)
    )


def already_ranked(spark: SparkSession, config: RunConfig, lake: Lake) -> Ranked:
    """Which models need not be ranked, because the lake has them from the same inputs, and which tables do."""
    tables = list(scores_of(config).values())
    # not evaluate's cutoffs: evaluating at others reads no score again; random.k says which ones thresholds are of
    settings = [config.frame, config.top, config.on_bad_rows, sorted(config.fused_models())]
    inputs = ranked_from(spark, tables, inputs_of(config).values(), [list(inputs_of(config)), settings])
    if (
        config.on_bad_rows == "quarantine"
    ):  # users that one model did not score are left out for all: each depends on all
        inputs = [digest(own, inputs) for own in inputs]
    unusable = unusable_ranks(lake.files(RANKS, config.run_id))
    stored = lake.partitions(RANKS, config.run_id)
    lost = {
        part["inputs"] for part in stored if part["model"] in unusable
    }  # what was ranked together is ranked again together
    have = {part["model"]: part["inputs"] for part in stored if part["inputs"] not in lost}
    missing = [name for name in config.fused_models() if name not in have]
    if missing:
        why = unusable.get(missing[0], f"the lake has no ranks of it for run {config.run_id}")
        raise DataError(f"ranks: model {missing[0]} has output: ranks, but {why}. Run jobs/train.py first.")
    kept = tuple(sorted(model for model, was in have.items() if was in inputs or model in config.fused_models()))
    return Ranked(
        kept,
        tuple({part["model"] for part in stored} - set(kept)),
        {number: own for number, own in enumerate(inputs) if own not in have.values()},
    )


@contextmanager
def checked(spark: SparkSession, config: RunConfig, lake: Lake, ranked: Ranked) -> Iterator[Checked]:
    """Reads everything but scores, and raises on what cannot be used; commits nothing. What was brought together is
    kept by Spark until the block ends, and files that no commit names are removed then."""
    inputs = inputs_of(config)
    catalogue = _read(spark, "catalogue", inputs["catalogue"], ITEM)
    frames = {
        source: _read(spark, table, inputs[table], pair_columns(source))
        for source, table in TABLE.items()
        if table in inputs
    }
    labels = {source: _pairs(df, TABLE[source], inputs[TABLE[source]]) for source, df in frames.items()}
    if "designed" in labels and probability_column("designed") not in labels["designed"].columns:
        raise DataError(
            "designed: the table has no column exposure_probability. Designed exposures are not uniform, and without "
            "their probabilities nothing can be estimated from them: use those of exposure_plan."
        )
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
        attempt = new_attempt()
        n_items, files, written = _catalogue(catalogue, config, lake, attempt)
        if written:
            until_done.callback(delete_uncommitted, lake.uri(CATALOGUE), config.run_id, attempt)
        label_sets = tuple(name for name in LABEL_SETS if name in labels) or NO_LABELS
        cutoffs = threshold_cutoffs(config.evaluate.metrics, config.top)
        settings = Ranking(n_items, config.top + 1, files, config.on_bad_rows, config.frame, label_sets, cutoffs)
        models = _models(tables, config, ranked)
        kept = lake.read(RANKS, config.run_id).where(F.col("model").isin(*ranked.models)) if ranked.models else None
        asked = ranking.RankingRequest(
            [ranking.Table(table.source, table.files, table.df if table.scanned else None) for table in tables],
            labels,
            tuple(sorted({*models, *ranked.models})),
            kept,
            bool(config.fused_models()),
            id_type,
            config.positive if "random" in labels else None,
        )
        with few_scan_tasks(spark):
            found = ranking.assembled(spark, asked, settings)
        until_done.callback(
            found.rows.unpersist
        )  # also after an error: a session that goes on would find the old labels under the same paths
        quality = _judged(found.facts, labels, models, config)
        checks = exposure_checks.exposure_checks(spark, found, config.frame, TRAINED in labels, config.checks.level)
        quality += exposure_checks.stopping(checks, config.checks.stop_on)
        if kept is not None and config.fused_models():
            lake.create(RANKS, id_type, {"run_id": config.run_id})  # it is there: an error if another version made it
            rows = rows_of_blobs(found.rows, "labels", labels_schema(id_type, found.ranking))
            coverage.refuse_stale(kept.where(F.col("model").isin(*config.fused_models())), rows, found.ranking)
        yield Checked(written, found, tables, models, quality)


def _pairs(df: DataFrame, table: str, where: Input) -> ranking.Pairs:
    """A label table, by its files if workers can read them themselves."""
    kind = input_format(where)
    columns = {name: where.columns.get(name, name) for name in df.columns}
    files = table_files(df, where.path, kind)
    n_bytes = stored_bytes(files)
    by_spark = (
        kind not in ("parquet", "delta")
        or not_direct(files, list(columns.values()), table)
        or mapped_columns(df, where.path, kind)
        or deleted_rows(df, files, where.path, kind)
    )
    return ranking.Pairs(df if by_spark else None, files, columns, n_bytes)


def _catalogue(
    catalogue: DataFrame, config: RunConfig, lake: Lake, attempt: str
) -> tuple[int, tuple[str, ...], WrittenFile | None]:
    """Number of items, files that workers read them from, and the file that is not committed yet."""
    target = None if lake.spark_only_reason else Target(lake.uri(CATALOGUE), config.run_id, attempt)
    n_items, written = check_catalogue(catalogue, target)
    if not n_items:
        raise empty("catalogue", config.inputs.catalogue.path)
    if target and written:
        return n_items, (f"{target.table}/{written.path}",), written
    lake.replace(CATALOGUE, catalogue.coalesce(1), {"run_id": config.run_id})
    stored = lake.read(CATALOGUE, config.run_id).select(F.col("_metadata.file_path").alias("file")).distinct().collect()
    return n_items, tuple(row["file"] for row in stored), None


def _models(tables: list[ScoreTable], config: RunConfig, ranked: Ranked) -> dict[str, int]:
    """The models of the tables, and the number of the table that has each; an error if a model is in two tables, or
    in one and ranked already from another."""
    paths = {name: f"{name} ({where.path})" for name, where in scores_of(config).items()}
    origin = {model: _origin(model, paths, config, ranked) for model in ranked.models}
    models: dict[str, int] = {}
    for table in tables:
        found = [(table.source.model, 0)] if table.source.model else table.df.groupBy("model").count().collect()
        for model, n_rows in found:
            if model is None:
                raise DataError(
                    f"{table.source.name}: {n_rows:,} rows have model=NULL. A score row needs its model: fix the job "
                    "that writes it."
                )
            if model in origin:
                raise DataError(
                    f"scores: model {model} is in two tables: {origin[model]} and {paths[table.source.name]}. "
                    "Give one of the models another name, or take one table out of `scores`."
                )
            models[model], origin[model] = table.source.number, paths[table.source.name]
    return models


def _origin(model: str, paths: dict[str, str], config: RunConfig, ranked: Ranked) -> str:
    """Where a model that is ranked already comes from."""
    if model in config.fused_models():
        return "train (output: ranks)"
    names = [
        paths[name]
        for number, (name, where) in enumerate(scores_of(config).items())
        if number not in ranked.inputs and where.model in (model, None)
    ]
    return " or ".join(names)


def write_ranks(
    lake: Lake, run_id: str, id_type: str, made: list[Plan], inputs: dict[str, str], kept: tuple[str, ...]
) -> None:
    """Rank by these plans, and put the ranks in place of all of the run but the kept models'; inputs: what each model
    is ranked from."""
    where = {"run_id": run_id}
    if lake.spark_only_reason:
        own = F.create_map(*[F.lit(x) for entry in inputs.items() for x in entry])[F.col("model")]
        lake.replace(RANKS, ranking.ranked_rows(made, id_type).withColumn("inputs", own), where, kept)
        return
    lake.create(RANKS, id_type, where)

    def write(attempt: str) -> list[WrittenFile]:
        target = Target(lake.uri(RANKS), run_id, attempt, inputs)
        return files_of_manifest(ranking.written_files(made, target).collect())

    lake.write_files(RANKS, where, write, kept)


def _staging(config: RunConfig) -> str | None:
    """Where copies of score tables go."""
    if config.staging is None and "/" not in config.lake:
        return None
    return f"{config.staging or f'{config.lake}/_staging'}/{folder_name(config.run_id)}"


def _ids(table: ScoreTable) -> DataFrame:
    """The table's ids in our types; never run."""
    items = [] if table.source.item is None else [plain_id(table.df, table.source.item).alias("item_id")]
    return table.df.select(plain_id(table.df, table.source.user).alias("user_id"), *items)


def inputs_of(config: RunConfig) -> dict[str, Input]:
    """The input tables that the config has, by name."""
    return {name: where for name in ("catalogue", *TABLE.values()) if (where := getattr(config.inputs, name))}


def scores_of(config: RunConfig) -> dict[str, Scores]:
    """The score tables, by what errors call them."""
    return {f"scores of {table.model or table.path}": table for table in config.score_tables()}


def _read(spark: SparkSession, table: str, where: Input, wanted: dict[str, str]) -> DataFrame:
    return read_input(spark, table, where, wanted, tuple(name for name in wanted if name not in (*PAIR, *ITEM)))


def _judged(facts: Facts, labels: dict[str, ranking.Pairs], models: dict[str, int], config: RunConfig) -> Quality:
    """What labels and scores break: an error, or counted. Users without scores may be left out, copies never."""
    for source in labels:
        if not facts.label_rows.get(source):
            raise empty(TABLE[source], inputs_of(config)[TABLE[source]].path)
    quality: Quality = []
    for (source, rule), violation in sorted(facts.broken.items()):
        counted = rule == OUTSIDE_FRAME
        if config.on_bad_rows == "error" and not counted:
            raise refuse(source, rule, *violation)
        action = "not candidates, left out" if counted else "quarantined"
        quality.append(QualityRow(TABLE[source], rule, *violation, action))
    if not sum(facts.users.values()):
        raise DataError(
            f"scores: {', '.join(table.path for table in config.score_tables())}: no rows. "
            "Check the paths and the job that writes the scores."
        )
    for model in models:
        if not facts.users.get(model):
            raise DataError(f"scores of {model}: no rows. Check the path and the job that writes the scores.")
    for rule, violation in sorted(facts.uncovered.items()):
        if config.on_bad_rows == "error" or rule != "not_scored":
            raise coverage.refuse(rule, *violation)
        quality.append(QualityRow("scores", rule, *violation, "left out"))
    return quality


def _unranked(lake: Lake, run_id: str) -> Quality:
    """Score vectors that could not be ranked, as the ranks table tells."""
    bad = lake.read(RANKS, run_id).where("problem IS NOT NULL")
    example = F.concat(
        F.lit("model="), "model", F.lit(", user_id="), F.col("user_id").cast("string"), F.lit(": "), "problem"
    )
    found = bad.agg(F.count(F.lit(1)).alias("n_rows"), F.min(example).alias("example")).first()
    return (
        [QualityRow("scores", "bad_vector", found["n_rows"], found["example"], "quarantined")]
        if found and found["n_rows"]
        else []
    )


def _quarantined(found: ranking.Assembled, lake: Lake, run_id: str) -> DataFrame:
    """The rows that were kept out, as JSON."""
    table = F.create_map(*[F.lit(x) for entry in TABLE.items() for x in entry])[F.col("source")]
    columns = f"user_id {found.id_type}, source STRING, rule STRING, item_id {found.id_type}, value DOUBLE"
    known = found.ranking.probabilities
    rows = rows_of_blobs(found.rows, "broken", f"{columns}, {PROBABILITY} DOUBLE" if known else columns)
    row = F.to_json(F.struct(*PAIR), {"ignoreNullFields": "false"})
    for name in known:
        own = F.struct(*PAIR, F.col(PROBABILITY).alias(str(probability_column(name))))
        row = F.when(F.col("source") == name, F.to_json(own, {"ignoreNullFields": "false"})).otherwise(row)
    pairs = rows.select(table.alias("table"), "rule", row.alias("row"))
    bad = lake.read(RANKS, run_id).where("problem IS NOT NULL")
    vectors = bad.select(
        F.lit("scores").alias("table"),
        F.lit("bad_vector").alias("rule"),
        F.to_json(F.struct("model", "user_id", "problem")).alias("row"),
    )
    return pairs.unionByName(vectors)


if __name__ == "__main__":
    from jobs.runner import main

    main("rank")
