"""The popularity of a run, prepared for workers: the count and class of each item, and how many training pairs of each
class a user has.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.estimators.metrics.parity import CLASSES
from eval_engine.evaluation.slice_tables import SourceTable
from eval_engine.evaluation.spec import POPULARITY, PopularityRule
from eval_engine.popularity.classes import CLASSES as ALL_CLASSES
from eval_engine.storage.keyed_table import KeyedTable

COUNTS, TRAINED = "popularity counts", "training pairs by class"  # names of source tables


class PopularityTables(NamedTuple):
    """What evaluating needs of the popularity of a run."""

    row: Mapping[str, Any]  # of popularity_classes
    sources: tuple[SourceTable, ...]

    def rule(self, tables: Sequence[KeyedTable]) -> PopularityRule:
        """The rule, with the stored tables of the sources."""
        stored = {table.name: table for table in tables}
        sizes = tuple(int(self.row[f"n_{name}"]) for name in CLASSES)
        return PopularityRule(stored[COUNTS], stored[TRAINED], sizes, int(self.row["n_users"]))


def popularity_tables(row: Mapping[str, Any], items: DataFrame, feedback: DataFrame) -> PopularityTables:
    """From the row of popularity_classes, the table popularity, and the training pairs: one groupBy of feedback."""
    low = (F.col("class") == CLASSES[0]).cast("double").alias("low")
    by_class = [F.sum((F.col("class") == name).cast("double")).alias(name) for name in CLASSES]
    pairs = feedback.where("user_id IS NOT NULL").join(items.select("item_id", "class"), "item_id")
    trained = pairs.groupBy("user_id").agg(*by_class)
    counts = items.select("item_id", F.col("count").cast("double").alias("count"), low)
    classes = items.select("item_id", F.col("class").alias(POPULARITY))
    present = tuple(sorted(name for name in ALL_CLASSES if row[f"n_{name}"]))
    return PopularityTables(
        row,
        (
            SourceTable(POPULARITY, "item", classes, (POPULARITY,), True, present),
            SourceTable(COUNTS, "item", counts, ("count", "low"), False),
            SourceTable(TRAINED, "user", trained, CLASSES, False),
        ),
    )
