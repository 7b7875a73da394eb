"""Parquet files in a Delta table's folder that no commit names yet: how they are written and named.

A file that no commit names is not part of the table. So files of a task that failed or ran twice are never read, and
are deleted later (commits.py, vacuum.py). A file is in the folder of its partition, run_id=R/model=M/..., as every
writer of Delta has it, because some readers take a partition's values from the path. Its name holds the attempt to
write that it belongs to, and the process that makes the attempt:

    part-<process id>.<random>-<random>.parquet

Workers of Spark write their rows themselves and send the driver only the list of files (writing). A row of lists
costs a Python worker a few microseconds to write; sent to the JVM and written there it costs ten times that.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from eval_engine.errors import DataError
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.process_id import process_id
from eval_engine.storage.stored_file import located

GROUP_BYTES = 64 * 2**20
LONGEST_NAME = 230  # bytes of a folder's name: file systems take 255
MANIFEST = "path STRING, n_bytes BIGINT, partition MAP<STRING, STRING>, stats STRING"  # WrittenFile as a row
MANIFEST_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("n_bytes", pa.int64()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("stats", pa.string()),
    ]
)


class WrittenFile(NamedTuple):
    """A file in a table's folder that no commit names yet."""

    path: str  # within the table's folder
    n_bytes: int
    partition: dict[str, str]  # value of each partition column
    stats: str  # Delta's statistics, JSON

    @property
    def n_rows(self) -> int:
        """The number of its rows."""
        return int(json.loads(self.stats)["numRecords"])


class Target(NamedTuple):
    """Where the files of one attempt to write a run's rows go."""

    table: str  # path or URI of the Delta table
    run_id: str
    attempt: str  # in the name of every file of this attempt
    inputs: dict[str, str] = {}  # noqa: RUF012 never changed; model: fingerprint of its inputs, a partition's value

    def partition(self, model: str) -> dict[str, str]:
        """The partition of a model's rows."""
        return {"run_id": self.run_id, "model": model, "inputs": self.inputs[model]}


def partition_folder(partition: Mapping[str, str]) -> str:
    """The folder of a partition within its table's; values are percent-encoded.

    >>> partition_folder({"run_id": "day-1", "model": "mf/2 50%"})
    'run_id=day-1/model=mf%2F2%2050%25'
    """
    names = [f"{column}={quote(value, safe='')}" for column, value in partition.items()]
    for name, (column, value) in zip(names, partition.items(), strict=True):
        if len(name) > LONGEST_NAME:
            raise DataError(
                f"{column} {value[:60]!r}... has {len(value)} characters, which make a folder name of {len(name)} "
                f"bytes; at most {LONGEST_NAME} are possible. Give it a shorter name."
            )
    return "/".join(names)


def new_attempt() -> str:
    """A name for the files of one attempt to write; it holds the id of this process (process_id.py)."""
    return f"{process_id()}.{uuid4().hex[:12]}"


def is_of_attempt(file_name: str, attempt: str) -> bool:
    """Whether a file was written by this attempt."""
    return file_name.startswith(f"part-{attempt}-")


def process_of(file_name: str) -> str | None:
    """The process that made the attempt to write a file; None if the name does not hold it."""
    match = re.match(r"part-([0-9a-f]{12}\.\d+\.\d+)\.", file_name)
    return match[1] if match else None


def write_file(uri: str, rows: pa.Table, partition: dict[str, str], attempt: str) -> WrittenFile:
    """Write rows, without the partition's columns, to a file in the table's folder."""
    path = _new_path(partition, attempt)
    system, stored = located(f"{uri}/{path}")
    system.create_dir(stored.rsplit("/", 1)[0], recursive=True)
    pq.write_table(rows, stored, filesystem=system)
    return WrittenFile(path, system.get_file_info(stored).size, partition, json.dumps({"numRecords": rows.num_rows}))


def write_few(batches: Iterable[pa.RecordBatch], target: Target) -> list[WrittenFile]:
    """Write a few rows of one run to one file; none without rows."""
    filled = [batch for batch in batches if batch.num_rows]
    rows = pa.Table.from_batches(filled) if filled else None
    return [write_file(target.table, rows, {"run_id": target.run_id}, target.attempt)] if rows else []


def write_parts(batches: Iterable[pa.RecordBatch], target: Target) -> list[WrittenFile]:
    """Write rows of the ranks table, a file per model; whole files or an error."""
    system, root = located(target.table)
    files: dict[str, _PartFile] = {}
    for batch in batches:
        models = pc.unique(batch.column("model")).to_pylist()
        for model in models:
            rows = batch.filter(pc.equal(batch.column("model"), model)) if len(models) > 1 else batch
            if model not in files:
                path = _new_path(target.partition(model), target.attempt)
                system.create_dir(f"{root}/{path}".rsplit("/", 1)[0], recursive=True)
                schema = rows.schema.remove(rows.schema.get_field_index("model"))
                files[model] = _PartFile(system, root, path, schema)
            files[model].write(rows.drop_columns(["model"]))
    return [file.close(target.partition(model)) for model, file in files.items()]


def writing(
    rows: Worker, target: Target, write: Callable[[Iterable[pa.RecordBatch], Target], list[WrittenFile]] = write_parts
) -> Worker:
    """The function for mapInArrow `rows`, but `write` writes its rows to files, and it returns their MANIFEST."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = write(rows(batches), target)
        columns = [file._asdict() | {"partition": list(file.partition.items())} for file in files]
        yield pa.RecordBatch.from_pylist(columns, MANIFEST_SCHEMA)

    return run


def files_of_manifest(rows: Iterable[Any]) -> list[WrittenFile]:
    """The files that rows of a MANIFEST, as Spark collects them, stand for."""
    return [WrittenFile(row["path"], row["n_bytes"], dict(row["partition"]), row["stats"]) for row in rows]


def _new_path(partition: dict[str, str], attempt: str) -> str:
    """A path that no other file has, within the table's folder."""
    return f"{partition_folder(partition)}/part-{attempt}-{uuid4()}.parquet"


class _PartFile:
    """One Parquet file that is being written, in row groups of bounded bytes."""

    def __init__(self, system: fs.FileSystem, root: str, path: str, schema: pa.Schema) -> None:
        self.system, self.stored, self.path = system, f"{root}/{path}", path
        self.stream = system.open_output_stream(self.stored)
        # a third smaller at no cost; scores do not shrink
        packed = dict.fromkeys(_integer_lists(schema), "DELTA_BINARY_PACKED")
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
        """Write the waiting rows as a row group; there are none if the last group was just full."""
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

    def close(self, partition: dict[str, str]) -> WrittenFile:
        """Finish the file."""
        self._flush()
        self.writer.close()
        self.stream.close()
        stats: dict[str, Any] = {"numRecords": self.n_rows}
        if isinstance(self.low, int):  # Delta cuts long strings, and statistics that are left out are never wrong
            stats |= {"minValues": {"user_id": self.low}, "maxValues": {"user_id": self.high}}
        return WrittenFile(self.path, self.system.get_file_info(self.stored).size, partition, json.dumps(stats))


def _integer_lists(schema: pa.Schema) -> Iterator[str]:
    """The Parquet paths of integers in a struct's lists."""
    for column in schema:
        if pa.types.is_struct(column.type):
            for field in column.type:
                if pa.types.is_list(field.type) and pa.types.is_integer(field.type.value_type):
                    yield f"{column.name}.{field.name}.list.element"
