"""Write a file so that a reader sees the old one or the new one, never half of it."""

import os
import secrets
from pathlib import Path


def write_atomically(content: bytes, path: str | Path) -> Path:
    """Write beside the target, then rename over it; makes the folder if it is missing."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target
