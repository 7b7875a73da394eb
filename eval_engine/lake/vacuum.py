"""Deletes files in a lake's folders that no reader needs: left by jobs that were killed, or replaced long ago.

A file that no commit ever named was written by a job that was killed before its commit. Its name holds the id of its
process (part_files.py). A job that writes a run again deletes those of processes of this machine that have ended
(remove_leftovers). Files of processes of other machines, and files that a later commit replaced, are deleted when
they are old (vacuum): a reader may still read the table as it was some hours ago.
"""

import time
from typing import NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from eval_engine.lake.commits import delta_uri
from eval_engine.lake.part_files import partition_folder, process_of
from eval_engine.storage.process_id import is_gone
from eval_engine.storage.stored_file import full_path, located
from eval_engine.tables import TABLES


class Removed(NamedTuple):
    """The files that were deleted of a table."""

    table: str
    n_files: int
    n_bytes: int


def remove_leftovers(uri: str, run_id: str, process: str | None = None) -> int:
    """Delete the files of a run that no commit ever named and whose process has ended; their bytes.

    process: another one whose files are deleted too, this one if it is about to end.
    """
    system, root = located(uri)
    folder = f"{root}/{partition_folder({'run_id': run_id})}"
    files = system.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True))
    ended = [
        file for file in files if (writer := process_of(file.base_name)) and (writer == process or is_gone(writer))
    ]
    if not ended:
        return 0
    delta = DeltaTable(delta_uri(uri))
    replaced = delta.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    named = {path.rsplit("/", 1)[1] for path in (*delta.file_uris(), *replaced)}  # names are unique
    left = [file for file in ended if file.base_name not in named]
    for file in left:
        system.delete_file(file.path)
    return sum(file.size for file in left)


def vacuum(root: str, hours: int) -> list[Removed]:
    """Delete files of all tables that no commit names any more, or ever named, and that are older than `hours`."""
    removed = [_vacuum_table(f"{full_path(root)}/{table.name}", hours) for table in TABLES]
    return [entry for entry in (*removed, _vacuum_staging(full_path(root), hours)) if entry and entry.n_files]


def _vacuum_table(uri: str, hours: int) -> Removed | None:
    try:
        delta = DeltaTable(delta_uri(uri))
    except TableNotFoundError:
        return None
    system, root = located(uri)
    replaced = set(delta.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False))
    unnamed = delta.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False, full=True)
    # A file that was never committed, and whose process still runs, may still be committed.
    chosen = [f"{root}/{path}" for path in unnamed if path in replaced or not _still_written(path)]
    deleted = [info for info in system.get_file_info(chosen) if info.is_file]
    for file in deleted:
        system.delete_file(file.path)
    return Removed(uri.rsplit("/", 1)[1], len(deleted), sum(file.size for file in deleted))


def _still_written(path: str) -> bool:
    process = process_of(path.rsplit("/", 1)[1])
    return process is not None and is_gone(process) is False


def _vacuum_staging(root: str, hours: int) -> Removed:
    """Copies of score tables that a killed job left."""
    system, folder = located(root)
    before = time.time() - 3600 * hours
    removed: list[fs.FileInfo] = []
    for run in system.get_file_info(fs.FileSelector(f"{folder}/_staging", allow_not_found=True)):
        files = [f for f in system.get_file_info(fs.FileSelector(run.path, recursive=True)) if f.is_file]
        if all(file.mtime.timestamp() < before for file in files):
            system.delete_dir(run.path)
            removed += files
    return Removed("_staging", len(removed), sum(file.size for file in removed))
