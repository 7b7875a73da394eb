"""Rows of a Parquet file by number, whatever its row groups."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eval_engine.storage.stored_file import parquet_batches


def test_the_row_groups_that_hold_the_rows(tmp_path: Path) -> None:
    file = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"n": np.arange(100), "t": [f"t{n % 3}" for n in range(100)]}), file, row_group_size=30)
    for first, end, want in (
        (0, None, (0, 100)),
        (29, 30, (0, 30)),
        (30, 61, (30, 90)),
        (95, None, (90, 100)),
        (0, 0, (0, 0)),
    ):
        batches = list(parquet_batches(file, ["n", "t"], first, end, 7))
        rows = np.concatenate([batch["n"].to_numpy() for _, batch in batches]) if batches else np.zeros(0)
        np.testing.assert_array_equal(rows, np.arange(*want))
        assert all(row == batch["n"][0].as_py() for row, batch in batches)
        assert all(pa.types.is_dictionary(batch["t"].type) for _, batch in batches)
