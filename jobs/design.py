"""Plan random exposures: which items to show to which users, with what probability, so that close models can be told
apart from few exposures.

    spark-submit jobs/design.py --config conf/run.yaml --run-id 2026-11-15

Reads the top lists of ranks, the catalogue and, with frame: unseen, feedback; no score. Writes exposure_plan (replaces
this run_id only: safe to retry), and the same as a row per exposure to design.to. Prints what the plan is worth, and
what it makes worse. docs/design.md
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError, as_operator_error
from eval_engine.exposure_design.design import Arms, check_arms, expected_gain, identical
from eval_engine.exposure_design.plan_rows import SHARD_BYTES, Drawing, ListFile, Lists, draw_users, plan_rows
from eval_engine.exposure_design.settings import Design
from eval_engine.inputs.input_format import input_format
from eval_engine.inputs.label_sets import pair_columns
from eval_engine.inputs.made_table import make_table
from eval_engine.inputs.pair_rows import PairRows, pair_files
from eval_engine.inputs.read import read_input
from eval_engine.lake.lake import Lake
from eval_engine.plain_text import plain
from eval_engine.ranking.ranks_files import unusable_ranks
from eval_engine.spark.object_store import check_store
from eval_engine.spark.session import batches_by_bytes
from eval_engine.spark.task_sizes import partitions_for
from eval_engine.storage.stored_file import full_path
from eval_engine.tables import CATALOGUE, EXPOSURE_PLAN, RANKS
from jobs.pipeline import check_asked
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import stage

TOO_WIDE = 1 / 3  # of the frame in the lists: above it a design is not worth it
EXPORTED = {"items": "item_id", "probabilities": "exposure_probability"} | {n: n for n in ("in_uniform", "in_targeted")}


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Draw users and items, and write the plan."""
    check_asked(config, "design")
    asked = config.design
    assert asked is not None
    _check_target(config, asked)
    lake = Lake(spark, config.lake)
    if asked.to is not None:
        check_store(spark, asked.to.path, "design.to")
    with (
        stage(lake, config, "design"),
        batches_by_bytes(spark),
        spark_progress(spark, console, "Planning exposures"),
        as_operator_error(),
    ):
        lines = _plan(spark, lake, config, asked)
    for line in lines:
        console.print(Text(plain(line)))


