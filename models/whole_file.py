"""A file that is whole or absent, also after a crash: written under a name that nobody reads, synced, renamed."""

import os
from collections.abc import Callable
from pathlib import Path


def replaced(path: Path, write: Callable[[Path], object]) -> None:
    """Write the file by `write` and put it in place."""
    write(unread(path))
    put(path)


def unread(path: Path) -> Path:
    """The name under which a file is written: Spark and Arrow read none that starts with _."""
    return path.with_name("_" + path.name.removeprefix("_") + ".tmp")


def put(path: Path) -> None:
    """Put in place what was written under the unread name."""
    _sync(unread(path))
    os.replace(unread(path), path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Have the disk hold what was written to a file or folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
