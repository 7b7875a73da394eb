"""Whether a file is unchanged since a run was planned on it.

A plan identifies rows by their row numbers. If the file is replaced, the same numbers are rows of other users.

    stamp = size in bytes, time of the last change, and the ETag if the store has one (S3 has times in whole seconds)

The stamp is taken before the file is read, and compared when a task has read its last row: an equal stamp means that no
byte changed in between. If the stamp differs, the task fails and nothing is committed. Files of Delta tables never
change; their stamps cost one request per file.
"""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
from pyarrow import fs

from eval_engine.errors import DataError
from eval_engine.storage.stored_file import located


class Stamp(NamedTuple):
    """Properties of a stored file; None: the store does not report this one."""

    n_bytes: int | None
    mtime_ns: int | None
    etag: bytes | None


class Stamped(NamedTuple):
    """A file that is read, its stamp, and the name of its table in errors."""

    table: str
    path: str
    stamp: Stamp | None  # None: Arrow does not reach the file


def stamp_of(path: str) -> Stamp | None:
    """The stamp of the file now; None if Arrow does not reach it."""
    try:
        system, place = located(path)
        info, etag = system.get_file_info(place), None
        if info.is_file and not isinstance(system, fs.LocalFileSystem):
            with system.open_input_file(place) as handle:
                etag = (handle.metadata() or {}).get("ETag")
    except (OSError, pa.ArrowException):
        return None
    return Stamp(info.size, info.mtime_ns, etag)


def stamped(table: str, paths: Sequence[str]) -> list[Stamped]:
    """The files with their stamps now."""
    with ThreadPoolExecutor(16) as pool:
        return [Stamped(table, path, stamp) for path, stamp in zip(paths, pool.map(stamp_of, paths), strict=True)]


@contextmanager
def unchanged(files: Collection[Stamped]) -> Iterator[None]:
    """Raises a DataError at the end of the block if one of the files has changed since it was stamped.

    This error replaces an error raised in the block, which the change may have caused. Files may be added in the block.
    """
    try:
        yield
    finally:
        for file in sorted(files, key=lambda file: file.path):
            if file.stamp is not None and stamp_of(file.path) != file.stamp:
                raise DataError(
                    f"{file.table}: {file.path} was replaced, changed or removed while it was read, so its row numbers "
                    "no longer belong to the same users. Nothing of this run is written. Start the run again when the "
                    "table is complete; a Delta table can be replaced at any time."
                )
