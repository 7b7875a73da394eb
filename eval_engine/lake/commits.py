"""Makes files that lie in a Delta table's folder part of the table, in place of a run's older files, in one commit. No session: delta-rs.

Spark's own commit costs 2 to 5 s, this one 20 ms. A commit is made for the table as it was read, or not at all; where another job committed in between, the
table is read again. If the other job touched other partitions, this commit is made for the newer table. If it touched the same ones, the commit is refused where the
caller says which files it expects there (Expected), else it replaces them: one of the two jobs wins whole.

A file lies in the folder of its partition, run_id=R/model=M/..., as every writer of Delta has it: some readers take a partition's values from the path.
"""

import json
import os
import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from eval_engine.errors import DataError, LakeError
from eval_engine.storage.process_id import process_id
from eval_engine.storage.stored_file import located, spelled
from eval_engine.tables import Table

TRIES = 200  # of a commit; each failed one means that another job's went through
LONGEST_NAME = 230  # bytes of a folder's name: file systems take 255
Expected = Mapping[str, Mapping[str, str | None]]  # path of each file of a run: its partition's values


class WrittenFile(NamedTuple):
    """A file in a table's folder that no commit names yet."""

    path: str  # within the table's folder
    n_bytes: int
    partition: dict[str, str]  # value of each partition column
    stats: str  # Delta's statistics, JSON


def delta_uri(uri: str) -> str:
    """A table's path or URI as delta-rs takes it; it goes to a server without TLS only if it is told that it may."""
    if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        os.environ.setdefault("AWS_ALLOW_HTTP", "true")
    return spelled(uri, "delta-rs")


def partition_folder(partition: Mapping[str, str]) -> str:
    """The folder of a partition within its table's; values are percent-encoded.

    >>> partition_folder({"run_id": "day-1", "model": "mf/2 50%"})
    'run_id=day-1/model=mf%2F2%2050%25'
    """
    names = [f"{column}={quote(value, safe='')}" for column, value in partition.items()]
    for name, (column, value) in zip(names, partition.items(), strict=True):
        if len(name) > LONGEST_NAME:
            raise DataError(
                f"{column} {value[:60]!r}... has {len(value)} characters, which make a folder name of {len(name)} bytes; at most "
                f"{LONGEST_NAME} are possible. Give it a shorter name."
            )
    return "/".join(names)


def new_attempt() -> str:
    """A name for the files of one attempt to write: it tells which process writes them (process_id.py)."""
    return f"{process_id()}.{uuid4().hex[:12]}"


def process_of(file_name: str) -> str | None:
    """The process that wrote a file of ours; None if the name does not tell."""
    match = re.match(r"part-([0-9a-f]{12}\.\d+\.\d+)\.", file_name)
    return match[1] if match else None


def write_file(uri: str, rows: pa.Table, partition: dict[str, str], attempt: str = "") -> WrittenFile:
    """Write rows, without the partition's columns, to a file in the table's folder; no commit names it yet. attempt: stands in its name."""
    name = f"{partition_folder(partition)}/part-{attempt or new_attempt()}-{uuid4()}.parquet"
    system, root = located(f"{uri}/{name}")
    system.create_dir(root.rsplit("/", 1)[0], recursive=True)
    pq.write_table(rows, root, filesystem=system)
    return WrittenFile(name, system.get_file_info(root).size, partition, json.dumps({"numRecords": rows.num_rows}))


def active_files(delta: DeltaTable, where: Mapping[str, str], except_models: Sequence[str] = ()) -> Expected:
    """The files of the partitions that match, as the log names them."""
    found = pa.table(delta.get_add_actions(flatten=True))
    names = [name.removeprefix("partition.") for name in found.column_names if name.startswith("partition.")]
    columns = [found.column(f"partition.{name}").to_pylist() for name in names]
    partitions = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return {
        path: partition
        for path, partition in zip(found.column("path").to_pylist(), partitions, strict=True)
        if matches(partition, where, except_models)
    }


def matches(partition: Mapping[str, str | None], where: Mapping[str, str], except_models: Sequence[str]) -> bool:
    """Whether a partition is one of those that are replaced."""
    return (
        all(partition[name] == value for name, value in where.items()) and partition.get("model") not in except_models
    )


def disk_path(path: str) -> str:
    """A file's path within the table's folder, from the path that Delta's log has of it: the log percent-encodes it once more."""
    return unquote(path)


def commit_files(
    uri: str,
    table: Table,
    files: Iterable[WrittenFile],
    where: dict[str, str],
    except_models: Sequence[str] = (),
    expected: Expected | None = None,
) -> None:
    """Put the files in place of those whose partition matches `where`, but for some models' (these stay as they are). expected: an error if others are there."""
    now = int(time.time() * 1000)
    added = list(files)
    adds: list[AddAction | RemoveAction] = [
        AddAction(f.path, f.n_bytes, f.partition, now, True, f.stats) for f in added
    ]
    filters: list[tuple[str, str, str | list[str]]] = [(name, "=", value) for name, value in where.items()]
    if except_models:
        filters.append(("model", "not in", list(except_models)))
    wanted = None
    if expected is not None:
        wanted = {path for path, partition in expected.items() if matches(partition, where, except_models)}
    for attempt in range(TRIES):
        delta = DeltaTable(delta_uri(uri))
        there = active_files(delta, where, except_models).keys()
        if attempt and added and set(map(disk_path, there)) == {file.path for file in added}:
            return  # the commit went through, and only its answer was lost
        if wanted is not None and wanted != there:
            raise LakeError(
                f"{uri}: {', '.join(where.values())} was written by another job while this one ran, so this one has "
                "committed nothing to it. Let one job at a time write a run: wait for the other one, then run this one again."
            )
        try:
            delta.create_write_transaction(
                adds,
                "overwrite",
                delta.schema(),
                list(table.partitions),
                filters,
                commit_properties=CommitProperties(max_commit_retries=0),
            )
            return
        except CommitFailedError:  # another job's commit went through since the table was read
            time.sleep(random.uniform(0, min(0.5, 0.005 * 2**attempt)))
    raise LakeError(
        f"{uri}: {TRIES} times another job's commit came first, so nothing of {', '.join(where.values())} was committed. "
        "Run fewer jobs on this lake at once."
    )
