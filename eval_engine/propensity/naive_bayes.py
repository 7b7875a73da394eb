"""The counts of rating values that naive Bayes (by_value.py) takes, and its propensities, in Spark.

More than 100 values are no rating scale.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.propensity.by_value import ValueCount
from eval_engine.propensity.item_counts import WEIGHT, inverse
from eval_engine.propensity.log import Log

MOST = 100  # values of a scale


def value_counts(log: Log) -> dict[float, ValueCount]:
    """The values of logged pairs and random exposures: one Spark job. NULL and NaN are left to the item counts."""
    assert log.exposures is not None
    chance = F.col("exposure_probability") if "exposure_probability" in log.exposures.columns else F.lit(1.0)
    exposed = log.exposures.where(F.coalesce((chance > 0) & (chance <= 1), F.lit(False)))
    parts = [
        log.pairs().select("value", F.lit(1).alias("logged"), F.lit(0).cast(WEIGHT).alias("random")),
        exposed.select("value", F.lit(0).alias("logged"), inverse(chance).cast(WEIGHT).alias("random")),
    ]
    values = reduce(DataFrame.union, parts).where(F.col("value").isNotNull() & ~F.isnan("value"))
    rows = values.groupBy("value").agg(F.sum("logged").alias("logged"), F.sum("random").alias("random"))
    found = rows.limit(MOST + 1).collect()
    if len(found) > MOST:
        raise DataError(
            f"propensity: naive_bayes needs a rating scale, but feedback, heldout and exposures have more than {MOST} "
            f"different values, such as {found[0]['value']}. Round them where the tables are made, or use another "
            "method."
        )
    return {row["value"]: ValueCount(int(row["logged"]), float(row["random"])) for row in found}


def with_propensity(heldout: DataFrame, by_value: Mapping[float, float]) -> DataFrame:
    """The held-out pairs with their propensity."""
    p = F.lit(None).cast("double")
    for value, propensity in by_value.items():
        p = F.when(F.col("value") == value, F.lit(propensity)).otherwise(p)
    return heldout.withColumn("propensity", p)
