"""The ranks table made without Spark: the contract's columns and rules, and errors where rows would not fit."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from eval_engine.errors import DataError, LakeError
from eval_engine.lake.arrow_schema import arrow_schema
from eval_engine.tables import RANKS
from models.ranks_table import make_ranks_table, ranked_from


def test_the_contract_as_arrow() -> None:
    schema = arrow_schema(RANKS, "STRING")
    assert tuple(schema.names) == RANKS.names
    assert [field.name for field in schema if not field.nullable] == ["run_id", "model", "inputs", "user_id"]
    assert schema.field("user_id").type == pa.string()
    assert schema.field("candidates").type == pa.int32()
    assert schema.field("top").type == pa.struct([("items", pa.list_(pa.string())), ("scores", pa.list_(pa.float32()))])
    assert schema.field("truth").type.field("values").type == pa.list_(pa.float64())
    assert arrow_schema(RANKS, "BIGINT").field("random").type.field("items").type == pa.list_(pa.int64())


def test_is_made_once_with_the_rules_of_the_contract(tmp_path: Path) -> None:
    uri = str(tmp_path / "lake" / "ranks")
    make_ranks_table(uri, pa.int64())
    table = DeltaTable(uri)
    assert table.metadata().configuration == {f"delta.constraints.rule_{n}": rule for n, rule in enumerate(RANKS.rules)}
    assert table.metadata().partition_columns == list(RANKS.partitions)
    assert table.metadata().description == RANKS.about
    assert set(table.protocol().writer_features or []) == {"appendOnly", "invariants", "checkConstraints"}
    make_ranks_table(uri, pa.int64())
    assert DeltaTable(uri).version() == table.version()
    assert ranked_from(uri, "r", "m") == set()


def test_jobs_that_make_it_at_once_find_one_table(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: make_ranks_table(str(tmp_path / "ranks"), pa.int64()), range(4)))
    assert tuple(pa.schema(DeltaTable(tmp_path / "ranks").schema().to_arrow()).names) == RANKS.names


def test_what_does_not_fit_is_an_error(tmp_path: Path) -> None:
    make_ranks_table(str(tmp_path / "ranks"), pa.int64())
    with pytest.raises(DataError, match=r"ranks.user_id is STRING in this run but BIGINT in the lake"):
        make_ranks_table(str(tmp_path / "ranks"), pa.string())
    write_deltalake(tmp_path / "old", pa.table({"run_id": ["a"], "user_id": [1]}))
    with pytest.raises(
        LakeError, match=r"old has the columns run_id, user_id and the partitions none: it is not a table"
    ):
        make_ranks_table(str(tmp_path / "old"), pa.int64())
    (tmp_path / "file").write_text("x")
    with pytest.raises(LakeError, match="file/ranks cannot be made or read"):
        make_ranks_table(str(tmp_path / "file" / "ranks"), pa.int64())
