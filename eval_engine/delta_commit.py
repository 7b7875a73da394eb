"""Makes files that lie in a Delta table's folder part of the table, in place of a run's older files, in one commit. No session: delta-rs.

Spark's own commit costs 2 to 5 s, this one 20 ms. Two jobs that write the same run at once: one commits, the other gets an error.
"""

import json
import os
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from eval_engine.errors import LakeError
from eval_engine.stored_file import located, spelled
from eval_engine.tables import Table


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


def write_file(uri: str, rows: pa.Table, partition: dict[str, str], attempt: str = "") -> WrittenFile:
    """Write rows, without the partition's columns, to a file in the table's folder; no commit names it yet. attempt: stands in its name."""
    name = f"run_id={partition['run_id']}/part-{attempt}-{uuid4()}.parquet"
    system, root = located(f"{uri}/{name}")
    system.create_dir(root.rsplit("/", 1)[0], recursive=True)
    pq.write_table(rows, root, filesystem=system)
    return WrittenFile(name, system.get_file_info(root).size, partition, json.dumps({"numRecords": rows.num_rows}))


def commit_files(
    uri: str, table: Table, files: Iterable[WrittenFile], where: dict[str, str], except_models: Sequence[str] = ()
) -> None:
    """Put the files in place of those whose partition matches `where`, but for some models' (these stay as they are)."""
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [
        AddAction(f.path, f.n_bytes, f.partition, now, True, f.stats) for f in files
    ]
    filters: list[tuple[str, str, str | list[str]]] = [(name, "=", value) for name, value in where.items()]
    if except_models:
        filters.append(("model", "not in", list(except_models)))
    try:
        delta = DeltaTable(delta_uri(uri))
        delta.create_write_transaction(actions, "overwrite", delta.schema(), list(table.partitions), filters)
    except CommitFailedError as error:
        raise LakeError(
            f"{uri}: {', '.join(where.values())} was written by another job at the same time, so nothing was committed "
            f"({str(error).splitlines()[0]}). Run it again when the other one is done."
        ) from None
