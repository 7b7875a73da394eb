"""Compiled code that test processes keep: what is stale is removed, the rest need not be compiled again.

numba stores a function's machine code with the time and size of the function's own file. It does not see that a
function which it calls from another file has changed. So the code of a file is removed here once the file, or one that
it imports, directly or not, has another content.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOMS = ("eval_engine", "models", "benchmarks", "tests")
COMPILED = re.compile(r"\b(compiled|n?jit|intrinsic)\b")
IMPORTS = re.compile(r"^\s*(?:from ([\w.]+) import (\([^)]*\)|[^\n]*)|import ([\w.]+))", re.M)
NOTE = "made_of.json"


def remove_stale(cache: Path, root: Path) -> list[str]:
    """Removes a cache's code of files that have changed, and notes what the rest is made of; their paths."""
    note = cache / NOTE
    before = json.loads(note.read_text()) if note.exists() else {}
    files = [path for room in ROOMS for path in sorted((root / room).rglob("*.py"))]
    now = {str(path.relative_to(root)): made_of(path, root) for path in files if COMPILED.search(path.read_text())}
    stale = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    for name in stale:
        for index in cache.glob(f"*/{Path(name).stem}.*.nbi"):
            index.unlink()
    cache.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(now))
    return stale


def made_of(path: Path, root: Path) -> str:
    """A hash of the file and of all that it imports from the rooms."""
    found, left = {path}, [path]
    while left:
        new = set(_imported(left.pop(), root)) - found
        found |= new
        left += new
    parts = [f"{one.relative_to(root)}\n".encode() + one.read_bytes() for one in sorted(found)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _imported(path: Path, root: Path) -> Iterator[Path]:
    """The files of modules that a file imports."""
    for module, names, plain in IMPORTS.findall(path.read_text()):
        whole = module or plain
        if whole.split(".")[0] in ROOMS:
            folder = root.joinpath(*whole.split("."))
            for file in (folder.with_suffix(".py"), *(folder / f"{name}.py" for name in re.findall(r"\w+", names))):
                if file.exists():
                    yield file
