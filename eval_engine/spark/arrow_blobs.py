"""Rows on their way through Spark, many to a blob: a BINARY value that holds some rows as Arrow writes them.

A row with lists costs the JVM some ten microseconds from worker to worker; a blob costs the same and holds thousands of rows. Spark decides where a blob
goes by the key columns beside it, as with any row.

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
BATCH_BYTES = 32 * 2**20  # rows that a task gathers before it makes blobs of them
SMALL = pa.ipc.IpcWriteOptions(
    compression="lz4"
)  # ids and places shrink to a third or less; Java copies each byte some ten times between two workers


def encode_by_key(rows: pa.RecordBatch, *keys: Ints) -> tuple[list[Ints], pa.Array]:
    """A blob of the rows of each distinct key, in the order of the keys; the keys' columns, and the blobs."""
    if not rows.num_rows:
        return [key[:0] for key in keys], pa.array([], pa.binary())
    if not _in_order(keys):
        order = np.lexsort(keys[::-1])
        rows, keys = rows.take(pa.array(order)), tuple(key[order] for key in keys)
    heads = np.flatnonzero(np.concatenate([[True], np.logical_or.reduce([key[1:] != key[:-1] for key in keys])]))
    blobs = [encode(rows.slice(start, end - start)) for start, end in pairwise([*heads.tolist(), rows.num_rows])]
    return [key[heads] for key in keys], pa.array(blobs, pa.binary())


def _in_order(keys: tuple[Ints, ...]) -> bool:
    """Whether the rows stand in the order of their keys already."""
    more, same = np.zeros(keys[0].size - 1, np.bool_), np.ones(keys[0].size - 1, np.bool_)
    for key in keys:
        more |= same & (key[1:] > key[:-1])
        same &= key[1:] == key[:-1]
    return bool((more | same).all())


def encode(rows: pa.RecordBatch) -> bytes:
    """The rows as bytes."""
    rows = pa.RecordBatch.from_arrays(
        rows.columns, rows.schema.names
    )  # whatever Spark knows of NULLs: blobs of one kind have one schema
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=SMALL) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue().to_pybytes())


def decode(blobs: Iterable[pa.BinaryScalar]) -> pa.RecordBatch:
    """The rows of some blobs of one kind, one after the other."""
    # as_py copies: a buffer inside a column may begin at any byte, and numbers in it would not be aligned
    batches = [pa.ipc.open_stream(pa.py_buffer(blob.as_py())).read_next_batch() for blob in blobs]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def rebatch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, of some BATCH_BYTES each; rows of other columns begin a batch of their own."""
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
