"""Labels: what is known of each user, one row per user with lists, and the pairs that cannot be used, with the rule they break.

    random     the user's random exposures               excluded   positions that are not candidates
    truth      the complete labels, where there are any             (frame unseen: the user's logged pairs)

All label tables are laid together and gathered once, by user; the rules (kernels/label_rules.py) are applied to a user's pairs at a time.
A list is sorted by catalogue position, so it does not depend on partitioning.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.kernels.label_rules import LOGGED, RANDOM, RULES, TRUTH, Pairs, broken_rule, by_position
from eval_engine.kernels.ragged import users_of

SOURCES = ("random", "truth")  # label tables whose pairs are ranked; the third, logged, only excludes
NUMBER = {"random": RANDOM, "truth": TRUTH, "logged": LOGGED}
TABLE = {"random": "exposures", "truth": "truth", "logged": "feedback"}
OUTSIDE_FRAME = "outside_frame"

REMEDY = {
    "null_key": "user_id and item_id must be there. Fix the job that makes the table",
    "null_value": "a label needs a value. Fix the job that makes the table",
    "nan_value": "NaN is not a value: it is neither positive nor negative. Fix the job that makes the table",
    "outside_catalogue": "only items of the catalogue have scores. Add the item to the catalogue, or take the row out",
    "duplicate_key": "a pair is labelled once. Keep the one row you mean",
    "exposed_but_seen": "with frame: unseen, exposures are drawn from items without logged feedback of the user. Use frame: all_items if they were drawn from all",
}

Ints = npt.NDArray[np.int64]


def user_labels(frames: dict[str, DataFrame], catalogue: DataFrame, frame: str) -> DataFrame:
    """One row per user: random and truth (struct of positions, items, values), excluded positions, broken (pairs that break a rule), n_rows (of
    each source). frames are keyed random, truth, logged."""
    parts = (df.select(F.lit(NUMBER[source]).cast("tinyint").alias("source"), "user_id", "item_id", "value") for source, df in frames.items())
    together = reduce(DataFrame.unionByName, parts).join(catalogue.select("item_id", "position"), "item_id", "left")
    # Rows without a user would all gather in one list: they are spread, as they are judged one by one anyway.
    spread = F.when(F.col("user_id").isNull(), F.pmod(F.xxhash64("item_id", "value"), F.lit(10_000)))
    gathered = together.groupBy("user_id", spread.alias("spread")).agg(
        F.collect_list(F.struct("source", "position", "item_id", "value")).alias("pairs")
    )
    id_type = dict(catalogue.dtypes)["item_id"].upper()
    labels = f"STRUCT<positions: ARRAY<INT>, items: ARRAY<{id_type}>, values: ARRAY<DOUBLE>>"
    broken = f"ARRAY<STRUCT<source: STRING, rule: STRING, item_id: {id_type}, value: DOUBLE>>"
    schema = f"user_id {id_type}, random {labels}, truth {labels}, excluded ARRAY<INT>, broken {broken}, n_rows STRUCT<random: INT, truth: INT, logged: INT>"
    return gathered.select("user_id", "pairs").mapInArrow(_judged(frame == "unseen"), schema)


def _judged(unseen: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _judge(batch.column("user_id"), batch.column("pairs"), unseen)

    return run


def _judge(user_id: pa.Array, gathered: pa.ListArray, unseen: bool) -> pa.RecordBatch:
    """The labels of some users from their gathered pairs."""
    flat = gathered.flatten()
    offsets = np.concatenate([[0], np.cumsum(pc.list_value_length(gathered).to_numpy(zero_copy_only=False))]).astype(np.int64)
    user = users_of(offsets)
    value, item = flat.field("value"), flat.field("item_id")
    pairs = Pairs(
        offsets,
        flat.field("source").to_numpy(zero_copy_only=False),
        flat.field("position").fill_null(-1).to_numpy(zero_copy_only=False),
        value.fill_null(0.0).to_numpy(zero_copy_only=False),
        _nulls(item) | _nulls(user_id)[user],
        _nulls(value),
    )
    rule = broken_rule(pairs, unseen)
    order = by_position(pairs)

    def lists(chosen: npt.NDArray[np.bool_], column: pa.Array) -> pa.ListArray:
        """Per user, the values of the column at the chosen pairs, by position."""
        kept = order[chosen[order]]
        starts = np.concatenate([[0], np.cumsum(np.bincount(user[kept], minlength=len(user_id)))])
        return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), column.take(pa.array(kept)))

    position = pa.array(pairs.position, pa.int32())
    columns = {"user_id": user_id}
    for source in SOURCES:
        good = (rule == 0) & (pairs.source == NUMBER[source])
        columns[source] = pa.StructArray.from_arrays([lists(good, c) for c in (position, item, value)], ["positions", "items", "values"])
    # A logged pair was seen even if its value is missing or it was logged twice: it stays excluded, once.
    logged = (pairs.source == LOGGED) & (pairs.position >= 0) & ~pairs.null_key
    first = np.ones(user.size, np.bool_)
    first[order[1:]] = (user[order][1:] != user[order][:-1]) | (pairs.position[order][1:] != pairs.position[order][:-1]) | ~logged[order][:-1]
    columns["excluded"] = lists(logged & first if unseen else np.zeros(user.size, np.bool_), position)
    told = [pa.array(np.array(tuple(NUMBER))[pairs.source], pa.string()), pa.array(np.array(RULES)[rule], pa.string()), item, value]
    columns["broken"] = lists(rule > 0, pa.StructArray.from_arrays(told, ["source", "rule", "item_id", "value"]))
    counts = [pa.array(np.bincount(user[pairs.source == number], minlength=len(user_id)), pa.int32()) for number in NUMBER.values()]
    columns["n_rows"] = pa.StructArray.from_arrays(counts, list(NUMBER))
    return pa.RecordBatch.from_pydict(columns)


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def broken_pairs(labels: DataFrame) -> DataFrame:
    """user_id, source, rule, item_id, value of each pair that breaks a rule."""
    return labels.select("user_id", F.inline("broken"))


def empty_sources(labels: DataFrame, sources: Iterable[str]) -> list[str]:
    """The sources whose tables had no row at all."""
    found = labels.agg(*[F.sum(f"n_rows.{source}").alias(source) for source in sources]).first()
    return [source for source in sources if not (found and found[source])]


def broken_rules(labels: DataFrame) -> DataFrame:
    """source, rule, n_rows, example: one row per rule that some pair breaks."""
    shown = F.concat_ws(
        ", ", *[F.concat(F.lit(f"{name}="), F.coalesce(F.col(name).cast("string"), F.lit("NULL"))) for name in ("user_id", "item_id", "value")]
    )
    return broken_pairs(labels).groupBy("source", "rule").agg(F.count(F.lit(1)).alias("n_rows"), F.min(shown).alias("example"))


def refuse(source: str, rule: str, n_rows: int, example: str) -> DataError:
    """The error of a rule that is broken."""
    return DataError(
        f"{TABLE[source]}: {n_rows:,} {'row breaks' if n_rows == 1 else 'rows break'} the rule {rule} (first: {example}): {REMEDY[rule]}, "
        "or set on_bad_rows: quarantine."
    )
