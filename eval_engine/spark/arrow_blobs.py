"""Rows that pass through Spark in blobs: a blob is a BINARY value with many rows as an Arrow IPC stream.

The JVM takes some ten microseconds to move a row with lists from worker to worker. It takes the same time for a blob,
which holds thousands of rows. Spark partitions blobs by the key columns beside them, as it does any row.

>>> import numpy as np
>>> rows = pa.RecordBatch.from_pydict({"user": ["a", "b", "c"]})
>>> (tasks,), blobs = encode_by_key(rows, np.array([7, 5, 7]))
>>> tasks.tolist(), [decode([blob]).column("user").to_pylist() for blob in blobs]
([5, 7], [['b'], ['a', 'c']])
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.integer[Any]]
BATCH_BYTES = 32 * 2**20  # a task collects rows of this size before it makes blobs of them
# lz4 shrinks ids and positions to a third or less; Java copies each byte some ten times between two workers
SMALL = pa.ipc.IpcWriteOptions(compression="lz4")


def encode_by_key(rows: pa.RecordBatch, *keys: Ints) -> tuple[list[Ints], pa.Array]:
    """One blob per distinct key, sorted by key: the key columns, and the blobs."""
    if not rows.num_rows:
        return [key[:0] for key in keys], pa.array([], pa.binary())
    if not _in_order(keys):
        order = np.lexsort(keys[::-1])
        rows, keys = rows.take(pa.array(order)), tuple(key[order] for key in keys)
    heads = np.flatnonzero(np.concatenate([[True], np.logical_or.reduce([key[1:] != key[:-1] for key in keys])]))
    blobs = [encode(rows.slice(start, end - start)) for start, end in pairwise([*heads.tolist(), rows.num_rows])]
    return [key[heads] for key in keys], pa.array(blobs, pa.binary())


def _in_order(keys: tuple[Ints, ...]) -> bool:
    """Whether the rows are already sorted by their keys."""
    more, same = np.zeros(keys[0].size - 1, np.bool_), np.ones(keys[0].size - 1, np.bool_)
    for key in keys:
        more |= same & (key[1:] > key[:-1])
        same &= key[1:] == key[:-1]
    return bool((more | same).all())


def encode(rows: pa.RecordBatch) -> bytes:
    """The rows as the bytes of an Arrow IPC stream."""
    # drops the `nullable` flags that Spark sets, so that blobs with the same columns have the same schema
    rows = pa.RecordBatch.from_arrays(rows.columns, rows.schema.names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=SMALL) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue().to_pybytes())


def decode(blobs: Iterable[pa.BinaryScalar]) -> pa.RecordBatch:
    """The rows of all blobs, in their order; all blobs have the same columns."""
    # as_py copies the bytes: a value may start at any byte of its column's buffer, where numbers would not be aligned
    batches = [pa.ipc.open_stream(pa.py_buffer(blob.as_py())).read_next_batch() for blob in blobs]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def rebatch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches of some BATCH_BYTES each; rows with other columns start a new batch."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if waiting and batch.num_rows and batch.schema.names != waiting[0].schema.names:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= BATCH_BYTES:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)
