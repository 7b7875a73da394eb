"""Split one log into feedback, which models are trained on, and heldout, which is kept from training.

    spark-submit jobs/split.py --config conf/run.yaml --run-id 2026-11-15

Reads the log of the `split` section. Writes the tables at the paths of inputs.feedback and inputs.heldout, each
replaced whole, or left alone if the same log and settings made it (Delta tables only), and the run's rows of quality
and quarantine of the log (safe to retry). Which pairs are held out: eval_engine/inputs/splits.py.
"""

from collections.abc import Mapping
from importlib.metadata import version

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.inputs import splits
from eval_engine.inputs.fingerprints import content_of, content_without_spark, digest
from eval_engine.inputs.made_table import made_from, make_table
from eval_engine.inputs.read import empty
from eval_engine.inputs.split_settings import Split
from eval_engine.inputs.splits import COLD_ITEM, COLD_USER, HELD_OUT, RULE, SIDE, TOO_FEW, TRAINING, Count, Log
from eval_engine.lake.lake import Lake
from eval_engine.plain_text import plain
from eval_engine.quality.quality_row import QualityRow
from eval_engine.spark.object_store import check_store
from jobs.findings import LOG, QUARANTINED, put_quality, put_quarantine
from jobs.pipeline import check_asked
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.runner import Starter
from jobs.stage import lake_without_spark, stage, stage_row

MADE = ("feedback", "heldout")
Counts = Mapping[str | None, Count]


def run(start_spark: Starter, config: RunConfig, console: Console) -> None:
    """Judge, split and write."""
    check_asked(config, "split")
    assert config.split is not None
    lake = lake_without_spark(config.lake)
    content = content_without_spark(config.split.log)
    if lake and content and _is_split(lake, config, text := _made_from(config, content)):
        with stage(lake, config, "split") as running:
            running.outputs.update(dict.fromkeys(MADE, text))
            console.print(Text.assemble(("✓", "green"), " The log is split already, from the same rows"))
        return
    spark = start_spark()
    for name, where in _tables(config).items():
        check_store(spark, where.path, name)
    lake = Lake(spark, config.lake)
    with stage(lake, config, "split") as running, spark_progress(spark, console, "Splitting the log"):
        text = _made_from(config, content_of(spark, config.split.log))
        log = splits.read_log(spark, config.split)
        _check_names(config, log)
        log = log._replace(rows=log.rows.persist())
        try:
            quality = _write(spark, lake, config, log, text)
        finally:
            log.rows.unpersist()
        running.outputs.update(dict.fromkeys(MADE, text))
    for row in quality:
        found = f"{row.table}: {row.n_rows:,} rows {row.rule}, {row.action}"
        console.print(Text.assemble((found, "yellow"), " ", (f"(first: {plain(row.example)})", "dim")))


def _write(spark: SparkSession, lake: Lake, config: RunConfig, log: Log, text: str) -> list[QualityRow]:
    """Both tables, and what was found on the way."""
    split = config.split
    assert split is not None
    rules = splits.counts(log.rows, RULE, log.time)
    quality = _judged(rules, config)
    parts = splits.sides(log, split, rules[None].n_rows)
    both = parts.training.select(*log.rows.columns, SIDE).union(parts.held_out.select(*log.rows.columns, SIDE))
    sides = splits.counts(both, SIDE, log.time)
    quality += _sides(sides, split, rules[None].n_rows)
    kept = parts.held_out if split.cold == "keep" else parts.held_out.where(F.col(SIDE) == HELD_OUT)
    for name, rows in zip(MADE, (parts.training, kept), strict=True):
        where = _tables(config)[name]
        if made_from(where, spark) != text:
            make_table(_as_named(rows, where, log), where, text)
    put_quality(lake, config.run_id, "split", quality)
    broken = log.rows.where(F.col(RULE).isNotNull())
    put_quarantine(lake, config.run_id, "split", _quarantined(broken, log) if len(rules) > 1 else None)
    return quality


