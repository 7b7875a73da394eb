"""Estimate how likely each pair was to be logged, and hold that against random exposure.

    spark-submit jobs/propensity.py --config conf/run.yaml --run-id 2026-11-15

Reads feedback, heldout, the catalogue, exposures if there are some, and the features of method logistic. Writes
propensities, propensity_users, propensity_fits and propensity_calibration (replaces this run_id only: safe to retry).
Methods and formulas: docs/propensities.md.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text

from eval_engine.errors import DataError
from eval_engine.inputs.label_sets import pair_columns
from eval_engine.inputs.read import empty, read_input, same_id_types
from eval_engine.lake.lake import Lake
from eval_engine.plain_text import plain
from eval_engine.propensity import by_value, naive_bayes
from eval_engine.propensity.calibration import calibration, group_edges
from eval_engine.propensity.from_counts import FromCounts, fit_counts
from eval_engine.propensity.item_counts import REMEDY, BadRows, Histogram, histogram, item_counts
from eval_engine.propensity.log import PROPENSITY, Log, Totals, totals
from eval_engine.propensity.logistic import LogisticFit, fit_logistic
from eval_engine.propensity.settings import Logged, Logistic, NaiveBayes, Power, PowerLegacy
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Worker
from eval_engine.tables import PROPENSITIES, PROPENSITY_CALIBRATION, PROPENSITY_FITS, PROPENSITY_USERS
from jobs.pipeline import check_asked
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import stage


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Count, fit, write."""
    check_asked(config, "propensity")
    lake = Lake(spark, config.lake)
    with stage(lake, config, "propensity"), spark_progress(spark, console, "Estimating propensities"):
        fit = _run(spark, lake, config)
    for key in ("n_bad_rows", "n_unseen_pairs"):
        if fit[key]:
            console.print(Text(f"propensity: {key} = {fit[key]:,}", "yellow"))
    if fit["remark"]:
        console.print(Text(plain(f"propensity: {fit['remark']}"), "yellow"))


def _run(spark: SparkSession, lake: Lake, config: RunConfig) -> dict[str, Any]:
    settings, run_id = config.propensity, {"run_id": config.run_id}
    assert settings is not None
    log = read_log(spark, config)
    id_type = same_id_types({"catalogue": log.catalogue})
    sizes = totals(log)
    if not sizes.n_items:
        raise empty("catalogue", config.inputs.catalogue.path)
    if not sizes.n_pairs:
        assert config.inputs.heldout is not None
        raise empty("heldout", config.inputs.heldout.path)
    fit: dict[str, Any] = {"gamma": None, "by_value": None, "coefficients": None}
    fit |= dict.fromkeys(("alpha", "xmin", "ks", "n_tail"))
    logistic: LogisticFit | None = None
    if isinstance(settings, NaiveBayes):
        fit["by_value"] = by_value.naive_bayes(naive_bayes.value_counts(log), sizes.density, settings.scale)
        log = log._replace(heldout=naive_bayes.with_propensity(log.heldout, fit["by_value"]))
    elif isinstance(settings, Logistic):
        logistic = fit_logistic(spark, log, settings, sizes)
        fit["coefficients"] = logistic.coefficients
        log = log._replace(heldout=logistic.with_propensity(log.heldout))
    counted = settings.counts if isinstance(settings, Power | PowerLegacy) else "logged"
    items = item_counts(log, config.positive, counted, settings.floor).persist()
    try:
        counts, bad = histogram(items, group_edges(items))
        if config.on_bad_rows == "error":
            for problem in bad:
                raise _refuse(problem)
        if not counts.heldout.sum():
            assert config.inputs.heldout is not None
            raise empty("heldout", config.inputs.heldout.path)
        of_count = fit_counts(counts, settings) if isinstance(settings, Power | PowerLegacy) else None
        fit |= of_count.parameters if of_count else {}
        rows = _item_rows(items, logistic)
        lake.replace_by_workers(PROPENSITIES, rows, _with_propensity(of_count), run_id, id_type)
    finally:
        items.unpersist()
    if logistic:
        lake.replace_by_workers(PROPENSITY_USERS, logistic.users, lambda batches: batches, run_id, id_type)
    else:
        lake.put(PROPENSITY_USERS, [], run_id, id_type)
    row = fit | _diagnostics(counts, of_count, sizes, settings.floor) | {"method": settings.method}
    weights = (counts.inverse, counts.squares) if of_count is None else of_count.weights(counts)
    held_against = calibration(counts, *weights)
    row |= {name: getattr(held_against, name) for name in held_against._fields if name != "groups"}
    row["n_bad_rows"] = sum(problem.n_rows for problem in bad)
    row["remark"] = _remark(row, config)
    lake.put(PROPENSITY_FITS, [row], run_id)
    lake.put(PROPENSITY_CALIBRATION, held_against.groups, run_id)
    return row


