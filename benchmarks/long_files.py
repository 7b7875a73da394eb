"""Long score tables for benchmarks: user_id BIGINT, item_id BIGINT, score FLOAT, as a Spark job writes them.

    score(u, i) = noise[u mod R, (i + 7919 (u div R)) mod n_items]
    noise: seeded normal values, R rows of n_items, at most 10 M values

Files use dictionary encoding and snappy. Both layouts have the same rows. Sorted: users in order, the rows of a user
contiguous and in catalogue order, files cut between users. Scattered: all rows in one random order, cut into files, so
that a user with many items has rows in every file. Item ids are not positions: id = 3 position + 1000. A user may have
equal scores, as in real float32 tables. Row groups have 1 M rows and may begin in the middle of a user.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 1_000_000
NOISE_VALUES = 10_000_000
Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float32]


def item_ids(position: Ints) -> npt.NDArray[np.int64]:
    """The id of the item at each catalogue position."""
    return 3 * position.astype(np.int64) + 1000


def scores(user: Ints, position: Ints, n_items: int) -> Floats:
    """The score of each pair; user and position broadcast: (n, 1) users and (n_items,) positions give dense rows."""
    noise = _noise(n_items)
    return noise[user % len(noise), (position + 7919 * (user // len(noise))) % n_items]


@lru_cache(1)
def _noise(n_items: int) -> Floats:
    return np.random.default_rng(4).standard_normal((max(1, NOISE_VALUES // n_items), n_items), np.float32)


def write_sorted(folder: Path, n_users: int, n_items: int, n_files: int) -> list[str]:
    """Writes files in which the rows of a user are contiguous; returns their paths."""
    cuts = np.linspace(0, n_users, n_files + 1).astype(np.int64) * n_items
    return [_write(folder, n, np.arange(cuts[n], cuts[n + 1]), n_items) for n in range(n_files)]


def write_spread(folder: Path, n_users: int, n_items: int, n_files: int) -> list[str]:
    """Writes the same rows in random order over all files; returns their paths. Needs 4 bytes a row up to 4 G rows."""
    n_rows = n_users * n_items
    rows = np.arange(n_rows, dtype=np.min_scalar_type(n_rows))
    np.random.default_rng(5).shuffle(rows)
    return [_write(folder, n, part, n_items) for n, part in enumerate(np.array_split(rows, n_files))]


def write_labels(file: Path, positions: Ints) -> str:
    """Writes the labelled pairs, user_id and item_id, of labelled positions (n_users, n_labels); returns the path."""
    user = np.repeat(np.arange(len(positions)), positions.shape[1])
    pq.write_table(pa.table({"user_id": user, "item_id": item_ids(positions.ravel())}), file)
    return str(file)


def _write(folder: Path, number: int, rows: Ints, n_items: int) -> str:
    """Writes one file of these rows; row r is user r div n_items, position r mod n_items."""
    folder.mkdir(parents=True, exist_ok=True)
    path = str(folder / f"part-{number:05d}.snappy.parquet")
    with pq.ParquetWriter(
        path, pa.schema([("user_id", pa.int64()), ("item_id", pa.int64()), ("score", pa.float32())])
    ) as writer:
        for first in range(0, len(rows), ROW_GROUP):
            user, position = np.divmod(rows[first : first + ROW_GROUP].astype(np.int64), n_items)
            columns = {"user_id": user, "item_id": item_ids(position), "score": scores(user, position, n_items)}
            writer.write_table(pa.table(columns), row_group_size=ROW_GROUP)
    return path
