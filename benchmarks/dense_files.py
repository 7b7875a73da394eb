"""Dense score files for benchmarks, and bare processes that read and rank them: the machine's speed without Spark."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from eval_engine.inputs.dense_file import read_blocks
from eval_engine.kernels.rank_rows import rank_rows
from models.score_table import binary_column

ITEMS, LABELS, TOP = 10_000, 10, 100
GROUP = 1600  # users in a row group of 64 MB
Floats = npt.NDArray[np.float32]
Rows = tuple[npt.NDArray[Any], ...]  # above, tied, scores of the top


def label_positions(first: int, n_users: int, n_items: int = ITEMS) -> npt.NDArray[np.int64]:
    """The labelled positions of users first..first + n_users - 1: 10 different ones each, (n_users, 10)."""
    user = np.arange(first, first + n_users)[:, None]
    return (user * 7919 + np.arange(LABELS) * (n_items // LABELS - 3)) % n_items


def numpy_rows(scores: Floats, positions: npt.NDArray[np.int64]) -> Rows:
    """above, tied and the first 101 scores of each row, by numpy's sort and searchsorted."""
    above, tied = np.empty(positions.shape, np.int64), np.empty(positions.shape, np.int64)
    top = np.empty((len(scores), TOP + 1), np.float32)
    for n, row in enumerate(scores):
        ordered = np.sort(row)
        mine = row[positions[n]]
        right = np.searchsorted(ordered, mine, "right")
        above[n] = row.size - right
        tied[n] = right - np.searchsorted(ordered, mine, "left") - 1
        top[n] = ordered[: -TOP - 2 : -1]
    return above, tied, top


def kernel_rows(scores: Floats, positions: npt.NDArray[np.int64]) -> Rows:
    """The same by the engine's kernel."""
    n = len(scores)
    none_excluded = np.zeros(n + 1, np.int64), np.zeros(0, np.int32)
    ranked = rank_rows(scores, np.arange(n + 1) * LABELS, positions.ravel().astype(np.int32), *none_excluded, TOP + 1)
    return ranked.above.reshape(n, LABELS), ranked.tied.reshape(n, LABELS), ranked.top_scores


def only_read(scores: Floats, positions: npt.NDArray[np.int64]) -> Rows:
    """Does nothing with the scores."""
    return (positions[:, :0],)


WAYS = {"kernel": kernel_rows, "numpy": numpy_rows, "read": only_read}


def bare_file(task: tuple[str, int, str]) -> int:
    """Reads and ranks one file in a bare process; returns the sum of `above`, for comparison."""
    file, first, way = task
    total = 0
    for block in read_blocks(file, "scores", "float32", ITEMS, 0):
        result = WAYS[way](block.scores, label_positions(first + block.first, len(block.scores)))
        total += int(result[0].sum())
    return total


def bare_files(pool: ProcessPoolExecutor, files: list[tuple[str, int]], way: str) -> int:
    """Reads and ranks all files, distributed over the processes; returns the sum of `above`."""
    return sum(pool.map(bare_file, [(file, first, way) for file, first in files]))


def write_vectors(folder: Path, n_users: int, n_items: int = ITEMS) -> list[tuple[str, int]]:
    """Writes score files of a quarter GB; returns (path, first user) of each."""
    folder.mkdir(parents=True)
    group = max(1, GROUP * ITEMS // n_items)
    noise = np.random.default_rng(1).normal(size=(group, n_items)).astype(np.float32)
    files = []
    for first in range(0, n_users, 4 * group):
        path = folder / f"part-{first:09d}.parquet"
        schema = pa.schema([("user_id", pa.int64()), ("scores", pa.binary())])
        with pq.ParquetWriter(
            path, schema, use_dictionary=False, compression="none", write_statistics=["user_id"]
        ) as writer:
            for start in range(first, min(first + 4 * group, n_users), group):
                users = np.arange(start, min(start + group, n_users))
                block = np.roll(noise[: len(users)], start % n_items, axis=1)
                writer.write_batch(
                    pa.record_batch([pa.array(users), binary_column(block)], names=["user_id", "scores"]),
                    row_group_size=len(users),
                )
        files.append((str(path), first))
    return files
