"""Labels: what is known of each user, one row per user with lists, and the pairs that cannot be used, with the rule they break.

All label tables are laid together and gathered once, by user; a user's pairs are judged together (judged_labels.py).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from eval_engine.judged_labels import NUMBER, judge
from eval_engine.worker_process import settle


def user_labels(frames: dict[str, DataFrame], catalogue: DataFrame, frame: str) -> DataFrame:
    """One row per user: random and truth (packed positions and values), excluded (packed positions), broken (pairs that break a rule), n_rows (of
    each source). frames are keyed random, truth, logged."""
    parts = (df.select(F.lit(NUMBER[source]).cast("tinyint").alias("source"), "user_id", "item_id", "value") for source, df in frames.items())
    together = reduce(DataFrame.unionByName, parts).join(catalogue.select("item_id", "position"), "item_id", "left")
    # Rows without a user would all gather in one list: they are spread, as they are judged one by one anyway.
    spread = F.when(F.col("user_id").isNull(), F.pmod(F.xxhash64("item_id", "value"), F.lit(10_000)))
    gathered = together.groupBy("user_id", spread.alias("spread")).agg(
        F.collect_list(F.struct("source", "position", "item_id", "value")).alias("pairs")
    )
    id_type = dict(catalogue.dtypes)["item_id"].upper()
    labels = "STRUCT<positions: BINARY, values: BINARY>"
    broken = f"ARRAY<STRUCT<source: STRING, rule: STRING, item_id: {id_type}, value: DOUBLE>>"
    schema = (
        f"user_id {id_type}, random {labels}, truth {labels}, excluded BINARY, broken {broken}, n_rows STRUCT<random: INT, truth: INT, logged: INT>"
    )
    return gathered.select("user_id", "pairs").mapInArrow(_judged(frame == "unseen"), schema)


def _judged(unseen: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            yield judge(batch.column("user_id"), batch.column("pairs"), unseen)

    return run


def broken_pairs(labels: DataFrame) -> DataFrame:
    """user_id, source, rule, item_id, value of each pair that breaks a rule."""
    return labels.select("user_id", F.inline("broken"))


def label_counts(labels: DataFrame, sources: Iterable[str]) -> tuple[list[str], int]:
    """The sources whose tables had no row at all, and the largest number of pairs of a user."""
    of_user = reduce(Column.__add__, [F.col(f"n_rows.{source}") for source in sources])
    found = labels.agg(*[F.sum(f"n_rows.{source}").alias(source) for source in sources], F.max(of_user).alias("most")).first()
    return [source for source in sources if not (found and found[source])], int(found["most"] or 0) if found else 0


def broken_rules(labels: DataFrame) -> DataFrame:
    """source, rule, n_rows, example: one row per rule that some pair breaks."""
    shown = F.concat_ws(
        ", ", *[F.concat(F.lit(f"{name}="), F.coalesce(F.col(name).cast("string"), F.lit("NULL"))) for name in ("user_id", "item_id", "value")]
    )
    return broken_pairs(labels).groupBy("source", "rule").agg(F.count(F.lit(1)).alias("n_rows"), F.min(shown).alias("example"))
