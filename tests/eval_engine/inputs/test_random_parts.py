"""Random data in three parts: each pair in one of them, by its hash, training pairs left out."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eval_engine.config import Input
from eval_engine.errors import DataError
from eval_engine.inputs.random_parts import PARTS, Division, make_parts
from eval_engine.test_sets.keys import pair_hashes

SHARES, SEED = (0.15, 0.25), 7


def test_parts_follow_from_the_hash_and_leave_training_pairs_out(tmp_path: Path, spark: SparkSession) -> None:
    pairs = [(user, item) for user in range(40) for item in range(20)]
    trained = {(user, item) for user, item in pairs if (user + item) % 5 == 0}
    for name, rows in (("random", pairs), ("feedback", sorted(trained))):
        table = spark.createDataFrame([(*pair, 4.0) for pair in rows], "user_id BIGINT, item_id BIGINT, value DOUBLE")
        table.write.parquet(str(tmp_path / name))
    exposures, feedback = (Input(path=str(tmp_path / name), format="parquet") for name in ("random", "feedback"))
    places = {name: Input(path=str(tmp_path / f"part_{name}"), format="delta") for name in PARTS}
    assert make_parts(spark, Division(exposures, feedback, SHARES, SEED), places, "text") == len(trained)

    users, items = (pa.array([pair[n] for pair in pairs], pa.int64()) for n in (0, 1))
    number = (pair_hashes(users, items, SEED).view(np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    expected: dict[str, set[tuple[int, int]]] = {name: set() for name in PARTS}
    for pair, u in zip(pairs, number, strict=True):
        name = "tuning" if u < 0.15 else "weights" if u < 0.4 else "truth"
        if name == "weights" or pair not in trained:
            expected[name].add(pair)
    assert all(expected.values())
    found = {
        name: {(row["user_id"], row["item_id"]) for row in spark.read.format("delta").load(place.path).collect()}
        for name, place in places.items()
    }
    assert found == expected
    with pytest.raises(DataError, match="falls in the part tuning"):
        make_parts(spark, Division(exposures, feedback, (1e-12, 0.25), SEED), places, "other")
