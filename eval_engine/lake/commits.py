"""Puts files in a Delta table's folder (part_files.py) in place of a run's older files, in one commit, by delta-rs.

    replace_files    writes files, commits them, and deletes those that no commit names: the one way in which rows get
                     into a table without Spark's own writer
    commit_files     only the commit, for files that were written earlier

Spark's own commit costs 2 to 5 s, this one 20 ms. A commit is made for the table as it was read, or not at all. Where
another job committed in between, the table is read again. If the other job changed other partitions, this commit is
made for the newer table. If it changed the same ones, the commit is refused where the caller says which files it
expects there (Expected), else it replaces them: one of the two jobs wins whole.
"""

import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from eval_engine.errors import LakeError
from eval_engine.lake.part_files import WrittenFile, is_of_attempt, new_attempt, partition_folder
from eval_engine.storage.stored_file import full_path, located, spelled
from eval_engine.tables import Table

log = logging.getLogger(__name__)
TRIES = 200  # of a commit; each failed one means that another job's went through
Expected = Mapping[str, Mapping[str, str | None]]  # path of each file of a run: its partition's values


def delta_uri(uri: str) -> str:
    """A table's path or URI as delta-rs takes it; also allows a server without TLS, if AWS_ENDPOINT_URL names one."""
    if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        os.environ.setdefault("AWS_ALLOW_HTTP", "true")
    return spelled(uri, "delta-rs")


def native_files(uri: str) -> fs.FileSystem | None:
    """The files of a table on this machine as Arrow reads them itself; None: delta-rs reads them, through Python.

    Arrow's threads then call Python, also while the process ends, which ended a quarter of short processes with
    SIGABRT.
    """
    if "://" in uri:
        return None
    system, place = located(full_path(uri))
    return fs.SubTreeFileSystem(place, system)


def active_files(delta: DeltaTable, where: Mapping[str, str], except_models: Sequence[str] = ()) -> Expected:
    """The files of the partitions that match, as the log names them."""
    added = pa.table(delta.get_add_actions(flatten=True))
    names = [name.removeprefix("partition.") for name in added.column_names if name.startswith("partition.")]
    columns = [added.column(f"partition.{name}").to_pylist() for name in names]
    partitions = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return {
        path: partition
        for path, partition in zip(added.column("path").to_pylist(), partitions, strict=True)
        if matches(partition, where, except_models)
    }


def matches(partition: Mapping[str, str | None], where: Mapping[str, str], except_models: Sequence[str]) -> bool:
    """Whether a partition is one of those that are replaced."""
    return (
        all(partition[name] == value for name, value in where.items()) and partition.get("model") not in except_models
    )


def disk_path(path: str) -> str:
    """A file's path within the table's folder, from its path in Delta's log, which percent-encodes it once more."""
    return unquote(path)


def replace_files(
    uri: str,
    table: Table,
    where: dict[str, str],
    write: Callable[[str], list[WrittenFile]],
    except_models: Sequence[str] = (),
    expected: Expected | None = None,
) -> list[WrittenFile]:
    """Commit the files that `write` writes, as commit_files does; delete files of the attempt that no commit names.

    write gets the name of the attempt, which must be in the name of each of its files (part_files.py).
    """
    attempt = new_attempt()
    try:
        files = write(attempt)
        commit_files(uri, table, files, where, except_models, expected)
    except BaseException:
        try:
            delete_uncommitted(uri, where["run_id"], attempt)
        except (OSError, DeltaError, pa.ArrowException) as error:  # the first error is the one to raise
            log.warning("%s: files of attempt %s stay until `plumbline vacuum`: %s", uri, attempt, error)
        raise
    delete_uncommitted(uri, where["run_id"], attempt, files)  # left by tasks that failed or ran twice
    return files


def delete_uncommitted(uri: str, run_id: str, attempt: str, committed: Iterable[WrittenFile] = ()) -> None:
    """Delete the files of an attempt that no commit names. The log is not read for those known to be committed."""
    system, root = located(uri)
    known = {file.path.rsplit("/", 1)[1] for file in committed}
    run = fs.FileSelector(f"{root}/{partition_folder({'run_id': run_id})}", allow_not_found=True, recursive=True)
    left = [
        file
        for file in system.get_file_info(run)
        if is_of_attempt(file.base_name, attempt) and file.base_name not in known
    ]
    # After an error the commit may have gone through all the same: the log is asked, not the error.
    named = _named(uri) if left else set()
    for file in left:
        if file.base_name not in named:
            system.delete_file(file.path)


def _named(uri: str) -> set[str]:
    """The names of the table's files, which are unique without their folders; none if there is no table."""
    place = delta_uri(uri)
    return (
        {path.rsplit("/", 1)[1] for path in DeltaTable(place).file_uris()} if DeltaTable.is_deltatable(place) else set()
    )


def commit_files(
    uri: str,
    table: Table,
    files: Iterable[WrittenFile],
    where: dict[str, str],
    except_models: Sequence[str] = (),
    expected: Expected | None = None,
) -> None:
    """Put the files in place of those whose partition matches `where`, except some models', which stay.

    expected: the files that are there now; an error if others are.
    """
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
                "committed nothing to it. Let one job at a time write a run: wait for the other one, then run this one "
                "again."
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
        f"{uri}: {TRIES} times another job's commit came first, so nothing of {', '.join(where.values())} was "
        "committed. Run fewer jobs on this lake at once."
    )
