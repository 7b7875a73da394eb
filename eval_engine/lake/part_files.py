"""Workers write the ranks they make as Parquet files of the Delta table, and tell the driver only which; the driver commits them all at once.

A row of lists costs a Python worker a few microseconds to write; sent to the JVM and written there it costs ten times that. A file that no commit
names is not part of the table: what a failed or repeated task leaves is never read, and is removed after the run (delete_uncommitted).
"""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from eval_engine.lake.commits import WrittenFile, partition_folder
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.stored_file import located

GROUP_BYTES = 64 * 2**20
MANIFEST = "path STRING, model STRING, n_rows BIGINT, n_bytes BIGINT, stats STRING"


class Target(NamedTuple):
    """Where the files of one attempt to write a run's ranks go."""

    table: str  # path or URI of the Delta table
    run_id: str
    attempt: str  # in the name of every file of this attempt
    inputs: dict[str, str] = {}  # noqa: RUF012 never changed; of each model: what it is ranked from, a partition's value

    def partition(self, model: str) -> dict[str, str]:
        """The partition of a model's rows."""
        return {"run_id": self.run_id, "model": model, "inputs": self.inputs[model]}


class Part(NamedTuple):
    """A written file: its path in the table, the partition it belongs to, and what Delta wants to know of it."""

    path: str
    model: str
    n_rows: int
    n_bytes: int
    stats: str


def writing(rows: Worker, target: Target) -> Worker:
    """Like `rows`, a function for mapInArrow, but its rows go to files, and what comes out is the files' MANIFEST."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = write_parts(rows(batches), target)
        schema = pa.schema(
            [
                ("path", pa.string()),
                ("model", pa.string()),
                ("n_rows", pa.int64()),
                ("n_bytes", pa.int64()),
                ("stats", pa.string()),
            ]
        )
        yield pa.RecordBatch.from_pylist([part._asdict() for part in parts], schema)

    return run


def write_parts(batches: Iterable[pa.RecordBatch], target: Target) -> list[Part]:
    """Write rows of the ranks table, a file per model; whole files or an error."""
    system, root = located(target.table)
    files: dict[str, _PartFile] = {}
    for batch in batches:
        models = pc.unique(batch.column("model")).to_pylist()
        for model in models:
            rows = batch.filter(pc.equal(batch.column("model"), model)) if len(models) > 1 else batch
            if model not in files:
                path = f"{partition_folder(target.partition(model))}/part-{target.attempt}-{uuid4()}.parquet"
                system.create_dir(f"{root}/{path}".rsplit("/", 1)[0], recursive=True)
                schema = rows.schema.remove(rows.schema.get_field_index("model"))
                files[model] = _PartFile(system, root, path, schema)
            files[model].write(rows.drop_columns(["model"]))
    return [Part(file.path, model, *file.close()) for model, file in files.items()]


class _PartFile:
    """One Parquet file that is being written, in row groups of bounded bytes."""

    def __init__(self, system: fs.FileSystem, root: str, path: str, schema: pa.Schema) -> None:
        self.system, self.stored, self.path = system, f"{root}/{path}", path
        self.stream = system.open_output_stream(self.stored)
        packed = dict.fromkeys(
            _integer_lists(schema), "DELTA_BINARY_PACKED"
        )  # a third smaller at no cost; scores do not shrink
        self.writer = pq.ParquetWriter(
            self.stream,
            schema,
            use_dictionary=False,
            compression="none",
            write_statistics=["user_id"],
            column_encoding=packed,
        )
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_bytes = 0
        self.n_rows, self.low, self.high = 0, None, None

    def write(self, rows: pa.RecordBatch) -> None:
        """Take the rows; write when there are enough."""
        self.waiting.append(rows)
        self.waiting_bytes += rows.nbytes
        if self.waiting_bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Write the waiting rows as a row group; none: the last one was just full."""
        if not self.waiting:
            return
        table = pa.Table.from_batches(self.waiting)
        self.writer.write_table(table, row_group_size=max(1, table.num_rows))
        ends = pc.min_max(table.column("user_id"))
        if ends["min"].is_valid:  # not of NULLs alone
            low, high = ends["min"].as_py(), ends["max"].as_py()
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)
        self.n_rows += table.num_rows
        self.waiting, self.waiting_bytes = [], 0

    def close(self) -> tuple[int, int, str]:
        """Rows, bytes and Delta's statistics of the finished file."""
        self._flush()
        self.writer.close()
        self.stream.close()
        stats = {"numRecords": self.n_rows, "minValues": {"user_id": self.low}, "maxValues": {"user_id": self.high}}
        if not isinstance(self.low, int):  # Delta cuts long strings; left out, they are never wrong
            stats = {"numRecords": self.n_rows}
        return self.n_rows, self.system.get_file_info(self.stored).size, json.dumps(stats)


def _integer_lists(schema: pa.Schema) -> Iterator[str]:
    """The Parquet paths of integers in a struct's lists."""
    for column in schema:
        if pa.types.is_struct(column.type):
            for field in column.type:
                if pa.types.is_list(field.type) and pa.types.is_integer(field.type.value_type):
                    yield f"{column.name}.{field.name}.list.element"


def delete_uncommitted(target: Target, parts: Iterable[Part | WrittenFile]) -> None:
    """Remove the files of this attempt that are not among the parts: left by tasks that failed or ran twice."""
    system, root = located(target.table)
    folder = f"{root}/run_id={target.run_id}"
    named = {part.path.rsplit("/", 1)[1] for part in parts}
    for found in system.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True)):
        if found.base_name.startswith(f"part-{target.attempt}-") and found.base_name not in named:
            system.delete_file(found.path)
