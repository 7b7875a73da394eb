"""Random data in three parts: for tuning, for the marginals of weights, and as the truth.

    U(xxhash64(seed, user_id, item_id)) < tuning                 tuning;  U(h) = (h >>> 11) / 2^53, in [0, 1)
                                        < tuning + weights       weights
                                        otherwise                truth

Which part a pair falls in depends on its ids only, so that a pair is in the same part on any machine. Training pairs
are no candidates, so they are left out of tuning and truth; the marginals of weights keep them.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.config import Input
from eval_engine.errors import DataError
from eval_engine.inputs.label_sets import PAIR
from eval_engine.inputs.made_table import made_from, make_table
from eval_engine.inputs.read import read_input

TUNING, WEIGHTS, TRUTH = PARTS = ("tuning", "weights", "truth")
SEEN = "_plumbline_seen"


class Division(NamedTuple):
    """How random data is divided."""

    exposures: Input
    feedback: Input  # the training pairs
    shares: tuple[float, float]  # of tuning and weights
    seed: int


def make_parts(spark: SparkSession, division: Division, places: dict[str, Input], text: str) -> int:
    """Write each part to its place, those that are not made from the same; how many random pairs are training pairs.
    text: what the parts follow from."""
    rows = read_input(spark, "exposures", division.exposures, PAIR)
    seen = read_input(spark, "feedback", division.feedback, PAIR).select("user_id", "item_id")
    rows = rows.join(seen.withColumn(SEEN, F.lit(True)), ["user_id", "item_id"], "left").persist()
    try:
        for name, place in places.items():
            if made_from(place, spark) == text:
                continue
            own = part_of(rows, division.shares, division.seed, name)
            if name != WEIGHTS:
                own = own.where(F.col(SEEN).isNull())
            if own.isEmpty():
                raise DataError(
                    f"exposures: no pair of {division.exposures.path} falls in the part {name} (seed {division.seed}). "
                    "The part needs a larger share, or the table more pairs."
                )
            make_table(own.drop(SEEN), place, text)
        return rows.where(F.col(SEEN)).count()
    finally:
        rows.unpersist()


def part_of(rows: DataFrame, shares: tuple[float, float], seed: int, name: str) -> DataFrame:
    """The rows of one part."""
    hashed = F.xxhash64(F.lit(seed).cast("bigint"), "user_id", "item_id")
    number = F.shiftrightunsigned(hashed, 11).cast("double") * F.lit(2.0**-53)
    tuning, weights = shares
    part = F.when(number < tuning, TUNING).when(number < tuning + weights, WEIGHTS).otherwise(TRUTH)
    return rows.where(part == name)
