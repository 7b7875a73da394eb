"""Small tables on disk, in every format that training reads."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from deltalake import write_deltalake

from eval_engine.config import Input


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sets torch to one thread, as train_all does: on shared cores more threads slow small batches down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Input]:
    """Writes columns as a table and returns its Input."""

    def write(name: str, columns: dict[str, object], kind: str = "parquet") -> Input:
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        path = tmp_path / (f"{name}.csv" if kind == "csv" else name)
        if kind == "csv":
            pyarrow.csv.write_csv(table, path)
        elif kind == "delta":
            write_deltalake(path, table)
        else:
            path.mkdir()
            half = max(1, table.num_rows // 2)
            pyarrow.parquet.write_table(table.slice(0, half), path / "part-0.parquet")
            pyarrow.parquet.write_table(table.slice(half), path / "part-1.parquet")
        return Input(path=str(path))

    return write


@pytest.fixture
def platform(save: Callable[..., Input]) -> tuple[Input, Input]:
    """Feedback of 30 users on 20 items with two tastes, and the catalogue."""
    rng = np.random.default_rng(5)
    users, items = np.divmod(rng.permutation(600)[:300], 20)
    values = np.where((users + items) % 2 == 0, 5.0, 1.0)
    feedback = save("feedback", {"user_id": 1000 + 7 * users, "item_id": 500 - items, "value": values})
    catalogue = save("catalogue", {"item_id": 500 - np.arange(20), "position": np.arange(20)})
    return feedback, catalogue
