"""The catalogue: item_id and position, 0 to N-1, the order of dense score vectors. A catalogue that is out of order is never mended."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.errors import DataError


def n_items(catalogue: DataFrame) -> int:
    """How many items there are (0: the table is empty), after making sure that each has a position of its own from 0 to N-1."""
    copies = catalogue.groupBy("item_id").agg(F.count(F.lit(1)).alias("copies"), F.min("position").alias("low"), F.max("position").alias("high"))
    found = copies.agg(
        F.sum("copies").alias("n"),
        F.sum(F.col("item_id").isNull().cast("int") * F.col("copies")).alias("nulls"),
        F.min(F.when((F.col("copies") > 1) & F.col("item_id").isNotNull(), F.col("item_id"))).alias("twice"),
        F.min(F.when(F.col("low").isNull(), F.col("item_id"))).alias("nowhere"),
        F.min("low").alias("low"),
        F.max("high").alias("high"),
        F.count_distinct("low").alias("places"),
    ).first()
    n = int(found["n"] or 0) if found else 0
    if not found or not n:
        return 0
    if found["nulls"]:
        raise DataError(f"catalogue: {found['nulls']} rows have item_id=NULL. Fix the job that makes the catalogue.")
    if found["twice"] is not None:
        raise DataError(f"catalogue: item_id={found['twice']} stands in it more than once. An item has one position: remove the copies.")
    if found["nowhere"] is not None:
        raise DataError(f"catalogue: item_id={found['nowhere']} has position=NULL. Give every item its place in the score vectors, 0 to {n - 1}.")
    if (found["low"], found["high"], found["places"]) != (0, n - 1, n):
        raise DataError(
            f"catalogue: positions of {n} items must be 0 to {n - 1}, each once; found {found['places']} different ones from {found['low']} to {found['high']}. "
            "They are the order of the score vectors: take them from the job that writes the scores."
        )
    return n
