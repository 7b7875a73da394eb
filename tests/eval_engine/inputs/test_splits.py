"""A log that is split: each strategy against a loop over its rule, on nasty logs, on 1 and 7 partitions."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.inputs import splits
from eval_engine.inputs.split_settings import Split
from eval_engine.inputs.splits import COLD_ITEM, COLD_USER, HELD_OUT, RULE, SIDE, TOO_FEW, TRAINING
from eval_engine.kernels.xxhash64 import xxhash64

Row = tuple[Any, Any, float, Any]  # user_id, item_id, value, timestamp
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BIG = 2**62


def nasty(seed: int, text: bool, times: Callable[[np.random.Generator], Any]) -> list[Row]:
    """Users with 1 to 12 pairs, popular items, and items and users that come once; many equal times."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for user in range(25):
        items = rng.choice(40, size=int(rng.integers(1, 13)), replace=False)
        for item in items.tolist():
            ids = (f"u{user}", f"i'{item}") if text else (user - 3, 7 * item - 50)
            rows.append((*ids, float(rng.integers(1, 6)), times(rng)))
    rng.shuffle(rows)  # type: ignore[arg-type]
    return [tuple(row) for row in rows]  # type: ignore[misc]


LOGS = {
    "few times, most equal": nasty(1, False, lambda rng: int(rng.integers(0, 4))),
    "text ids, negative and huge times": nasty(2, True, lambda rng: int(rng.choice([-BIG, -1, 0, BIG, BIG + 1]))),
    "fractions": nasty(3, False, lambda rng: float(rng.choice([-1e300, 0.1, 0.1 + 1e-17, 0.25, 1e300]))),
    "days": nasty(4, True, lambda rng: EPOCH + timedelta(days=int(rng.integers(-3, 30)))),
    "microseconds": nasty(5, False, lambda rng: EPOCH + timedelta(microseconds=int(rng.integers(0, 10**15)))),
    "one time": [*nasty(6, False, lambda rng: 5)[:40], (99, 1, 1.0, 6)],
}
HOWS: list[dict[str, Any]] = [
    {"strategy": "random", "share": 0.3, "seed": 7},
    {"strategy": "time", "share": 0.29},
    {"strategy": "time", "share": 0.03},
    {"strategy": "leave_last", "n": 1},
    {"strategy": "leave_last", "n": 3, "least_training": 2},
    {"strategy": "leave_last", "n": 2, "least_training": 0},
]


def write(rows: list[Row], folder: Path) -> Split:
    """The log as Parquet, with a column beside; splits name it."""
    users, items, values, times = zip(*rows, strict=True)
    table = pa.table({"who": users, "what": items, "value": values, "when": times, "page": list(range(len(rows)))})
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "log.parquet", row_group_size=7)
    return folder


def split_of(folder: Path, how: dict[str, Any]) -> Split:
    columns = {"user_id": "who", "item_id": "what", "timestamp": "when"}
    return Split.model_validate({"log": {"path": str(folder / "log.parquet"), "columns": columns}, "how": how})


def brute_force(rows: list[Row], how: dict[str, Any]) -> dict[tuple[Any, Any], str]:
    """The side of each pair, by loops over the rules."""
    side: dict[tuple[Any, Any], str] = {}
    if how["strategy"] == "random":
        for user, item, _, _ in rows:
            hashed = np.array([42], np.int64)
            for value in (pa.array([how["seed"]]), pa.array([user]), pa.array([item])):
                hashed = xxhash64(value, hashed)
            unit = (int(hashed[0]) % 2**64 >> 11) / 2**53
            side[user, item] = HELD_OUT if unit < how["share"] else TRAINING
    elif how["strategy"] == "time":
        n_held = math.floor(Fraction(str(how["share"])) * len(rows))
        cut = sorted(row[3] for row in rows)[len(rows) - n_held]
        side = {(user, item): HELD_OUT if at >= cut else TRAINING for user, item, _, at in rows}
    else:
        of_user = defaultdict(list)
        for user, item, _, at in rows:
            of_user[user].append((at, item.encode() if isinstance(item, str) else item, item))
        for user, pairs in of_user.items():
            last = {item for _, _, item in sorted(pairs)[-how["n"] :]}
            few = len(pairs) < how["n"] + how.get("least_training", 1)
            side |= {(user, item): TOO_FEW if few else HELD_OUT if item in last else TRAINING for _, _, item in pairs}
    users = {user for (user, _), where in side.items() if where != HELD_OUT}
    items = {item for (_, item), where in side.items() if where != HELD_OUT}
    for (user, item), where in side.items():
        if where == HELD_OUT and user not in users:
            side[user, item] = COLD_USER
        elif where == HELD_OUT and item not in items:
            side[user, item] = COLD_ITEM
    return side


