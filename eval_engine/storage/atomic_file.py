"""Files that are whole or absent, also after a crash: written under a temporary name, synced to disk, renamed.

A temporary name starts with `_`: Spark and Arrow read no such file.

    write_atomically     bytes; several processes may write the same path at once, and the last one wins
    replace_atomically   what a function writes to a path; one process at a time

A file that is written piece by piece is opened at temporary_path, and put_in_place when it is complete.
"""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

TEMPORARY = "_*.tmp"  # matches every temporary name


def write_atomically(content: bytes, path: str | Path) -> Path:
    """Write the file, and its folder if it is missing."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(target, secrets.token_hex(4))
    try:
        temporary.write_bytes(content)
        put_in_place(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def replace_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Have `write` write the file; what a killed process left under the temporary name is overwritten."""
    temporary = temporary_path(path)
    try:
        write(temporary)
        put_in_place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_path(path: Path, writer: str = "") -> Path:
    """The path under which a file is written before it is complete; writer: distinguishes writers of the same path.

    >>> temporary_path(Path("a/_b.json")).as_posix(), temporary_path(Path("a/b"), "17").as_posix()
    ('a/_b.json.tmp', 'a/_b.17.tmp')
    """
    return path.with_name(f"_{path.name.removeprefix('_')}{'.' if writer else ''}{writer}.tmp")


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a complete file to its own name; when this returns, the disk holds both content and name."""
    _sync(temporary)
    temporary.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Have the disk hold what was written to a file or folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
