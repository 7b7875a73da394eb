"""Reading feedback and catalogue: formats, id types, column names, and an error for each bad input."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import write_deltalake

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError
from models.interactions import read_interactions

Save = Callable[..., Input]
FEEDBACK = {"user_id": [30, 10, 10, 20], "item_id": [7, 9, 7, 8], "value": [5.0, 1.0, 4.0, 2.0]}
CATALOGUE = {"item_id": [8, 9, 7], "position": [2, 0, 1]}


@pytest.mark.parametrize("kind", ["parquet", "csv", "delta"])
def test_formats(save: Save, kind: str) -> None:
    data = read_interactions(save("feedback", FEEDBACK, kind), save("catalogue", CATALOGUE, kind))
    assert data.user_ids.to_pylist() == [10, 20, 30]
    assert data.item_ids.to_pylist() == [9, 7, 8]
    assert data.users.tolist() == [0, 0, 1, 2]
    assert data.items.tolist() == [0, 1, 2, 1]
    assert data.values.tolist() == [1.0, 4.0, 2.0, 5.0]


def test_a_single_parquet_file(save: Save, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table(FEEDBACK), tmp_path / "feedback.parquet")
    data = read_interactions(Input(path=str(tmp_path / "feedback.parquet")), save("catalogue", CATALOGUE))
    assert data.user_ids.to_pylist() == [10, 20, 30]


@pytest.mark.parametrize("kind", ["parquet", "csv", "delta"])
def test_string_ids(save: Save, kind: str) -> None:
    feedback = {"user_id": ["ü", "a", "a"], "item_id": ["y", "x", "y"], "value": [1, 2, 3]}
    data = read_interactions(
        save("feedback", feedback, kind), save("catalogue", {"item_id": ["x", "y"], "position": [1, 0]}, kind)
    )
    assert data.user_ids.to_pylist() == ["a", "ü"]
    assert data.items.tolist() == [0, 1, 0]
    assert data.values.tolist() == [3, 2, 1]


def test_dictionary_and_small_integers_are_ids_too(save: Save) -> None:
    feedback = pa.table(
        {
            "user_id": pa.array(["b", "a"]).dictionary_encode(),
            "item_id": pa.array([1, 0], pa.int16()),
            "value": pa.array([1, 2], pa.int8()),
        }
    )
    data = read_interactions(
        save("feedback", feedback), save("catalogue", {"item_id": [0, 1], "position": pa.array([0, 1], pa.int32())})
    )
    assert data.user_ids.to_pylist() == ["a", "b"]
    assert data.items.tolist() == [0, 1]


def test_columns_by_their_own_names(save: Save) -> None:
    feedback = save("feedback", {"uid": [1], "track": [5], "stars": [4]})
    feedback = Input(path=feedback.path, columns={"user_id": "uid", "item_id": "track", "value": "stars"})
    assert read_interactions(feedback, save("catalogue", {"item_id": [5], "position": [0]})).values.tolist() == [4]


def test_users_are_the_union(save: Save) -> None:
    users = save("exposures", {"user_id": [40, 5, 10, 40], "item_id": [1, 2, 3, 4]})
    data = read_interactions(save("feedback", FEEDBACK), save("catalogue", CATALOGUE), users)
    assert data.user_ids.to_pylist() == [5, 10, 20, 30, 40]
    assert data.users.tolist() == [1, 1, 2, 3]


def test_row_order_does_not_matter_and_content_does(save: Save) -> None:
    catalogue = save("catalogue", CATALOGUE)
    turned = {name: column[::-1] for name, column in FEEDBACK.items()}
    digest = read_interactions(save("a", FEEDBACK), catalogue).digest()
    assert read_interactions(save("b", turned), catalogue).digest() == digest
    assert read_interactions(save("c", FEEDBACK | {"value": [5.0, 1.0, 4.0, 3.0]}), catalogue).digest() != digest
    assert read_interactions(save("d", FEEDBACK | {"user_id": [31, 10, 10, 20]}), catalogue).digest() != digest


@pytest.mark.parametrize(
    ("feedback", "catalogue", "message"),
    [
        ({"item_id": [7, 9, 7, 77]}, {}, "1 of 4 rows.*user_id=20, item_id=77"),
        ({"user_id": [10, 10, 10, 10], "item_id": [7, 9, 7, 7]}, {}, "2 rows repeat.*user_id=10, item_id=7"),
        ({"value": [5.0, None, 4.0, None]}, {}, "value is NULL in 2 of 4 rows .first: row 1"),
        ({"user_id": [30, None, 10, 20]}, {}, "user_id is NULL in 1 of 4"),
        ({"value": [5.0, 1.0, float("nan"), 2.0]}, {}, "value is NaN .first: row 2"),
        ({"value": [5.0, float("-inf"), 4.0, 2.0]}, {}, "value is -inf .first: row 1"),
        ({"value": [5.0, 1.0, 4.0, float("inf")]}, {}, "value is inf .first: row 3.*Remove those rows"),
        ({"value": ["a", "b", "c", "d"]}, {}, "value has type string"),
        ({"user_id": [1.5, 2.0, 3.0, 4.0]}, {}, "user_id has type double"),
        ({"item_id": ["7", "9", "7", "8"]}, {}, "item_id is string, but int64"),
        ({}, {"position": [3, 0, 1]}, "found 3 where 2 is due .item_id=8"),
        ({}, {"position": [1, 0, 1]}, "positions must be 0..2"),
        ({}, {"position": [1, -1, 0]}, "found -1 where 0 is due .item_id=9"),
        ({}, {"item_id": [7, 9, 7]}, "item_id=7 comes 2 times"),
        ({}, {"item_id": [8, 9, None]}, "item_id is NULL"),
    ],
)
def test_errors_name_table_and_key(
    save: Save, feedback: dict[str, object], catalogue: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_interactions(save("feedback", FEEDBACK | feedback), save("catalogue", CATALOGUE | catalogue))
    assert ("catalogue" if catalogue else "feedback") in str(error.value)


def test_empty_tables(save: Save) -> None:
    empty = pa.schema(
        [("user_id", pa.int64()), ("item_id", pa.int64()), ("value", pa.float64()), ("position", pa.int64())]
    ).empty_table()
    with pytest.raises(DataError, match=r"none.*empty"):
        read_interactions(save("none", empty), save("catalogue", CATALOGUE))
    with pytest.raises(DataError, match=r"nothing.*empty"):
        read_interactions(save("feedback", FEEDBACK), save("nothing", empty))


def test_missing_column_lists_those_there(save: Save) -> None:
    with pytest.raises(DataError, match="no column 'value'; it has user_id, item_id, rating"):
        read_interactions(
            save("feedback", {"user_id": [1], "item_id": [7], "rating": [1]}), save("catalogue", CATALOGUE)
        )


def test_users_of_another_type(save: Save) -> None:
    with pytest.raises(DataError, match="user_id is string, but int64"):
        read_interactions(save("feedback", FEEDBACK), save("catalogue", CATALOGUE), save("users", {"user_id": ["10"]}))


def test_missing_path_and_catalog_name(save: Save, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        read_interactions(Input(path=str(tmp_path / "nowhere")), save("catalogue", CATALOGUE))
    with pytest.raises(ConfigError, match="without Spark"):
        read_interactions(Input(path="main.music.feedback", format="table"), save("catalogue2", CATALOGUE))


def test_delta_reads_the_current_version_only(save: Save) -> None:
    feedback = save("feedback", FEEDBACK, "delta")
    write_deltalake(feedback.path, pa.table({"user_id": [1], "item_id": [8], "value": [3.0]}), mode="overwrite")
    assert read_interactions(feedback, save("catalogue", CATALOGUE)).user_ids.to_pylist() == [1]


def test_delta_with_deletion_vectors_is_refused(save: Save) -> None:
    feedback = save("feedback", FEEDBACK, "delta")
    log = Path(feedback.path) / "_delta_log" / "00000000000000000001.json"
    features = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    log.write_text(json.dumps({"protocol": features}) + "\n")
    with pytest.raises(DataError, match="deletion"):
        read_interactions(feedback, save("catalogue", CATALOGUE))


def test_a_million_rows(save: Save) -> None:
    key = np.random.default_rng(0).permutation(2_000_000)[:1_000_000]
    data = read_interactions(
        save("feedback", {"user_id": key // 1000, "item_id": key % 1000, "value": key % 7}),
        save("catalogue", {"item_id": np.arange(1000), "position": np.arange(1000)[::-1]}),
    )
    back = np.asarray(data.user_ids)[data.users] * 1000 + np.asarray(data.item_ids)[data.items]
    assert np.array_equal(np.sort(back), np.sort(key))
    assert np.array_equal(data.values, back % 7)