def _judged(rules: Counts, config: RunConfig) -> list[QualityRow]:
    """The rules that rows of the log break: an error, or counted."""
    assert config.split is not None
    if not rules:
        raise empty(LOG, config.split.log.path)
    broken = {rule: count for rule, count in rules.items() if rule is not None}
    if config.on_bad_rows == "error":
        for rule in sorted(broken):
            raise splits.refuse(rule, broken[rule])
    if None not in rules:
        rule = min(broken)
        raise DataError(
            f"log: every row of {config.split.log.path} breaks a rule, {rule} among them "
            f"(first: {broken[rule].example}), so there is nothing to split. Check the path and columns of split.log."
        )
    return [QualityRow(LOG, rule, *broken[rule], QUARANTINED) for rule in sorted(broken)]


def _sides(sides: Counts, split: Split, n_pairs: int) -> list[QualityRow]:
    """Pairs that a policy decides on, counted; an error if nothing is left to train on, or to hold out."""
    said = f"log: {n_pairs:,} pairs split by {split.how.model_dump_json(exclude_none=True)}"
    if not {TRAINING, TOO_FEW} & set(sides):
        raise DataError(f"{said} leave no pair for training: all are held out. Hold out less in split.how.")
    held = {HELD_OUT} if split.cold == "drop" else {HELD_OUT, COLD_USER, COLD_ITEM}
    if not held & set(sides):
        cold = sum(sides[side].n_rows for side in (COLD_USER, COLD_ITEM) if side in sides)
        why = f"cold: drop takes all {cold:,} held-out pairs, whose user or item has no training pair" if cold else ""
        raise DataError(
            f"{said} leave no held-out pair{f': {why}' if why else ''}. "
            + ("Set split.cold: keep, or hold out less." if why else "Hold out more in split.how.")
        )
    action = "kept in heldout" if split.cold == "keep" else "left out"
    actions = {COLD_USER: action, COLD_ITEM: action, TOO_FEW: "kept for training"}
    return [QualityRow(LOG, side, *sides[side], actions[side]) for side in actions if side in sides]


def _check_names(config: RunConfig, log: Log) -> None:
    """An error if a table that is written would have two columns of one name."""
    for name, where in _tables(config).items():
        if taken := sorted({where.columns.get(ours, ours) for ours in splits.PAIR} & set(log.others)):
            raise ConfigError(
                f"inputs.{name}.columns: {taken[0]} is a column of the log, which is kept. "
                "Give the pair's column another name."
            )


def _as_named(rows: DataFrame, where: Input, log: Log) -> DataFrame:
    """The columns of a table that is written, under the names by which its input reads them."""
    pair = [F.col(ours).alias(where.columns.get(ours, ours)) for ours in splits.PAIR]
    return rows.select(*pair, *[F.col(f"`{name}`") for name in log.others])


def _quarantined(broken: DataFrame, log: Log) -> DataFrame:
    """The rows of the log that break a rule, as JSON."""
    row = F.to_json(F.struct(*splits.PAIR, *[F.col(f"`{c}`") for c in log.others]), {"ignoreNullFields": "false"})
    return broken.select(F.lit(LOG).alias("table"), F.col(RULE).alias("rule"), row.alias("row"))


def _tables(config: RunConfig) -> dict[str, Input]:
    """The tables that are written."""
    assert config.inputs.feedback is not None
    assert config.inputs.heldout is not None
    return {"feedback": config.inputs.feedback, "heldout": config.inputs.heldout}


def _made_from(config: RunConfig, content: str) -> str:
    """What both tables follow from, as a text that changes when it does; content: the log's."""
    assert config.split is not None
    names = [where.columns for where in _tables(config).values()]
    settings = config.split.model_dump(mode="json")
    return f"plumbline {version('plumbline')} split {digest(settings, config.on_bad_rows, names, content)}"


def _is_split(lake: Lake, config: RunConfig, text: str) -> bool:
    """Whether this run has split the same log in the same way, and both tables are still those that were made."""
    row = stage_row(lake, config.run_id, "split")
    if row is None or row["status"] != "done" or any(row["outputs"].get(name) != text for name in MADE):
        return False
    return all(made_from(where) == text for where in _tables(config).values())


if __name__ == "__main__":
    from jobs.runner import main

    main("split")