@pytest.mark.parametrize("name", LOGS)
def test_sides_are_those_of_a_loop_on_any_partitioning(name: str, tmp_path: Path, spark: SparkSession) -> None:
    rows = LOGS[name]
    folder = write(rows, tmp_path)
    kinds: Counter[str] = Counter()
    for number, how in enumerate(HOWS):
        expected, split = brute_force(rows, how), split_of(folder, how)
        log = splits.read_log(spark, split)
        n = (1, 7)[(number + list(LOGS).index(name)) % 2]  # every way of splitting on both, over the logs
        moved = log._replace(rows=log.rows.repartition(n, "page"))
        sides = splits.sides(moved, split, len(rows))
        parts = [part.select("user_id", "item_id", "value", "page", SIDE) for part in sides]
        found = parts[0].union(parts[1]).collect()
        assert {(row.user_id, row.item_id): row[SIDE] for row in found} == expected, (how, n)
        assert len(found) == len(rows)
        assert all(rows[row.page][:3] == (row.user_id, row.item_id, row.value) for row in found)  # with their pair
        kinds.update(expected.values())
    assert {TRAINING, HELD_OUT, TOO_FEW} <= set(kinds)


@pytest.mark.parametrize(
    ("log", "cut", "first"),
    [
        ("few times, most equal", 2, 2),
        ("fractions", 0.25, 0.25),
        ("days", "1970-01-05", EPOCH + timedelta(days=4)),
        ("days", "1970-01-05T02:00+02:00", EPOCH + timedelta(days=4)),
    ],
)
def test_a_cut_is_the_first_time_that_is_held_out(
    log: str, cut: Any, first: Any, tmp_path: Path, spark: SparkSession
) -> None:
    rows = LOGS[log]
    split = split_of(write(rows, tmp_path), {"strategy": "time", "cut": cut})
    held = splits.sides(splits.read_log(spark, split), split, len(rows)).held_out
    found = {(row.user_id, row.item_id) for row in held.select("user_id", "item_id").collect()}
    assert found == {(user, item) for user, item, _, at in rows if at >= first}
    assert 0 < len(found) < len(rows)


def test_a_cut_of_the_wrong_kind(tmp_path: Path, spark: SparkSession) -> None:
    for log, cut, message in (
        ("days", 5, "split.how.cut is 5, but the log's column when holds times: give a time"),
        ("fractions", "2026-11-15", "column when holds numbers: give a number"),
    ):
        split = split_of(write(LOGS[log], tmp_path), {"strategy": "time", "cut": cut})
        with pytest.raises(ConfigError, match=message):
            splits.sides(splits.read_log(spark, split), split, 9)
    split = split_of(write(LOGS["days"], tmp_path), {"strategy": "time", "share": 0.001})
    with pytest.raises(DataError, match=r"the last 0.001 of 9 pairs is less than one pair.*Raise split.how.share"):
        splits.sides(splits.read_log(spark, split), split, 9)


