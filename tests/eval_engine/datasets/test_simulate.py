"""The world's tables in Spark: the same on any partitioning, and the same rows that the numpy world makes."""

from collections.abc import Callable

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from eval_engine.datasets import simulate
from eval_engine.datasets.world import Pairs, World, exposed, item_ids, items_of, kept_truth, logged, user_ids

WORLD = World(users=50, items=90, exposures=6, shown=30, seed=11, truth_share=0.5)
PAIRS: dict[str, Callable[[World, int], Pairs]] = {"feedback": logged, "exposures": exposed, "truth": kept_truth}


def rows(table: DataFrame) -> list[tuple[object, ...]]:
    """All rows, sorted."""
    return sorted(tuple(row) for row in table.collect())


@pytest.mark.parametrize("name", [*PAIRS, "catalogue"])
def test_same_rows_for_1_and_5_partitions_and_twice(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, spark_range = [], spark.range
    for n in (1, 5, 5):
        monkeypatch.setattr(spark, "range", lambda end, n=n: spark_range(0, end, 1, n))
        table = getattr(simulate, name)(spark, WORLD)
        assert table.rdd.getNumPartitions() == n
        found.append(rows(table))
    assert found[0] == found[1] == found[2] != []


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_those_of_the_numpy_world(spark: SparkSession, name: str) -> None:
    expected = [
        (user_id, item_id, value)
        for user, user_id in enumerate(user_ids(np.arange(WORLD.users)).tolist())
        for pairs in [PAIRS[name](WORLD, user)]
        for item_id, value in zip(item_ids(pairs.positions).tolist(), pairs.values.tolist(), strict=True)
    ]
    table = getattr(simulate, name)(spark, WORLD)
    assert rows(table) == expected
    assert table.dtypes == [("user_id", "bigint"), ("item_id", "bigint"), ("value", "double")]


def test_keys_are_unique_and_exposures_were_not_logged(spark: SparkSession) -> None:
    feedback, exposures = simulate.feedback(spark, WORLD), simulate.exposures(spark, WORLD)
    for table in (feedback, exposures):
        assert table.select("user_id", "item_id").distinct().count() == table.count()
        assert table.join(simulate.catalogue(spark, WORLD), "item_id", "left_anti").count() == 0
    assert exposures.join(feedback, ["user_id", "item_id"]).count() == 0
    assert {row["count"] for row in exposures.groupBy("user_id").count().collect()} == {WORLD.exposures}
    assert exposures.select("user_id").distinct().count() == WORLD.users


def test_truth_is_whole_for_the_users_it_is_kept_of(spark: SparkSession) -> None:
    counts = [row["count"] for row in simulate.truth(spark, WORLD).groupBy("user_id").count().collect()]
    assert set(counts) == {WORLD.items}
    assert 0 < len(counts) < WORLD.users
    nobody = World.model_validate(WORLD.model_dump() | {"truth_share": 0.0})
    assert rows(simulate.truth(spark, nobody)) == []


def test_catalogue_holds_every_item_in_the_order_of_positions(spark: SparkSession) -> None:
    table, items = simulate.catalogue(spark, WORLD), items_of(WORLD)
    found = table.orderBy("position").collect()
    assert table.dtypes[:4] == [
        ("item_id", "bigint"),
        ("position", "int"),
        ("category", "int"),
        ("duration_seconds", "double"),
    ]
    assert table.columns[4:] == ["feature_0", "feature_1", "feature_2"]
    assert [row.position for row in found] == list(range(WORLD.items))
    assert [row.item_id for row in found] == item_ids(np.arange(WORLD.items)).tolist()
    assert [row.category for row in found] == items.category.tolist()
    assert [row.duration_seconds for row in found] == items.duration_seconds.tolist()
    assert [row.feature_2 for row in found] == items.features[2].tolist()


def test_batches_are_bounded_and_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "ROWS_PER_BATCH", 100)
    users = iter(range(WORLD.users))
    batches = list(simulate.pair_batches(WORLD, users, exposed))
    assert [batch.num_rows for batch in batches] == [
        102,
        102,
        96,
    ]  # 17 users of 6 reach 100; the last batch holds the rest
    assert np.array_equal(
        np.unique(np.concatenate([batch["user_id"].to_numpy() for batch in batches])), user_ids(np.arange(WORLD.users))
    )
