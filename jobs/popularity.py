"""Count how often each item was trained on as a positive, and put the items into classes of popularity.

    spark-submit jobs/popularity.py --config conf/run.yaml --run-id 2026-11-15

Reads the catalogue and feedback. Writes popularity and popularity_classes (replaces this run_id only: safe to retry).
Methods and formulas: docs/popularity.md.
"""

from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from eval_engine.errors import DataError
from eval_engine.inputs.label_sets import pair_columns
from eval_engine.inputs.read import empty, read_input, same_id_types
from eval_engine.lake.lake import Lake
from eval_engine.plain_text import plain
from eval_engine.popularity.classes import Thresholds, thresholds
from eval_engine.popularity.item_counts import CountsRead, distinct_counts, is_positive, item_counts, with_class
from eval_engine.tables import POPULARITY, POPULARITY_CLASSES
from jobs.pipeline import check_asked
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import stage


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Count, find the thresholds, write."""
    check_asked(config, "popularity")
    lake = Lake(spark, config.lake)
    with stage(lake, config, "popularity"), spark_progress(spark, console, "Counting popularity"):
        row = _run(spark, lake, config)
    for what in ("reason", "remark"):
        if row[what]:
            console.print(Text(plain(f"popularity: {row[what]}"), "yellow"))
    if row["n_bad_rows"]:
        console.print(Text(f"popularity: {row['n_bad_rows']:,} rows of feedback broke a rule", "yellow"))


def _run(spark: SparkSession, lake: Lake, config: RunConfig) -> dict[str, Any]:
    settings, inputs, run_id = config.popularity, config.inputs, {"run_id": config.run_id}
    assert settings is not None
    assert inputs.feedback is not None
    frames = {
        "catalogue": read_input(spark, "catalogue", inputs.catalogue, {"item_id": "id", "position": "position"}),
        "feedback": read_input(spark, "feedback", inputs.feedback, pair_columns("feedback")),
    }
    id_type = same_id_types(frames)
    items = item_counts(frames["catalogue"], frames["feedback"], config.positive).persist()
    try:
        read = distinct_counts(items)
        if not read.counts.size:
            raise empty("catalogue", inputs.catalogue.path)
        if read.n_bad_rows and config.on_bad_rows == "error":
            broken = "row breaks" if read.n_bad_rows == 1 else "rows break"
            raise DataError(
                f"feedback: {read.n_bad_rows:,} {broken} a rule (first: {read.example}): a training pair needs a user, "
                "an item of the catalogue and a value. Fix the job that makes the table, or set on_bad_rows: "
                "quarantine to leave such rows out."
            )
        found = thresholds(read.counts, read.n_items, settings.method, settings.share)
        rows = with_class(items, found)
        lake.replace_by_workers(POPULARITY, rows, lambda batches: batches, run_id, id_type)
    finally:
        items.unpersist()
    trained = frames["feedback"].where(is_positive(config.positive)).select("user_id").where("user_id IS NOT NULL")
    row = _row(found, read) | {"n_users": trained.distinct().count()}
    lake.put(POPULARITY_CLASSES, [row], run_id)
    return row


def _row(found: Thresholds, read: CountsRead) -> dict[str, Any]:
    """The row of popularity_classes."""
    names = ("method", "used", "low_at_most", "high_above", "n_unseen", "n_low", "n_middle", "n_high", "fragile")
    ends = (None,) * 4 if found.stability is None else (*found.stability.n_low, *found.stability.n_high)
    return {
        **{name: getattr(found, name) for name in names},
        "n_items": int(read.n_items.sum()),
        **dict(zip(("n_low_least", "n_low_most", "n_high_least", "n_high_most"), ends, strict=True)),
        "reason": found.reason or None,
        "remark": found.remark or None,
        "n_bad_rows": read.n_bad_rows,
        "counts": dict(zip(read.counts.tolist(), read.n_items.tolist(), strict=True)),
    }


if __name__ == "__main__":
    from jobs.runner import main

    main("popularity")
