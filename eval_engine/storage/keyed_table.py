"""Columns of items or users, by key, in files that every worker reads completely: slice codes, and numbers such as
propensities.

The key is Spark's xxhash64 of the id. A table takes 12 bytes per user and column in each worker. It needs no join, so
rows of ranks are not shuffled.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.item_positions import Catalogue, catalogue_of, positions_of
from eval_engine.storage.stored_file import open_file

KEY = "key"


class KeyedTable(NamedTuple):
    """A table of items or users in files: `key`, and its columns, codes (INT) or numbers (DOUBLE)."""

    name: str  # in errors
    files: tuple[str, ...]
    columns: tuple[str, ...]


class Loaded(NamedTuple):
    """A KeyedTable in memory."""

    keys: Catalogue
    columns: Mapping[str, npt.NDArray[Any]]

    def rows(self, keys: Ints) -> Ints:
        """The row of each key; -1 if it is missing in the table."""
        return positions_of(self.keys, keys)

    def codes(self, column: str, rows: Ints, missing: int) -> Ints:
        """The code at each row, int64; `missing` at -1."""
        codes: Ints = np.append(self.columns[column], missing).astype(np.int64)[rows]  # -1: the last
        return codes


@lru_cache(maxsize=8)
def loaded(table: KeyedTable) -> Loaded:
    """The table in memory, read once per process."""
    parts = []
    for file in table.files:
        with open_file(file) as handle:
            parts.append(pq.read_table(handle, columns=[KEY, *table.columns]))
    columns = {
        name: np.concatenate([part.column(name).to_numpy() for part in parts] or [np.empty(0, np.int64)])
        for name in (KEY, *table.columns)
    }
    return Loaded(catalogue_of(columns[KEY]), {name: columns[name] for name in table.columns})
