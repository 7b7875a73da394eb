"""The id of a process that wrote a file or a row, and whether that process still runs.

    id = <hash of host name and boot>.<process number>.<its start, in clock ticks since the boot>

A process number is used again after a while; with its start it is unique. The id has letters, digits and dots only,
so it can be part of a file name. Whether a process of another machine still runs cannot be known here.
"""

import os
import re
import socket
from hashlib import sha256
from pathlib import Path

ID = re.compile(r"([0-9a-f]{12})\.(\d+)\.(\d+)")


def process_id(pid: int | None = None) -> str:
    """The id of this process, or of another one of this machine."""
    pid = pid or os.getpid()
    return f"{_machine()}.{pid}.{_start(pid) or 0}"


def is_gone(process: str) -> bool | None:
    """Whether the process has ended; None if it ran on another machine or before the last boot, or it is no id."""
    match = ID.fullmatch(process)
    if not match or match[1] != _machine():
        return None
    return _start(int(match[2])) != int(match[3])


def _machine() -> str:
    """This machine since its last boot. Containers have host names and process numbers of their own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:  # no Linux
        boot = ""
    return sha256(f"{socket.gethostname()} {boot}".encode()).hexdigest()[:12]


def _start(pid: int) -> int | None:
    """Start of the process in clock ticks; None if there is none, or it has ended and waits for its parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _start_elsewhere(pid)
    return None if fields[0] in "ZX" else int(fields[19])


def _start_elsewhere(pid: int) -> int | None:
    """The same where there is no /proc: 0 if there is such a process, else None."""
    if Path("/proc/self/stat").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return 0