def read_log(spark: SparkSession, config: RunConfig) -> Log:
    """The tables; heldout has its propensities only if the method is to take them from there."""
    inputs = config.inputs
    assert inputs.feedback is not None
    assert inputs.heldout is not None
    logged = isinstance(config.propensity, Logged)
    frames = {
        "catalogue": read_input(spark, "catalogue", inputs.catalogue, {"item_id": "id", "position": "position"}),
        "feedback": read_input(spark, "feedback", inputs.feedback, pair_columns("feedback")),
        "heldout": read_input(
            spark, "heldout", inputs.heldout, pair_columns("heldout"), () if logged else (PROPENSITY,)
        ),
    }
    if inputs.exposures is not None:
        wanted = pair_columns("random")
        frames["exposures"] = read_input(spark, "exposures", inputs.exposures, wanted, tuple(list(wanted)[3:]))
    same_id_types(frames)
    if not logged:
        frames["heldout"] = frames["heldout"].drop(PROPENSITY)
    return Log(frames["catalogue"], frames["feedback"], frames["heldout"], frames.get("exposures"))


def _item_rows(items: DataFrame, logistic: LogisticFit | None) -> DataFrame:
    """The items of the catalogue, with their logits."""
    rows = items.where(F.col("in_catalogue")).select("item_id", "count", "heldout")
    if logistic:
        return rows.join(logistic.items, "item_id")
    return rows.withColumn("logit", F.lit(None).cast("double"))


def _with_propensity(of_count: FromCounts | None) -> Worker:
    """Makes rows of propensities; of_count: None where propensities are of pairs."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            columns = {name: batch.column(name) for name in ("item_id", "count", "heldout")}
            p = np.full(batch.num_rows, np.nan)
            if of_count is not None:
                p = of_count.propensity(columns["count"].to_numpy(), columns["heldout"].to_numpy())
            columns["propensity"] = pa.array(p, pa.float64(), mask=np.isnan(p))
            yield pa.RecordBatch.from_pydict(columns | {"logit": batch.column("logit")})

    return run


def _diagnostics(counts: Histogram, of_count: FromCounts | None, sizes: Totals, floor: float) -> dict[str, Any]:
    """Sizes, range and share below the floor."""
    tested = counts.heldout > 0
    if of_count is None:
        least, largest = counts.least[tested].min(), counts.largest[tested].max()
        below = counts.below.sum()
    else:
        p = of_count.propensity(counts.counts, counts.heldout)
        least, largest = p[tested].min(), p[tested].max()
        below = counts.heldout[tested & (p < floor)].sum()
    return {
        "n_items": sizes.n_items,
        "n_unseen": int(counts.n_items[counts.counts == 0].sum()),
        "n_users": sizes.n_users,
        "n_cold_users": sizes.n_cold_users,
        "n_pairs": sizes.n_pairs,
        "n_heldout": int(counts.heldout.sum()),
        "n_unseen_pairs": int(counts.heldout[counts.counts == 0].sum()),
        "least": float(least),
        "largest": float(largest),
        "floor": floor,
        "share_below_floor": float(below / counts.heldout.sum()),
        "n_random_positives": int(counts.random.sum()),
    }


def _remark(row: dict[str, Any], config: RunConfig) -> str | None:
    """What makes the propensities doubtful."""
    remarks: list[str] = []
    if row["n_tail"] is not None and row["n_tail"] < 50:
        remarks.append(
            f"the power law is fitted to {row['n_tail']} items, those with {row['xmin']:,} pairs or more: "
            "gamma given in the config is safer"
        )
    if row["least"] == row["largest"]:
        remarks.append(
            f"all {row['n_heldout']:,} held-out pairs have the propensity {row['least']:g}: weighting by it changes "
            "nothing, and there are no strata"
        )
    if row["by_value"] and by_value.one_weight(row["by_value"], config.positive):
        remarks.append(f"all values that are positive ({config.positive}) have one propensity: SNIPS equals holdout")
    if row["by_value"] and max(row["by_value"].values()) == 1:
        remarks.append("the propensity of a value came out above 1 and counts as 1: the random sample is small")
    far = row["distance_weighted"]
    if (
        far is not None
        and row["distance_heldout"] is not None
        and far > row["distance_heldout"] + row["distance_noise"]
    ):
        remarks.append(
            f"weighting by 1/propensity moves the positives away from random exposure: distance {far:.3f}, "
            f"unweighted {row['distance_heldout']:.3f}"
        )
    return "; ".join(remarks) or None


def _refuse(problem: BadRows) -> DataError:
    """The error of rows that break a rule."""
    rows = "row breaks" if problem.n_rows == 1 else "rows break"
    return DataError(
        f"{problem.table}: {problem.n_rows:,} {rows} the rule {problem.rule} (first: {problem.example}): "
        f"{REMEDY[problem.rule]}, or set on_bad_rows: quarantine to leave such rows out."
    )


if __name__ == "__main__":
    from jobs.runner import main

    main("propensity")
