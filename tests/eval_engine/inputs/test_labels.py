"""Lists of labels and of probabilities from pairs in any order, without Spark, against loops over the pairs."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.inputs.labels import NUMBER, UserPairs, judge, refuse, violations
from eval_engine.spark.binary_lists import unpack

ITEMS = (40, 10, 30, 20)
PROBABILITY = st.sampled_from([0.25, 1.0, 1e-9, 0.0, -0.5, 1.5, math.nan, None])
PAIR = st.tuples(st.sampled_from(sorted(NUMBER)), st.integers(0, 3), st.sampled_from([1.0, 5.0]), PROBABILITY)
USERS = st.lists(st.lists(PAIR, max_size=6, unique_by=lambda pair: pair[:2]), max_size=4)
Pair = tuple[str, int, float, float | None]


def user_pairs(users: list[list[Pair]], known: bool) -> UserPairs:
    flat = [pair for user in users for pair in user]
    offsets = np.concatenate([[0], np.cumsum([len(user) for user in users])]).astype(np.int64)
    source = np.array([NUMBER[pair[0]] for pair in flat], np.int8)
    position = np.array([pair[1] for pair in flat], np.int32)
    item_id = pa.array([ITEMS[pair[1]] for pair in flat], pa.int64())
    value = pa.array([pair[2] for pair in flat], pa.float64())
    probability = pa.array([pair[3] if pair[0] == "random" else None for pair in flat], pa.float64())
    return UserPairs(offsets, source, position, item_id, value, *([probability] if known else []))


def lists(column: pa.Array, kind: Any) -> list[list[Any]]:
    offsets, values = unpack(column, kind)
    return [values[start:end].tolist() for start, end in pairwise(offsets)]


def usable(pair: Pair) -> bool:
    return pair[0] != "random" or (pair[3] is not None and 0 < pair[3] <= 1)


@settings(deadline=None)  # the first call compiles
@given(USERS)
def test_each_probability_stands_beside_its_item(users: list[list[Pair]]) -> None:
    found = judge(pa.array(range(len(users)), pa.int64()), user_pairs(users, True), False)
    random = found.labels.column("random")
    together = zip(
        lists(random.field("positions"), np.int32),
        lists(random.field("values"), np.float64),
        lists(random.field("probabilities"), np.float64),
        strict=True,
    )
    want = [sorted(pair[1:] for pair in user if pair[0] == "random" and usable(pair)) for user in users]
    assert [list(zip(*own, strict=True)) for own in together] == want
    bad = [(n, ITEMS[pair[1]], repr(pair[3])) for n, user in enumerate(users) for pair in user if not usable(pair)]
    rows = found.broken.to_pylist()
    assert sorted((row["user_id"], row["item_id"], repr(row["exposure_probability"])) for row in rows) == sorted(bad)
    assert {(row["source"], row["rule"]) for row in rows} <= {("random", "bad_probability")}
    assert found.labels.schema.field("truth").type.names == ["positions", "values"]


def test_without_the_column_there_is_no_list() -> None:
    users: list[list[Pair]] = [[("random", 2, 1.0, None), ("logged", 1, 1.0, None)], []]
    found = judge(pa.array([5, 6]), user_pairs(users, False), True)
    assert found.labels.schema.field("random").type.names == ["positions", "values"]
    assert found.broken.schema.names == ["user_id", "source", "rule", "item_id", "value"]
    assert not found.broken.num_rows


def test_the_error_shows_the_probability() -> None:
    users: list[list[Pair]] = [
        [("random", 0, 1.0, 0.5), ("random", 1, 1.0, None)],
        [("random", 3, 4.0, 1.25), ("truth", 3, 4.0, None)],
    ]
    found = violations(judge(pa.array([5, 41]), user_pairs(users, True), False).broken)
    assert found == {("random", "bad_probability"): (2, "user_id=41, item_id=20, exposure_probability=1.25")}
    assert str(refuse("random", "bad_probability", *found["random", "bad_probability"])) == (
        "exposures: 2 rows break the rule bad_probability (first: user_id=41, item_id=20, exposure_probability=1.25): a pair that was exposed has a "
        "probability above 0 and at most 1. Fix the job that makes the table, or set on_bad_rows: quarantine."
    )
