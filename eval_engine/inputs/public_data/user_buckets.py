"""Pairs of all users, spread over temporary files by a hash of the user, so that one user's pairs are read together.

Memory then depends on the size of a bucket, not on that of the data set; what is done to a user's pairs does not depend
on the order in which the owner's files have them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.inputs.public_data.pair_hash import Doubles, Longs
from eval_engine.kernels.splitmix64 import mix

BYTES_PER_BUCKET = 64 << 20  # of the owner's text: some 3 million pairs, 250 MB while they are sorted
MOST_BUCKETS = 512  # files that are open at once
SCHEMA = pa.schema([("source", pa.int8()), ("user_id", pa.int64()), ("item_id", pa.int64()), ("value", pa.float64())])


class Pairs(NamedTuple):
    """Pairs of some users, sorted by user and item."""

    user_id: Longs
    item_id: Longs
    value: Doubles

    def where(self, chosen: np.ndarray) -> "Pairs":
        """The chosen pairs."""
        return Pairs(*(column[chosen] for column in self))

    def __len__(self) -> int:
        return len(self.user_id)

    def in_any(self, others: "Pairs") -> np.ndarray:
        """Which of these pairs are among the others, (n,); both have each pair once."""
        both = Pairs(*(np.concatenate(columns) for columns in zip(self, others, strict=True)))
        order = np.lexsort((both.item_id, both.user_id))
        user, item = both.user_id[order], both.item_id[order]
        twice = (user[1:] == user[:-1]) & (item[1:] == item[:-1])
        repeated = np.zeros(len(order), np.bool_)
        repeated[order[1:]] |= twice
        repeated[order[:-1]] |= twice
        return repeated[: len(self.user_id)]


class DistinctPairs(NamedTuple):
    """Pairs of a source, each once: with its largest value."""

    pairs: Pairs
    n_repeated: int  # rows of a pair after its first one


class UserBuckets:
    """Writes pairs of several sources to temporary files, then reads them bucket by bucket."""

    def __init__(self, folder: Path, text_bytes: int) -> None:
        self.n_buckets = min(MOST_BUCKETS, 1 + text_bytes // BYTES_PER_BUCKET)
        self.files = [folder / f"_bucket-{number}.arrow" for number in range(self.n_buckets)]
        self.writers = [pa.ipc.new_file(str(file), SCHEMA) for file in self.files]

    def add(self, source: int, batch: pa.RecordBatch) -> None:
        """Adds pairs: user_id, item_id, value."""
        columns = [batch.column(name) for name in SCHEMA.names[1:]]
        rows = pa.record_batch([pa.repeat(pa.scalar(source, pa.int8()), batch.num_rows), *columns], schema=SCHEMA)
        bucket = mix(rows.column("user_id").to_numpy().astype(np.uint64)) % np.uint64(self.n_buckets)
        for number in np.unique(bucket):
            self.writers[number].write_batch(rows.filter(pa.array(bucket == number)))

    def read(self, n_sources: int) -> Iterator[tuple[DistinctPairs, ...]]:
        """The pairs of each source, bucket by bucket; the bucket's file is removed."""
        self.close()
        for file in self.files:
            with pa.OSFile(str(file)) as handle:
                rows = pa.ipc.open_file(handle).read_all()
            file.unlink()
            source = rows.column("source").to_numpy()
            columns = [rows.column(name).to_numpy() for name in SCHEMA.names[1:]]
            del rows
            if len(source):
                yield tuple(
                    _each_once(Pairs(*(column[source == number] for column in columns))) for number in range(n_sources)
                )

    def close(self) -> None:
        """Completes the files."""
        for writer in self.writers:
            writer.close()
        self.writers = []


def refuse_repeated(pairs: DistinctPairs, file: Path, what: str) -> None:
    """Raises if a pair is there more than once."""
    if pairs.n_repeated:
        rows = "row repeats" if pairs.n_repeated == 1 else "rows repeat"
        raise DataError(
            f"{file}: {pairs.n_repeated:,} {rows} a {what} of the same user and item, but the owner's file has "
            "each pair once. Was it joined with another file? Unpack the download again."
        )


def _each_once(pairs: Pairs) -> DistinctPairs:
    order = np.lexsort((pairs.value, pairs.item_id, pairs.user_id))
    pairs = pairs.where(order)
    last = np.ones(len(order), np.bool_)
    last[:-1] = (pairs.user_id[1:] != pairs.user_id[:-1]) | (pairs.item_id[1:] != pairs.item_id[:-1])
    return DistinctPairs(pairs.where(last), int(len(order) - last.sum()))
