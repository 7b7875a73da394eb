"""What was shown by a plan, held against the plan: DataFrames in, DataFrames and counts out.

A pair that was planned and shown has its probability and arms, and counts. Shown but not planned: it has no
probability, and is left out. Planned but not shown: its answer is missing. Where that depends on what users would have
answered it is a bias, and 1 / pi tells how large it could be: if all missing ones were positives,

    share of positives among the candidates   + sum of 1 / pi of the missing / sum of 1 / pi of all planned

over the users of whom something came back. Users of whom nothing came back were not reached: estimates are of the
others.
"""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PAIR = ("user_id", "item_id")
FLAGS = ("in_uniform", "in_targeted")


class Returned(NamedTuple):
    """How what was shown differs from the plan."""

    n_planned: int  # pairs
    n_shown: int  # of these
    n_missing: int  # of these, of users of whom something came back
    n_users: int  # planned
    n_reached: int  # of whom something came back
    n_unplanned: int  # rows of shown that are not in the plan
    unplanned: str | None  # one of them
    n_twice: int  # planned pairs that shown has more than once
    twice: str | None
    bias: float  # how much higher the share of positives could be

    @property
    def share_missing(self) -> float:
        """Of the planned pairs of reached users."""
        return self.n_missing / max(1, self.n_missing + self.n_shown)


def joined(plan: DataFrame, shown: DataFrame) -> DataFrame:
    """A row per planned or shown pair: its value, n_shown, and of a planned one exposure_probability and arms."""
    items = F.explode(F.arrays_zip("items", "probabilities", *FLAGS)).alias("own")
    planned = plan.select("user_id", items).select(
        "user_id",
        F.col("own.items").alias("item_id"),
        F.col("own.probabilities").alias("exposure_probability"),
        *[F.col(f"own.{flag}").alias(flag) for flag in FLAGS],
    )
    by_pair = shown.groupBy(*PAIR).agg(F.first("value").alias("value"), F.count(F.lit(1)).alias("n_shown"))
    return planned.join(by_pair, list(PAIR), "full_outer")


def label_sets(pairs: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Designed exposures, with their probabilities and arms, and those of arm U."""
    kept = pairs.where("exposure_probability IS NOT NULL AND n_shown = 1")
    return kept.select(*PAIR, "value", "exposure_probability", *FLAGS), kept.where("in_uniform").select(*PAIR, "value")


def returned(pairs: DataFrame) -> Returned:
    """The counts of joined pairs."""
    planned, there = F.col("exposure_probability").isNotNull(), F.col("n_shown").isNotNull()
    text = F.concat(
        F.lit("user_id="), F.coalesce(F.col("user_id").cast("string"), F.lit("NULL")),
        F.lit(", item_id="), F.coalesce(F.col("item_id").cast("string"), F.lit("NULL")),
    )  # fmt: skip
    inverse = 1 / F.col("exposure_probability")
    by_user = pairs.groupBy("user_id").agg(
        F.count_if(planned).alias("planned"),
        F.count_if(planned & there).alias("shown"),
        F.count_if(planned & ~there).alias("missing"),
        F.sum(F.when(~planned, F.col("n_shown"))).alias("unplanned"),
        F.min(F.when(~planned, text)).alias("an_unplanned"),
        F.count_if(planned & (F.col("n_shown") > 1)).alias("twice"),
        F.min(F.when(planned & (F.col("n_shown") > 1), text)).alias("a_twice"),
        F.sum(F.when(planned & ~there, inverse)).alias("lost"),
        F.sum(inverse).alias("weight"),
    )
    reached = F.col("shown") > 0
    row: Any = by_user.agg(
        F.sum("planned"),
        F.sum("shown"),
        F.sum(F.when(reached, F.col("missing"))),
        F.count_if(F.col("planned") > 0),
        F.count_if(reached),
        F.sum("unplanned"),
        F.min("an_unplanned"),
        F.sum("twice"),
        F.min("a_twice"),
        F.sum(F.when(reached, F.col("lost"))) / F.sum(F.when(reached, F.col("weight"))),
    ).first()
    values: Any = (0 if value is None and n not in (6, 8) else value for n, value in enumerate(row))
    return Returned(*values)
