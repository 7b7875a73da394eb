"""The dense score table: one row per user, Parquet, in shards that are whole or absent.

    <folder>/shard-00000.parquet ...   user_id, scores BINARY: float32 little-endian in catalogue order
    <folder>/_plumbline.json           written last: model, n_users, n_items, dtype, shards, inputs, fingerprint

A shard is written under a temporary name, synced and renamed (storage/atomic_file.py). It carries the fingerprint of
its content, so a run that was stopped can continue: shards with this fingerprint stay, all others are deleted before
the first new one is written, and a folder never mixes the scores of two trainings. Without a manifest the table is
not finished.

A block of scores becomes an Arrow column without a copy. A row group holds at most block_mb, or a single longer row.
Scores have no dictionary, compression or statistics: these would cost time and save nothing.
"""

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eval_engine.errors import LakeError
from eval_engine.storage.atomic_file import TEMPORARY, put_in_place, replace_atomically, temporary_path
from models.blocks_ahead import blocks_ahead
from models.errors import DivergedError, TrainingError
from models.processes import Processes
from models.scorer import Scorer

MANIFEST = "_plumbline.json"
FINGERPRINT = b"plumbline.fingerprint"
MB = 1 << 20


class Layout(NamedTuple):
    """How many users a row group and a shard hold."""

    group: int
    shard: int


class Content(NamedTuple):
    """What a score table holds."""

    model: str
    user_ids: pa.Array  # (n_users,), one row each, in this order
    n_items: int
    inputs: str  # hash of what the model was trained on and how: known before training
    fingerprint: str  # hash of that and of the trained weights: two tables with the same one have the same bytes


