"""The log file of a command: the output of Spark, its Java and its Python workers, and the tracebacks of errors.

The terminal gets only the message of an error, which names the log file.

The file is in the folder $PLUMBLINE_LOG, else in plumbline/log of the user's state folder ($XDG_STATE_HOME, else
~/.local/state), else, if that cannot be written, in the folder for temporary files. PLUMBLINE_LOG=- means no file: all
output goes to the terminal, for containers whose output is collected. Each process has its own file. When a new file is
made, the files beyond the newest 50, or beyond 64 MB in all, are removed.
"""

import os
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

KEPT_FILES = 50
KEPT_BYTES = 64 * 2**20


@cache
def run_log() -> Path | None:
    """The log file of this process, made at the first call; None if there is no file and the terminal is the log."""
    if os.environ.get("PLUMBLINE_LOG") == "-":
        return None
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _remove_old(folder)
            path = folder / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{os.getpid()}.log"
            path.touch()
        except OSError:
            continue
        return path
    return None


def _folders() -> list[Path]:
    """Folders for the log, the preferred one first."""
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    named = os.environ.get("PLUMBLINE_LOG")
    first = Path(named) if named else Path(state, "plumbline", "log")
    return [first.absolute(), Path(tempfile.gettempdir(), f"plumbline-{os.getuid()}")]


def _remove_old(folder: Path) -> None:
    """Removes old files before a new one is made. A file that another process has just removed is skipped."""
    sizes = []
    for path in folder.glob("*.log*"):
        try:
            sizes.append((path.stat().st_mtime, path.stat().st_size, path))
        except FileNotFoundError:
            continue
    total = 0
    for n, (_, size, path) in enumerate(sorted(sizes, reverse=True), start=1):
        total += size
        if n >= KEPT_FILES or total > KEPT_BYTES:
            path.unlink(missing_ok=True)
