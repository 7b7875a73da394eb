"""Counts of logged pairs per item, by one groupBy over all tables, and their histogram.

The row of an item has what fit and diagnostics need. Only the histogram, a row for each distinct count and group of
items (calibration.py), comes to the driver. Sums of weights are decimals: they do not depend on partitioning.

A row breaks a rule if user_id or item_id is NULL (null_key), its value is NULL or NaN (null_value, nan_value), its
probability is not above 0 and at most 1 (bad_probability), or its item is not in the catalogue (outside_catalogue). It
counts nowhere. That a pair is logged twice, or both trained on and held out, is found by the stage `rank`.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from eval_engine.positive import COMPARE, Positive
from eval_engine.propensity.log import PROPENSITY, Log

WEIGHT = "decimal(38, 12)"  # of sums of 1 / probability
REMEDY = {
    "null_key": "user_id and item_id must be there. Fix the job that makes the table",
    "null_value": "a pair needs a value. Fix the job that makes the table",
    "nan_value": "NaN is not a value: it is neither positive nor negative. Fix the job that makes the table",
    "bad_probability": "a pair has a probability above 0 and at most 1, since it is weighted by its inverse. "
    "Fix the job that makes the table",
    "outside_catalogue": "only items of the catalogue are ranked. Add the item to the catalogue, or take the row out",
}
SUMS = ("count", "trained", "heldout", "positives", "inverse", "squares", "below", "random", "random_inverse", "n_bad")


class Histogram(NamedTuple):
    """What is known of the items with each count in each group, counts in rising order."""

    counts: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    trained_low: npt.NDArray[np.int64]  # least number of training pairs of an item
    trained_high: npt.NDArray[np.int64]
    n_items: npt.NDArray[np.int64]  # of the catalogue
    heldout: npt.NDArray[np.int64]  # held-out pairs
    positives: npt.NDArray[np.int64]  # of these
    inverse: npt.NDArray[np.float64]  # sum of 1 / propensity of the positives, where propensities are of pairs
    squares: npt.NDArray[np.float64]  # sum of 1 / propensity^2 of these
    least: npt.NDArray[np.float64]  # propensity of a held-out pair, where it is one of pairs; else NaN
    largest: npt.NDArray[np.float64]
    below: npt.NDArray[np.int64]  # held-out pairs whose propensity is below the floor
    random: npt.NDArray[np.int64]  # randomly exposed positives
    random_inverse: npt.NDArray[np.float64]  # sum of 1 / exposure probability of these
    tested: npt.NDArray[np.int64]  # items with held-out pairs
    example: tuple[str | None, ...]  # one of these


class BadRows(NamedTuple):
    """Rows that count nowhere."""

    n_rows: int
    table: str  # of the example
    rule: str
    example: str


def item_counts(log: Log, positive: Positive, counted: Literal["logged", "train"], floor: float) -> DataFrame:
    """A row for each item: in_catalogue, the sums above, least, largest, and the first of its bad rows."""
    held = log.heldout if PROPENSITY in log.heldout.columns else log.heldout.withColumn(PROPENSITY, F.lit(None))
    of_pairs = PROPENSITY in log.heldout.columns
    p = F.col(PROPENSITY).cast("double")
    is_positive = COMPARE[positive.compare](F.col("value"), F.lit(positive.threshold)).cast("bigint")
    none_random = {"random": F.lit(0), "random_inverse": F.lit(0)}  # columns that a run without exposures has too
    parts = [
        log.catalogue.select("item_id", F.lit(True).alias("in_catalogue")),
        _judged(log.feedback, "feedback", None, {"count": F.lit(1), "trained": F.lit(1), **none_random}),
        _judged(
            held,
            "heldout",
            p if of_pairs else None,
            {
                "count": F.lit(int(counted == "logged")),
                "heldout": F.lit(1),
                "positives": is_positive,
                "inverse": is_positive * inverse(p) if of_pairs else F.lit(0),
                "squares": is_positive * inverse(p * p) if of_pairs else F.lit(0),
                "below": (p < floor).cast("bigint") if of_pairs else F.lit(0),
            },
            p,
        ),
    ]
    if log.exposures is not None:
        probable = "exposure_probability" in log.exposures.columns
        chance = F.col("exposure_probability") if probable else F.lit(1.0)
        sums = {"random": is_positive, "random_inverse": is_positive * inverse(chance)}
        parts.append(_judged(log.exposures, "exposures", chance if probable else None, sums))
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    return rows.groupBy("item_id").agg(
        F.coalesce(F.max("in_catalogue"), F.lit(False)).alias("in_catalogue"),
        *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS],
        F.min("p").alias("least"),
        F.max("p").alias("largest"),
        F.min("bad").alias("bad"),
    )


def inverse(probability: Column) -> Column:
    """1 / probability, at most 1e20, so that a decimal holds sums of it; 1e20 where the probability is 0."""
    return F.least(F.try_divide(F.lit(1.0), probability), F.lit(1e20))


def _judged(
    rows: DataFrame, table: str, probability: Column | None, sums: dict[str, Column], p: Column | None = None
) -> DataFrame:
    """The item of each row and what it adds to the sums; nothing if it breaks a rule. p: kept as it is."""
    rule = (
        F.when(F.col("user_id").isNull() | F.col("item_id").isNull(), "null_key")
        .when(F.col("value").isNull(), "null_value")
        .when(F.isnan("value"), "nan_value")
    )
    shown = {name: F.col(name) for name in ("user_id", "item_id", "value")}
    if probability is not None:
        shown["probability"] = probability
        usable = F.coalesce((probability > 0) & (probability <= 1), F.lit(False))
        rule = rule.when(~usable, "bad_probability")
    text = [
        F.concat(F.lit(f"{name}="), F.coalesce(column.cast("string"), F.lit("NULL"))) for name, column in shown.items()
    ]
    bad = F.struct(F.lit(table).alias("table"), F.col("rule").alias("rule"), F.concat_ws(", ", *text).alias("example"))
    fine = F.col("rule").isNull()
    weights = ("inverse", "squares", "random_inverse")
    return rows.withColumn("rule", rule).select(
        "item_id",
        *[
            F.when(fine, column).otherwise(F.lit(0)).cast(WEIGHT if name in weights else "bigint").alias(name)
            for name, column in sums.items()
        ],
        F.when(fine, p if p is not None else F.lit(None)).cast("double").alias("p"),
        F.when(~fine, bad).alias("bad"),
        (~fine).cast("bigint").alias("n_bad"),
    )


def histogram(items: DataFrame, edges: Sequence[float]) -> tuple[Histogram, list[BadRows]]:
    """The items of the catalogue by count and group, and the rows that count nowhere, by why: one Spark job.

    edges: of the groups, by number of training pairs, right-closed; items without training pairs are group 0.
    """
    number = reduce(add, [(F.col("trained") > F.lit(edge)).cast("int") for edge in edges], F.lit(1))
    logged = F.col("count") + F.col("heldout") + F.col("random") + F.col("n_bad")
    outside = ~F.col("in_catalogue") & F.col("item_id").isNotNull()
    tested = F.col("heldout") > 0
    rows = (
        items.withColumn("logged", logged)
        .withColumn("outside", outside & (logged > 0))
        .withColumn("count", F.when(F.col("in_catalogue"), F.col("count")).otherwise(F.lit(-1)))
        .withColumn("group", F.when(F.col("trained") > 0, number).otherwise(F.lit(0)))
        .groupBy("count", "group", "outside")
        .agg(
            F.count(F.lit(1)).alias("n_items"),
            *[F.sum(name).alias(name) for name in SUMS if name not in ("count", "trained")],
            F.min("trained").alias("trained_low"),
            F.max("trained").alias("trained_high"),
            F.min("least").alias("least"),
            F.max("largest").alias("largest"),
            F.sum("logged").alias("logged"),
            F.sum(tested.cast("bigint")).alias("tested"),
            F.min(F.when(tested, F.col("item_id")).cast("string")).alias("example"),
            F.min("item_id").cast("string").alias("first"),
            F.min("bad").alias("bad"),
        )
        .collect()
    )
    bad = [row for row in rows if row["n_bad"]]
    problems = []
    if bad:
        first = min(row["bad"] for row in bad)
        problems.append(BadRows(sum(row["n_bad"] for row in bad), *first))
    if outsiders := [row for row in rows if row["outside"]]:
        n_rows = sum(row["logged"] - row["n_bad"] for row in outsiders)
        first_id = min(row["first"] for row in outsiders)
        problems.append(BadRows(n_rows, "log", "outside_catalogue", f"item_id={first_id}"))
    known = sorted((row for row in rows if row["count"] >= 0), key=lambda row: (row["count"], row["group"]))

    def column(name: str, kind: type) -> npt.NDArray[np.generic]:
        return np.array([np.nan if row[name] is None else kind(row[name]) for row in known], kind)

    names = ("group", "trained_low", "trained_high", "n_items", "heldout", "positives", "below", "random", "tested")
    whole = {"counts": column("count", int)} | {name: column(name, int) for name in names}
    parts = {name: column(name, float) for name in ("inverse", "squares", "random_inverse", "least", "largest")}
    examples = tuple(row["example"] for row in known)
    return Histogram(**whole, **parts, example=examples), problems  # type: ignore[arg-type]