def layout_of(user_ids: pa.Array, n_items: int, block_mb: int, shard_mb: int) -> Layout:
    """The largest groups under the cap, and whole groups up to about shard_mb in a shard."""
    id_bytes = 8 if pa.types.is_integer(user_ids.type) else 4 + (pc.max(pc.binary_length(user_ids)).as_py() or 0)
    row_bytes = 4 * n_items + 4 + id_bytes
    group = max(1, min(block_mb, shard_mb) * MB * 63 // 64 // row_bytes)  # 1/64 is left for page headers
    return Layout(group, group * max(1, shard_mb * MB // (group * row_bytes)))


def finished(folder: Path, inputs: str) -> bool:
    """Whether the folder holds a complete table made from these inputs."""
    manifest = _read_manifest(folder)
    return manifest.get("inputs") == inputs and all(
        _holds(folder / name, manifest["fingerprint"]) for name in manifest["shards"]
    )


def write_scores(
    folder: Path,
    content: Content,
    scorer: Scorer,
    layout: Layout,
    advance: Callable[[int], None],
    processes: Processes = Processes(),  # noqa: B008 a value that never changes
) -> int:
    """Write the missing shards, then the manifest; the number of shards written. advance: called with users done."""
    n_users = len(content.user_ids)
    starts = range(0, n_users, layout.shard)
    names = [f"shard-{number:05d}.parquet" for number in range(len(starts))]
    if processes.first:
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder, set(names), content.fingerprint)
    processes.wait()
    written = 0
    with ThreadPoolExecutor(1) as thread:
        disk = _Disk(thread)
        for name, start in list(zip(names, starts, strict=True))[processes.rank :: processes.size]:
            stop = min(start + layout.shard, n_users)
            if not (folder / name).exists():
                _write_shard(folder / name, content, scorer, (start, stop, layout.group), disk)
                written += 1
            advance(stop - start)
        disk.wait()
    processes.wait()
    if not processes.first:
        return written
    manifest = {
        "format": 1,
        "model": content.model,
        "n_users": n_users,
        "n_items": content.n_items,
        "dtype": "float32-le",
        "shards": names,
        "inputs": content.inputs,
        "fingerprint": content.fingerprint,
    }
    replace_atomically(folder / MANIFEST, lambda path: path.write_text(json.dumps(manifest, indent=2) + "\n"))
    return written


def binary_column(block: npt.NDArray[np.float32]) -> pa.Array:
    """Each row of the block as one binary value; the values are the block's own memory, shape (n,)."""
    rows, width = block.shape
    if rows * width * 4 > np.iinfo(np.int32).max:
        raise LakeError(
            f"a block of {rows:,} x {width:,} scores passes the 2 GB of an Arrow binary column. Lower block_mb."
        )
    values = np.ascontiguousarray(block, dtype="<f4")
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width * 4)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


class _Disk:
    """A thread that writes while the next block is scored; at most one piece of work waits for it."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self.thread = thread
        self.last: Future[object] | None = None

    def do(self, work: Callable[..., object], *arguments: object) -> None:
        """Start this work after the work before it, which is finished when this returns."""
        self.wait()
        self.last = self.thread.submit(work, *arguments)

    def wait(self) -> None:
        """Wait until all is done; an error of the work is raised here."""
        if self.last is not None:
            self.last.result()


def _write_shard(path: Path, content: Content, scorer: Scorer, span: tuple[int, int, int], disk: _Disk) -> None:
    """Write users start..stop of the table, a row group at a time, under a temporary name until it is complete."""
    start, stop, group = span
    schema = pa.schema(
        [("user_id", content.user_ids.type), ("scores", pa.binary())],
        metadata={FINGERPRINT: content.fingerprint.encode()},
    )
    temporary = temporary_path(path)
    writer = pq.ParquetWriter(temporary, schema, use_dictionary=False, compression="none", write_statistics=["user_id"])

    def finish() -> None:
        writer.close()
        put_in_place(temporary, path)

    groups = (np.arange(first, min(first + group, stop)) for first in range(start, stop, group))
    for users, block in blocks_ahead(scorer, groups):
        _check(content, users, block)
        ids = content.user_ids.slice(int(users[0]), len(users))
        disk.do(writer.write_batch, pa.record_batch([ids, binary_column(block)], schema=schema), len(users))
    disk.do(finish)


def _check(content: Content, users: npt.NDArray[np.int64], block: npt.NDArray[np.float32]) -> None:
    """An error if a block has the wrong shape, or a NaN, which has no rank."""
    if block.shape != (len(users), content.n_items):
        raise TrainingError(
            f"model {content.model}: scores of shape {block.shape} for {len(users)} users and {content.n_items} items."
        )
    if np.isnan(block.min()):
        user = content.user_ids[int(users[np.isnan(block).any(axis=1).argmax()])].as_py()
        raise DivergedError(
            f"model {content.model}: the scores of user_id={user} contain NaN, which has no rank. "
            "Train with a lower learning_rate."
        )


def _clear(folder: Path, names: set[str], fingerprint: str) -> None:
    """Remove the manifest and every shard that does not belong to this table."""
    strange = [
        f.name for f in folder.iterdir() if not f.name.startswith(("_", ".")) and not f.match("shard-[0-9]*.parquet")
    ]
    if strange:
        raise LakeError(
            f"{folder} holds {strange[0]}, which is not part of a score table. Choose another folder for scores, or "
            "move it away."
        )
    (folder / MANIFEST).unlink(missing_ok=True)
    for shard in folder.glob("shard-*.parquet"):
        if shard.name not in names or not _holds(shard, fingerprint):
            shard.unlink()
    for leftover in folder.glob(TEMPORARY):
        leftover.unlink()


def _holds(shard: Path, fingerprint: str) -> bool:
    """Whether a shard is there and carries the fingerprint."""
    try:
        metadata = pq.read_metadata(shard).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return False
    return metadata.get(FINGERPRINT) == fingerprint.encode()


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest; empty if there is none."""
    try:
        return dict(json.loads((folder / MANIFEST).read_text()))
    except (OSError, ValueError):
        return {}
