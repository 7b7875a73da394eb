"""Files of ranks: row groups of bounded bytes whatever the sizes of the batches, and Delta's statistics of each."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval_engine.lake import part_files
from eval_engine.lake.part_files import Target, write_parts

INPUTS = {"a": "what a is ranked from", "b": "what b is"}


def _rows(first: int, n: int, model: str = "a") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"model": pa.array([model] * n, pa.string()), "user_id": pa.array(np.arange(first, first + n), pa.int64())}
    )


@pytest.mark.parametrize("n_rows", [1, 7, 8, 9, 16, 17, 24])
def test_a_last_batch_may_just_fill_a_row_group(n_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "GROUP_BYTES", 64)  # eight user ids
    (part,) = write_parts([_rows(n, 1) for n in range(n_rows)], Target(str(tmp_path), "r", "x", INPUTS))
    file = pq.ParquetFile(tmp_path / part.path)
    assert file.read().column("user_id").to_pylist() == list(range(n_rows))
    assert [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)] == (
        [8] * (n_rows // 8) + [n_rows % 8] * bool(n_rows % 8)
    )
    assert part.n_rows == n_rows
    assert json.loads(part.stats) == {
        "numRecords": n_rows,
        "minValues": {"user_id": 0},
        "maxValues": {"user_id": n_rows - 1},
    }


def test_each_model_has_its_own_file_and_its_own_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "GROUP_BYTES", 64)
    parts = write_parts([_rows(0, 8), _rows(0, 3, "b"), _rows(8, 8)], Target(str(tmp_path), "r", "x", INPUTS))
    assert [(part.partition["model"], part.n_rows) for part in parts] == [("a", 16), ("b", 3)]


def test_batches_without_rows_make_no_file(tmp_path: Path) -> None:
    assert write_parts([_rows(0, 0)], Target(str(tmp_path), "r", "x", INPUTS)) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_without_a_user_id_has_no_statistics_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "GROUP_BYTES", 8)
    nobody = pa.RecordBatch.from_pydict({"model": ["a"], "user_id": pa.array([None], pa.int64())})
    (part,) = write_parts([nobody], Target(str(tmp_path), "r", "x", INPUTS))
    assert json.loads(part.stats) == {"numRecords": 1}
    (part,) = write_parts([nobody, _rows(5, 2), nobody], Target(str(tmp_path), "r", "x", INPUTS))
    assert json.loads(part.stats) == {"numRecords": 4, "minValues": {"user_id": 5}, "maxValues": {"user_id": 6}}
