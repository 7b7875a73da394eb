"""The tables of a synthetic world as DataFrames: feedback, exposures, truth, catalogue.

Tasks get user numbers from spark.range and generate the rows themselves: nothing passes through the driver, and each
worker rebuilds the items from the seed. A user's rows depend on (world, user) only: any partitioning, retry and number
of executors gives the same tables. Rows leave Python as flat Arrow batches, cut between users once they hold
ROWS_PER_BATCH: a task holds one batch, however large the world.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from eval_engine.datasets.world import (
    Pairs,
    World,
    exposed,
    item_ids,
    items_of,
    kept_truth,
    logged,
    logged_to_split,
    user_ids,
)
from eval_engine.spark.worker_process import prepare_worker

ROWS_PER_BATCH = 1 << 17  # 3 MB
PAIRS = "user_id BIGINT, item_id BIGINT, value DOUBLE"


def feedback(spark: SparkSession, world: World) -> DataFrame:
    """Logged feedback, missing not at random: user_id, item_id, value."""
    return _pairs(spark, world, logged)


def log_to_split(spark: SparkSession, world: World, share: float) -> DataFrame:
    """Logged feedback of which a share is going to be held out: user_id, item_id, value, propensity."""
    return _pairs(spark, world, partial(logged_to_split, share=share), f"{PAIRS}, propensity DOUBLE")


def exposures(spark: SparkSession, world: World) -> DataFrame:
    """Random exposures, all of them answered: user_id, item_id, value."""
    return _pairs(spark, world, exposed)


def truth(spark: SparkSession, world: World) -> DataFrame:
    """The rating of every item, seen or not, by the users whose truth is kept: user_id, item_id, value."""
    return _pairs(spark, world, kept_truth)


def catalogue(spark: SparkSession, world: World) -> DataFrame:
    """The items: item_id, position, category, duration_seconds, feature_0, feature_1, ..."""
    names = [f"feature_{j}" for j in range(world.features)]
    schema = ", ".join(
        ["item_id BIGINT, position INT, category INT, duration_seconds DOUBLE", *(f"{name} DOUBLE" for name in names)]
    )

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        items = items_of(world)
        for batch in batches:
            positions = batch.column(0).to_numpy()
            known = [
                item_ids(positions),
                positions.astype(np.int32),
                items.category[positions],
                items.duration_seconds[positions],
            ]
            columns = known + [feature[positions] for feature in items.features]
            yield pa.RecordBatch.from_arrays(
                [pa.array(c) for c in columns], ["item_id", "position", "category", "duration_seconds", *names]
            )

    return spark.range(world.items).mapInArrow(rows, schema)


def _pairs(
    spark: SparkSession, world: World, pairs_of: Callable[[World, int], Pairs], schema: str = PAIRS
) -> DataFrame:
    """One row per pair of every user."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        return pair_batches(world, (user for batch in batches for user in batch.column(0).to_pylist()), pairs_of)

    return spark.range(world.users).mapInArrow(rows, schema)


def pair_batches(
    world: World, users: Iterable[int], pairs_of: Callable[[World, int], Pairs]
) -> Iterator[pa.RecordBatch]:
    """The pairs of these users, one row per pair, in batches that close at the first user boundary after ROWS_PER_BATCH
    rows.
    """
    waiting: dict[int, Pairs] = {}
    n_rows = 0
    for user in users:
        waiting[user] = pairs_of(world, user)
        n_rows += len(waiting[user].positions)
        if n_rows >= ROWS_PER_BATCH:
            yield _flat(waiting)
            waiting, n_rows = {}, 0
    if n_rows:
        yield _flat(waiting)


def _flat(pairs: dict[int, Pairs]) -> pa.RecordBatch:
    """The pairs of each user as one Arrow batch."""
    user = np.repeat(user_ids(np.array(list(pairs))), [len(of_user.positions) for of_user in pairs.values()])
    item = item_ids(np.concatenate([of_user.positions for of_user in pairs.values()]))
    columns = {"user_id": user, "item_id": item, "value": np.concatenate([of.values for of in pairs.values()])}
    propensities = [of.propensities for of in pairs.values() if of.propensities is not None]
    if propensities:
        columns["propensity"] = np.concatenate(propensities)
    return pa.RecordBatch.from_pydict(columns)
