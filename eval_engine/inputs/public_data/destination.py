"""The folder that an imported data set is written to: a Parquet file per table, and run.yaml, which names them.

Tables are written to a temporary folder beside them and renamed when all are complete; run.yaml is removed before and
written after that. So a folder with run.yaml has whole tables of one import. `_import.json` says what made them; a
folder that has files and no such mark is not written to.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eval_engine.errors import ConfigError, OutputError
from eval_engine.inputs.public_data.user_buckets import Pairs
from eval_engine.storage.atomic_file import put_in_place, write_atomically
from eval_engine.storage.process_id import is_gone, process_id

MARK, RUN = "_import.json", "run.yaml"
TABLES = (
    "catalogue",
    "users",
    "log",
    "feedback",
    "heldout",
    "exposures",
    "truth",
    "random_train",
    "random_weights",
    "random_validation",
)
GROUP_ROWS = 1 << 20  # of a Parquet row group
PAIRS = pa.schema([("user_id", pa.int64()), ("item_id", pa.int64()), ("value", pa.float64())])
LOG = PAIRS.append(pa.field("timestamp", pa.int64()))


class Destination:
    """Writes the tables of one import."""

    def __init__(self, folder: Path, made_from: Mapping[str, Any]) -> None:
        self.folder, self.made_from = folder.resolve(), made_from
        self.temporary = self.folder / f"_import.{process_id()}.tmp"
        self.n_rows: dict[str, int] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {}

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_folder()
            self.temporary.mkdir()
        except OSError as error:
            raise OutputError(
                f"The folder {self.folder} cannot be written: {error.strerror}. Give another one with --to."
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        shutil.rmtree(self.temporary, ignore_errors=True)

    def path(self, table: str) -> str:
        """Where a table stands when the import is done."""
        return str(self.folder / f"{table}.parquet")

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Appends rows to a table; those of the first call decide its columns."""
        if table not in self._writers:
            assert table in TABLES, table
            self._writers[table] = pq.ParquetWriter(self.temporary / f"{table}.parquet", rows.schema)
            self._waiting[table], self.n_rows[table] = [], 0
        self._waiting[table].append(rows)
        self.n_rows[table] += rows.num_rows
        if sum(batch.num_rows for batch in self._waiting[table]) >= GROUP_ROWS:
            self._flush(table)

    def add_pairs(self, table: str, pairs: Pairs) -> None:
        """Appends pairs to a table."""
        self.add(table, pa.record_batch([pa.array(column) for column in pairs], schema=PAIRS))

    def add_catalogue(self, items: np.ndarray, columns: Mapping[str, pa.Array]) -> None:
        """Writes the catalogue: items in rising order of their ids, and columns of theirs in the same order."""
        names = ["item_id", "position", *columns]
        arrays = [pa.array(items, pa.int64()), pa.array(np.arange(len(items), dtype=np.int32)), *columns.values()]
        self.add("catalogue", pa.record_batch(arrays, names))

    def finish(self, run_yaml: str) -> Path:
        """Puts all tables and run.yaml in place; the path of run.yaml."""
        for table, writer in self._writers.items():
            self._flush(table)
            writer.close()
        write_atomically((json.dumps(self.made_from, indent=1) + "\n").encode(), self.folder / MARK)
        run = self.folder / RUN
        run.unlink(missing_ok=True)
        for table in TABLES:
            if table in self._writers:
                put_in_place(self.temporary / f"{table}.parquet", Path(self.path(table)))
            else:
                Path(self.path(table)).unlink(missing_ok=True)  # of an import with other options
        return write_atomically(run_yaml.encode(), run)

    def _flush(self, table: str) -> None:
        batches, self._waiting[table] = self._waiting[table], []
        if batches:
            self._writers[table].write_table(pa.Table.from_batches(batches).combine_chunks(), GROUP_ROWS)

    def _check_folder(self) -> None:
        """Raises if the folder holds something else, or another import writes to it; removes what a killed one left."""
        for temporary in self.folder.glob("_import.*.tmp"):
            gone = is_gone(temporary.name.removeprefix("_import.").removesuffix(".tmp"))
            if gone is False and temporary != self.temporary:
                raise OutputError(
                    f"Another import writes to {self.folder}. Wait for it, or give another folder with --to."
                )
            if gone or temporary == self.temporary:
                shutil.rmtree(temporary)
        others = [path.name for path in self.folder.iterdir() if not path.name.startswith("_import.")]
        if others and not (self.folder / MARK).exists():
            raise ConfigError(
                f"{self.folder} has files that no import wrote (first: {min(others)}), which would be replaced. "
                "Give an empty or new folder with --to."
            )
