"""The logged pairs of a run, and the random exposures that propensities are held against."""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PROPENSITY = "propensity"  # of a held-out pair


class Log(NamedTuple):
    """The tables, in our columns."""

    catalogue: DataFrame  # item_id, position
    feedback: DataFrame  # user_id, item_id, value: training pairs
    heldout: DataFrame  # user_id, item_id, value; with a propensity for each pair, where it is one of pairs
    exposures: DataFrame | None  # user_id, item_id, value, maybe exposure_probability

    def pairs(self) -> DataFrame:
        """The logged pairs that name user and item, trained or held out."""
        both = [
            rows.select("user_id", "item_id", "value", F.lit(number).alias("held"))
            for number, rows in enumerate((self.feedback, self.heldout))
        ]
        return both[0].union(both[1]).where(F.col("user_id").isNotNull() & F.col("item_id").isNotNull())


class Totals(NamedTuple):
    """How much there is."""

    n_items: int  # of the catalogue
    n_users: int  # with a logged pair
    n_cold_users: int  # with held-out pairs and no training pair
    n_pairs: int  # logged

    @property
    def density(self) -> float:
        """The share of all pairs that are logged."""
        return self.n_pairs / (self.n_users * self.n_items) if self.n_users and self.n_items else float("nan")


def totals(log: Log) -> Totals:
    """The sizes of a log: one Spark job for the users, one for the items."""
    users = log.pairs().groupBy("user_id").agg(F.count(F.lit(1)).alias("n"), F.min("held").alias("cold"))
    row = users.agg(
        F.count(F.lit(1)).alias("n_users"), F.sum("cold").alias("n_cold"), F.sum("n").alias("n_pairs")
    ).first()
    assert row is not None
    return Totals(log.catalogue.count(), row["n_users"], row["n_cold"] or 0, row["n_pairs"] or 0)