def _plan(spark: SparkSession, lake: Lake, config: RunConfig, asked: Design) -> list[str]:
    catalogue = _catalogue(lake, config.run_id)
    lists, models = _lists(spark, lake, config, asked)
    ks = asked.cutoffs or tuple(sorted({metric.k for metric in config.evaluate.metrics} - {0}))
    arms = Arms(asked.exposures, asked.arm_u, ks, asked.aim, asked.seed)
    n_items = lake.read(CATALOGUE, config.run_id).count()
    check_arms(arms, len(models), config.top, n_items)
    wanted = asked.users if asked.budget is None else asked.budget // asked.exposures
    drawn = draw_users(lists, models[0], asked.seed, 2**62 if wanted is None else wanted)
    if not drawn.n_users:
        raise DataError(
            f"design: of {drawn.n_ranked:,} users of the run none is drawn. Give more users, or a larger budget."
        )
    trained = None
    if config.frame == "unseen":
        assert config.inputs.feedback is not None
        wanted_columns = pair_columns("feedback")
        rows = read_input(spark, "feedback", config.inputs.feedback, wanted_columns, tuple(list(wanted_columns)[3:]))
        pairs = rows.select("user_id", "item_id").where("user_id IS NOT NULL AND item_id IS NOT NULL")
        trained = PairRows(pairs, pair_files(spark, "feedback", config.inputs.feedback))
    n_bytes = drawn.n_users * len(models) * max(ks) * 4
    n_shards = partitions_for(n_bytes, max(4, -(-n_bytes // SHARD_BYTES)))
    drawing = Drawing(arms, models, catalogue, drawn.n_bins, n_shards, config.frame == "unseen")
    at_most = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    plan = plan_rows(lists, trained, drawing, min(n_shards, max(at_most, 4)))
    id_type = dict(lake.read(RANKS, config.run_id).dtypes)["user_id"].upper()
    where = {"run_id": config.run_id}
    written = lake.replace_by_workers(EXPOSURE_PLAN, plan.rows, plan.worker, where, id_type)
    totals = written.agg(
        F.count(F.lit(1)).alias("n_users"),
        F.sum(F.size("items")).alias("n_exposures"),
        F.avg(F.col("listed") / F.col("candidates")).alias("share"),
        F.avg("in_lists").alias("in_lists"),
        F.sum(F.col("alike").cast("bigint")).alias("alike"),
    ).first()
    assert totals is not None
    if totals["n_users"] and totals["alike"] == totals["n_users"] and len(models) > 1:
        lake.remove(EXPOSURE_PLAN, where, ())
        raise identical(len(models))
    if asked.to is not None:
        export(lake.read(EXPOSURE_PLAN, config.run_id), asked.to, config.run_id)
    return _said(totals.asDict(), drawn.n_users, arms, asked, n_items)


def _lists(spark: SparkSession, lake: Lake, config: RunConfig, asked: Design) -> tuple[Lists, tuple[str, ...]]:
    """Where the lists are, and the models, by name."""
    files = lake.files(RANKS, config.run_id)
    for model, why in sorted(unusable_ranks(files).items()):
        raise DataError(
            f"ranks: model {model} of run_id={config.run_id}: {why}. Run jobs/rank.py with this run_id again: it ranks "
            "what is damaged."
        )
    if files:
        known = sorted({str(file.partition["model"]) for file in files})
        stored = tuple(ListFile(file.path, str(file.partition["model"]), file.n_bytes) for file in files)
        lists = Lists(spark, stored)
    else:  # only Spark can read them
        rows = lake.read(RANKS, config.run_id)
        known = sorted(row[0] for row in rows.select("model").distinct().collect())
        lists = Lists(spark, (), rows.select("model", "user_id", F.coalesce("top.items", F.array()).alias("items")))
    for name in asked.models:
        if name not in known:
            raise ConfigError(f"design.models: {name} has no ranks in this run. It has {', '.join(known)}.")
    models = tuple(sorted(asked.models)) or tuple(known)
    if len(models) < 2 and asked.aim == "differences":
        raise ConfigError("design.aim: differences are between two models or more, and this run has one.")
    return lists, models


def _catalogue(lake: Lake, run_id: str) -> tuple[str, ...]:
    files = lake.files(CATALOGUE, run_id)
    if not files:
        raise ConfigError(
            "design: workers read the run's catalogue from files, and only Spark can read those of the lake "
            f"{lake.root}. Give a lake in a folder or an object store."
        )
    return tuple(file.path for file in files)


def _check_target(config: RunConfig, asked: Design) -> None:
    """An error if the plan would be written over an input."""
    if asked.to is None:
        return
    for table, own in config.inputs.model_dump().items():
        if own and full_path(own["path"]) == full_path(asked.to.path):
            raise ConfigError(
                f"design.to: {asked.to.path} is inputs.{table}, which would be overwritten. Give another."
            )


def export(plan: DataFrame, to: Input, run_id: str) -> None:
    """A row per exposure: user_id, item_id, exposure_probability, in_uniform, in_targeted; random order per user."""
    names = [F.col(f"shown.{field}").alias(to.columns.get(name, name)) for field, name in EXPORTED.items()]
    shown = plan.select("user_id", F.explode(F.arrays_zip(*EXPORTED)).alias("shown"))
    rows = shown.select(F.col("user_id").alias(to.columns.get("user_id", "user_id")), *names)
    if (to.format or input_format(to)) == "csv":
        dialect = {} if to.csv is None else {"sep": to.csv.delimiter}
        rows.write.mode("overwrite").option("header", "true").options(**dialect).csv(full_path(to.path))
        return
    make_table(rows, to, f"plumbline design {run_id}")


def _said(found: dict[str, Any], n_drawn: int, arms: Arms, asked: Design, n_items: int) -> list[str]:
    """What the plan is, what it is worth, and what it makes worse."""
    n, shown, share = found["n_users"], found["n_exposures"], found["share"]
    a = arms.uniform / arms.exposures
    lines = [
        f"{shown:,} exposures of {n:,} users, {arms.uniform} of {arms.exposures} drawn from the whole frame, the "
        f"others from the top {max(arms.cutoffs)} of the models, which hold {share:.1%} of the frame on average."
    ]
    if n < n_drawn:
        lines.append(f"{n_drawn - n:,} users were left out: not every model has ranked them.")
    if share > TOO_WIDE:
        lines.append(
            "Not worth it: the lists hold more than a third of the frame, so that uniform exposure says nearly as "
            f"much. Expose {arms.exposures} items uniformly, without a plan."
        )
    gain = expected_gain(arms.exposures, arms.uniform, n_items, share)
    of = ", ".join(f"@{k}" for k in arms.cutoffs)
    lines.append(
        f"A difference of precision or pooled recall ({of}) needs about {gain:.1f} times fewer users than under "
        "uniform exposure."
    )
    lines.append(
        f"URE macro, balanced, AUC, MAP and nDCG take the uniform arm only: they need {1 / a:.1f} times as many users; "
        f"so does, at most, what the plan was not made for, such as cutoffs beyond {max(arms.cutoffs)}."
    )
    return lines


if __name__ == "__main__":
    from jobs.runner import main

    main("design")
