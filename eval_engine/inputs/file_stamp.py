"""Whether a file is still the one that a run was planned on.

A plan tells rows by their numbers: in a file that was replaced since, they are rows of other users.

    stamp = bytes, time of the last change, and the ETag where a store has one (S3 tells the time in whole seconds)

The stamp is taken before anything of the file is read, and compared when a task has read its last row: the same
stamp then means that no byte changed in between. A task that finds another one fails, and nothing is committed.
Files of Delta tables never change; their stamps cost a look.
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
    """What a store tells of a file; None: it does not."""

    n_bytes: int | None
    mtime_ns: int | None
    etag: bytes | None


class Stamped(NamedTuple):
    """A file that is read, and the table that it belongs to, as errors call it."""

    table: str
    path: str
    stamp: Stamp | None  # None: Arrow does not reach the file


def stamp_of(path: str) -> Stamp | None:
    """The file as it is now."""
    try:
        system, place = located(path)
        found, etag = system.get_file_info(place), None
        if found.is_file and not isinstance(system, fs.LocalFileSystem):
            with system.open_input_file(place) as handle:
                etag = (handle.metadata() or {}).get("ETag")
    except (OSError, pa.ArrowException):
        return None
    return Stamp(found.size, found.mtime_ns, etag)


def stamped(table: str, paths: Sequence[str]) -> list[Stamped]:
    """The files as they are now."""
    with ThreadPoolExecutor(16) as pool:
        return [Stamped(table, path, stamp) for path, stamp in zip(paths, pool.map(stamp_of, paths), strict=True)]


@contextmanager
def unchanged(files: Collection[Stamped]) -> Iterator[None]:
    """Whoever reads the files in this block has read what was stamped, or gets an error.

    The error also takes the place of another one, which the change may have caused. Files may be added in the block.
    """
    try:
        yield
    finally:
        for file in sorted(files, key=lambda file: file.path):
            if file.stamp is not None and stamp_of(file.path) != file.stamp:
                raise DataError(
                    f"{file.table}: {file.path} was replaced, changed or removed while it was read, so its rows are "
                    "no longer where they were found. Nothing of this run is written. Start the run again when the "
                    "table is complete; a Delta table can be replaced at any time."
                )
