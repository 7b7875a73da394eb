"""Counts of training, held-out and random pairs of each user and item with Spark, their totals, and the hashes of caps.

A row without a user, an item or a value counts nowhere, as in the stage `rank`; items outside the catalogue are found
when the pairs are drawn. Counts go to workers in files (storage/keyed_table.py), so that no pair is joined.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.keyed_table import KEY, KeyedTable
from eval_engine.storage.stored_file import located
from eval_engine.test_sets.cap import cap_of
from eval_engine.test_sets.factors import Totals
from eval_engine.test_sets.rule import KEEP_ALL, RANDOM, TRAINED, CountTables, SetRule

HELDOUT = "heldout"
COUNTED = (TRAINED, HELDOUT, RANDOM)
SIGN = -(2**63)


class PairTables(NamedTuple):
    """The pairs of a run: user_id, item_id, value."""

    catalogue: DataFrame  # item_id
    feedback: DataFrame
    heldout: DataFrame
    exposures: DataFrame | None

    def named(self) -> dict[str, DataFrame]:
        """The tables of pairs by the count that they give."""
        found = {TRAINED: self.feedback, HELDOUT: self.heldout}
        return found if self.exposures is None else found | {RANDOM: self.exposures}


class BadRows(NamedTuple):
    """Rows that count nowhere."""

    n: int
    example: str


class TableTotals(NamedTuple):
    """Sums over users, or items."""

    n: int
    trained: int
    heldout: int
    random: int

    @property
    def totals(self) -> Totals:
        """What weights need of them."""
        return Totals(self.trained, self.random, self.n)


def usable(pairs: DataFrame) -> DataFrame:
    """The rows with a user, an item and a value."""
    return pairs.where(_is_usable())


def _is_usable() -> Any:
    return F.col("user_id").isNotNull() & F.col("item_id").isNotNull() & F.col("value").isNotNull() & ~F.isnan("value")


def bad_rows(tables: PairTables) -> BadRows | None:
    """The rows that are not usable, of all tables: one Spark job."""
    names = {TRAINED: "feedback", HELDOUT: "heldout", RANDOM: "exposures"}
    parts = []
    for count, pairs in tables.named().items():
        shown = [
            F.concat(F.lit(f"{name}="), F.coalesce(F.col(name).cast("string"), F.lit("NULL")))
            for name in ("user_id", "item_id", "value")
        ]
        text = F.concat(F.lit(f"{names[count]}: "), F.concat_ws(", ", *shown))
        parts.append(pairs.where(~F.coalesce(_is_usable(), F.lit(False))).select(text.alias("example")))
    found = reduce(DataFrame.union, parts).agg(F.count(F.lit(1)).alias("n"), F.min("example").alias("example")).first()
    assert found is not None
    return BadRows(found["n"], found["example"]) if found["n"] else None


def user_counts(tables: PairTables) -> DataFrame:
    """user_id, trained, heldout, random: the users with a pair in any of the tables."""
    return _counts([], tables.named(), "user_id")


def item_counts(tables: PairTables) -> DataFrame:
    """item_id, trained, heldout, random: the items of the catalogue; and in_catalogue, which others do not have."""
    listed = tables.catalogue.select("item_id", F.lit(True).alias("in_catalogue"))
    return _counts([listed], tables.named(), "item_id")


def _counts(first: list[DataFrame], pairs: dict[str, DataFrame], key: str) -> DataFrame:
    parts = [*first, *(usable(rows).select(key, F.lit(1).alias(name)) for name, rows in pairs.items())]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    sums = [
        F.coalesce(F.sum(name) if name in rows.columns else F.lit(0), F.lit(0)).cast("bigint").alias(name)
        for name in COUNTED
    ]
    listed = [F.coalesce(F.max("in_catalogue"), F.lit(False)).alias("in_catalogue")] if first else []
    return rows.groupBy(key).agg(*sums, *listed)


def totals_of(counts: DataFrame) -> TableTotals:
    """The sums of a table of counts: one Spark job."""
    row = counts.agg(F.count(F.lit(1)).alias("n"), *[F.sum(name).alias(name) for name in COUNTED]).first()
    assert row is not None
    return TableTotals(row["n"], *(row[name] or 0 for name in COUNTED))


def cap_of_items(items: DataFrame) -> int:
    """The most held-out pairs of an item, from the distinct counts: one Spark job."""
    rows = items.where(F.col(HELDOUT) > 0).groupBy(HELDOUT).count().collect()
    return cap_of(
        np.array([row[HELDOUT] for row in rows], np.int64), np.array([row["count"] for row in rows], np.int64)
    )


def cap_hashes(pairs: DataFrame, items: DataFrame, cap: int, rules: Sequence[SetRule]) -> DataFrame:
    """item_id, and for each rule the hash of the item's last pair, sign bit flipped; only items beyond the cap.

    Hashes are uniform, so that the cap-th smallest of n is near cap / n of all: only those below a bound 10 standard
    deviations above it are collected.
    """
    beyond = items.where(F.col(HELDOUT) > cap).select("item_id", F.col(HELDOUT).alias("n"))
    bound = F.least(F.lit(1.0), F.lit(cap + 10 * cap**0.5 + 30) / F.col("n")) * F.lit(2.0**64) - F.lit(2.0**63)
    hashes = F.array(
        *[
            F.struct(F.lit(n).alias("rule"), F.xxhash64(F.lit(rule.seed).cast("bigint"), "user_id", "item_id")
                     .bitwiseXOR(F.lit(SIGN)).alias("hash"))
            for n, rule in enumerate(rules)
        ]
    )  # fmt: skip
    near = (
        pairs.join(F.broadcast(beyond), "item_id")
        .select("item_id", bound.alias("bound"), F.explode(hashes).alias("one"))
        .where(F.col("one.hash").cast("double") <= F.col("bound"))
    )
    last = F.try_element_at(F.sort_array(F.collect_list("one.hash")), F.lit(cap))
    by_rule = near.groupBy("item_id", F.col("one.rule").alias("rule")).agg(last.alias("hash"))
    columns = [F.max(F.when(F.col("rule") == n, F.col("hash"))).alias(f"cap_{n}") for n in range(len(rules))]
    return by_rule.groupBy("item_id").agg(*columns)


def stored(users: DataFrame, items: DataFrame, folder: str) -> tuple[KeyedTable, KeyedTable]:
    """Counts in files, keyed by id: one Spark job. Other columns of items than counts are hashes of caps."""
    tables = []
    for of, rows in (("user", users), ("item", items)):
        names = tuple(name for name in rows.columns if name != f"{of}_id")
        tables.append((of, names, rows.select(F.col(f"{of}_id").alias("id"), *names)))
    written: dict[str, list[str]] = {"user": [], "item": []}
    parts = [rows.mapInArrow(_writer(of, names, folder), "of STRING, path STRING") for of, names, rows in tables]
    for row in reduce(DataFrame.union, parts).collect():
        written[row["of"]].append(row["path"])
    found = [KeyedTable(f"test_set_{of}s", tuple(sorted(written[of])), names) for of, names, _ in tables]
    return found[0], found[1]


def _writer(of: str, names: tuple[str, ...], folder: str) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [batch for batch in batches if batch.num_rows]
        if not parts:
            return
        rows = pa.Table.from_batches(parts)
        columns = {KEY: pa.array(xxhash64(rows.column("id")), pa.int64())}
        for name in names:
            columns[name] = rows.column(name).combine_chunks().fill_null(KEEP_ALL if name.startswith("cap_") else 0)
        system, place = located(folder)
        system.create_dir(place, recursive=True)
        path = f"{of}-{uuid4().hex}.parquet"
        with system.open_output_stream(f"{place}/{path}") as handle:
            pq.write_table(pa.table(columns), handle)
        yield pa.RecordBatch.from_pydict({"of": pa.array([of]), "path": pa.array([f"{folder}/{path}"])})

    return run


def count_tables(
    files: tuple[KeyedTable, KeyedTable], users: TableTotals | Totals, items: TableTotals | Totals
) -> CountTables:
    """The stored tables with their totals."""
    own = [one.totals if isinstance(one, TableTotals) else one for one in (users, items)]
    return CountTables(*files, *own)


def check_random(rules: Sequence[SetRule], n_random: int) -> None:
    """An error if a set needs a random sample, and there is none."""
    for rule in rules:
        if rule.weighing.strategy == "WTD" and not n_random:
            raise DataError(
                f"exposures: the table has no pair, so that the test set {rule.name} (WTD) has no target. Give random "
                "exposures, or use strategy: WTD_H."
            )
