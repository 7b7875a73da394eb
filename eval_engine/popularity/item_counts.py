"""The number of training positives of each item of the catalogue: one groupBy of feedback.

A row of feedback without key or value breaks a rule, as does an item outside the catalogue; such rows count nowhere.
"""

from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from eval_engine.kernels.arrays import Ints
from eval_engine.popularity.classes import CLASSES, Thresholds
from eval_engine.positive import COMPARE, Positive


class CountsRead(NamedTuple):
    """The distinct counts, and what breaks a rule."""

    counts: Ints  # in rising order
    n_items: Ints  # of the catalogue, with each count
    n_bad_rows: int
    example: str | None  # of a bad row


def item_counts(catalogue: DataFrame, feedback: DataFrame, positive: Positive) -> DataFrame:
    """A row for each item: in_catalogue, count, n_rows, n_bad, and the first of its bad rows."""
    bad = F.col("user_id").isNull() | F.col("item_id").isNull() | F.col("value").isNull() | F.isnan("value")
    shown = [
        F.concat(F.lit(f"{name}="), F.coalesce(F.col(name).cast("string"), F.lit("NULL")))
        for name in ("user_id", "item_id", "value")
    ]
    pairs = feedback.select(
        "item_id",
        F.lit(False).alias("in_catalogue"),
        F.when(~bad & is_positive(positive), 1).otherwise(0).cast("bigint").alias("count"),
        F.lit(1).cast("bigint").alias("n_rows"),
        bad.cast("bigint").alias("n_bad"),
        F.when(bad, F.concat_ws(", ", *shown)).alias("bad"),
    )
    nothing = [F.lit(0).cast("bigint").alias(name) for name in ("count", "n_rows", "n_bad")]
    items = catalogue.select(
        "item_id", F.lit(True).alias("in_catalogue"), *nothing, F.lit(None).cast("string").alias("bad")
    )
    return (
        items.unionByName(pairs)
        .groupBy("item_id")
        .agg(
            F.max("in_catalogue").alias("in_catalogue"),
            *[F.sum(name).alias(name) for name in ("count", "n_rows", "n_bad")],
            F.min("bad").alias("bad"),
        )
    )


def is_positive(positive: Positive) -> Column:
    """Whether the value of a row is a positive."""
    return COMPARE[positive.compare](F.col("value"), F.lit(positive.threshold))


def distinct_counts(items: DataFrame) -> CountsRead:
    """The number of items by count, and of rows that break a rule: one Spark job."""
    outside = ~F.col("in_catalogue")
    rows = (
        items.withColumn("count", F.when(outside, F.lit(-1)).otherwise(F.col("count")))
        .withColumn("outside", F.when(outside & F.col("item_id").isNotNull(), F.col("n_rows")).otherwise(F.lit(0)))
        .groupBy("count")
        .agg(
            F.count(F.lit(1)).alias("n_items"),
            F.sum(F.greatest("n_bad", "outside")).alias("n_bad"),
            F.min("bad").alias("bad"),
            F.min(F.when(F.col("outside") > 0, F.col("item_id").cast("string"))).alias("outsider"),
        )
        .collect()
    )
    known = sorted((row["count"], row["n_items"]) for row in rows if row["count"] >= 0)
    examples = [row["bad"] for row in rows if row["bad"]]
    examples += [f"item_id={row['outsider']} is not in the catalogue" for row in rows if row["outsider"] is not None]
    return CountsRead(
        np.array([count for count, _ in known], np.int64),
        np.array([n for _, n in known], np.int64),
        sum(row["n_bad"] for row in rows),
        min(examples, default=None),
    )


def with_class(items: DataFrame, found: Thresholds) -> DataFrame:
    """The rows of the table popularity, without run_id."""
    count = F.col("count")
    name = (
        F.when(count == 0, CLASSES[0])
        .when(count <= F.lit(found.low_at_most), CLASSES[1])
        .when(count <= F.lit(found.high_above), CLASSES[2])
        .otherwise(CLASSES[3])
    )
    return items.where("in_catalogue").select("item_id", "count", name.alias("class"))