def test_every_pair_that_breaks_a_rule_is_counted_once(tmp_path: Path, spark: SparkSession) -> None:
    rows: list[tuple[Any, ...]] = [
        (1, 10, 1.0, 5.0),
        (1, 11, None, 5.0),
        (1, 12, math.nan, 5.0),
        (None, 10, 1.0, 5.0),
        (2, None, 1.0, 5.0),
        (2, 10, 1.0, None),
        (2, 11, 1.0, math.nan),
        (2, 12, 1.0, -math.inf),
        (3, 10, 1.0, 5.0),
        (3, 10, 2.0, 6.0),
        (3, 11, 1.0, 5.0),
        (3, 11, None, 5.0),
    ]
    folder = write(rows, tmp_path)  # type: ignore[arg-type]
    timed = splits.read_log(spark, split_of(folder, {"strategy": "leave_last"}))
    counts = splits.counts(timed.rows, RULE, timed.time)
    assert {rule: count.n_rows for rule, count in counts.items()} == {
        None: 1,
        "null_value": 2,
        "nan_value": 1,
        "null_key": 2,
        "no_timestamp": 3,
        "duplicate_key": 3,  # the copy without a value is told as such
    }
    assert counts["no_timestamp"].example == "user_id=2, item_id=10, value=1.0, when=NULL"
    assert counts["null_key"].example == "user_id=2, item_id=NULL, value=1.0, when=5.0"
    error = splits.refuse("no_timestamp", counts["no_timestamp"])
    assert str(error).startswith("log: 3 rows break the rule no_timestamp (first: user_id=2, item_id=10, value=1.0")
    untimed = splits.read_log(spark, split_of(folder, {"strategy": "random"}))
    assert splits.counts(untimed.rows, RULE, untimed.time)[None].n_rows == 4  # times do not matter


def test_times_of_any_type_have_one_order(tmp_path: Path, spark: SparkSession) -> None:
    day = datetime(2026, 11, 15, 4, 10, tzinfo=UTC)
    times = [day + timedelta(hours=n) for n in range(6)]
    columns = {
        "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
        "without zone": pa.array([time.replace(tzinfo=None) for time in times], pa.timestamp("us")),
        "text": pa.array([time.isoformat() for time in times]),
        "days": pa.array([(day + timedelta(days=n)).date() for n in range(6)]),
        "int32": pa.array(range(6), pa.int32()),
        "float": pa.array(np.arange(6) / 3, pa.float32()),
        "decimal": pa.array(range(6)).cast(pa.decimal128(22, 2)),
    }
    for name, column in columns.items():
        table = pa.table({"user_id": [1] * 6, "item_id": range(6), "value": [1.0] * 6, "timestamp": column})
        pq.write_table(table, tmp_path / "log.parquet")
        log = Input(path=str(tmp_path / "log.parquet"))
        split = Split.model_validate({"log": log, "how": {"strategy": "leave_last", "n": 2}})
        read = splits.read_log(spark, split)
        held = splits.sides(read, split, 6).held_out.select("item_id").collect()
        assert sorted(row.item_id for row in held) == [4, 5], name
        assert splits.counts(read.rows, RULE, read.time)[None].n_rows == 6, name


def test_columns_that_cannot_be_meant(tmp_path: Path, spark: SparkSession) -> None:
    def read(columns: dict[str, Any], how: str = "leave_last", **names: str) -> None:
        pq.write_table(pa.table(columns), tmp_path / "log.parquet")
        log = {"path": str(tmp_path / "log.parquet"), "columns": names}
        splits.read_log(spark, Split.model_validate({"log": log, "how": {"strategy": how}}))

    pair: dict[str, Any] = {"user_id": [1], "item_id": [2], "value": [1.0]}
    with pytest.raises(DataError, match=r"log: column 'timestamp' is missing; found user_id, item_id, value. Map it"):
        read(pair)
    with pytest.raises(DataError, match="log: column 'when' is missing"):
        read(pair, timestamp="when")
    with pytest.raises(DataError, match=r"log.timestamp has type BOOLEAN, but a timestamp, a date, a number or text"):
        read(pair | {"timestamp": [True]})
    with pytest.raises(DataError, match=r"log.user_id has type DOUBLE, but an integer or a string is needed"):
        read(pair | {"user_id": [1.5]}, "random")
    with pytest.raises(DataError, match="log: user_id is another column's name in the config, and the log has"):
        read(pair | {"uid": [1]}, "random", user_id="uid")
    with pytest.raises(DataError, match="columns maps rating, which is not a column of this table"):
        read(pair, "random", rating="value")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"strategy": "time"}, "a cut or a share: give one of them"),
        ({"strategy": "time", "cut": 1, "share": 0.1}, "a cut or a share: give one of them"),
        ({"strategy": "time", "share": 1.0}, "less than 1"),
        ({"strategy": "random", "share": 0}, "greater than 0"),
        ({"strategy": "leave_last", "n": 0}, "greater than or equal to 1"),
        ({"strategy": "last"}, "'random', 'time', 'leave_last'"),
    ],
)
def test_settings_that_make_no_split(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Split.model_validate({"log": {"path": "x"}, "how": how})
