"""Small files in the formats of the owners, and an import of them without the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval_engine.inputs.public_data.destination import Destination
from eval_engine.inputs.public_data.run_settings import Imported, run_yaml
from eval_engine.inputs.public_data.source_files import DataSet, Sources
from jobs.cli import load
from jobs.run_config import RunConfig


class Result:
    """The tables of an import, its config, and what it found."""

    def __init__(self, folder: Path, imported: Imported, n_rows: dict[str, int]) -> None:
        self.folder, self.imported, self.n_rows = folder, imported, n_rows
        self.config: RunConfig = load(folder / "run.yaml")

    def table(self, name: str) -> pa.Table:
        return pq.read_table(self.folder / f"{name}.parquet")

    def pairs(self, name: str) -> dict[tuple[int, int], float]:
        rows = self.table(name).to_pylist()
        pairs = {(row["user_id"], row["item_id"]): row["value"] for row in rows}
        assert len(pairs) == len(rows)  # each pair once
        return pairs

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


@pytest.fixture
def convert(tmp_path: Path) -> Callable[..., Result]:
    """Imports files in tmp_path / "in" by a data set's function of (sources, destination, progress)."""

    def run(data_set: DataSet, work: Callable[..., Imported], to: str = "out") -> Result:
        with Destination(tmp_path / to, {"data_set": data_set.name}) as destination:
            imported = work(Sources(data_set, tmp_path / "in"), destination, lambda *_: None)
            destination.finish(run_yaml("test", imported, destination, 0))
        return Result(tmp_path / to, imported, destination.n_rows)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a file of the owner."""

    def run(name: str, text: str, encoding: str = "utf-8") -> Path:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding=encoding)
        return path

    return run


@pytest.fixture
def ratings() -> Any:
    """A function of (users, items, share, seed): ratings 1 to 5 of some pairs, 0: none."""

    def make(users: int, items: int, share: float, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return rng.integers(1, 6, (users, items)) * (rng.random((users, items)) < share)

    return make
