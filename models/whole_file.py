"""A file that is whole or absent, also after a crash: written under a name that nobody reads, synced, renamed."""

import os
from collections.abc import Callable
from pathlib import Path


def replaced(path: Path, write: Callable[[Path], object]) -> None:
    """Write the file by `write` and put it in place."""
    temporary = path.with_name("_" + path.name.removeprefix("_") + ".tmp")
    write(temporary)
    _sync(temporary)
    os.replace(temporary, path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Have the disk hold what was written to a file or folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
