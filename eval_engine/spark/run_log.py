"""The log file of a command: what Spark, its Java and its Python workers write, and the traces of errors. The terminal gets the message only, which names the file.

It lies in $PLUMBLINE_LOG, else in plumbline/log of the user's state folder ($XDG_STATE_HOME, else ~/.local/state), else, where that cannot be
written, in the folder for temporary files. PLUMBLINE_LOG=- means no file: all goes to the terminal, for containers whose output is collected. Each process has a file of its own; those beyond the newest 50, or beyond 64 MB, are removed when a new one is made.
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
    """The log file of this process, made when it is first asked for; None: there is none, the terminal is the log."""
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
    """Where a log may lie, the best place first."""
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    named = os.environ.get("PLUMBLINE_LOG")
    first = Path(named) if named else Path(state, "plumbline", "log")
    return [first.absolute(), Path(tempfile.gettempdir(), f"plumbline-{os.getuid()}")]


def _remove_old(folder: Path) -> None:
    """Makes room for a new file. A file that another process has just removed is gone, which is what is wanted."""
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
