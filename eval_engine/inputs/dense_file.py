"""Reads dense scores of a Parquet file inside a Python worker.

It reads row group after row group, in blocks of bounded bytes, and each byte once. A vector is BINARY (float16, float32
or float64, little-endian, catalogue order), ARRAY<FLOAT> or ARRAY<DOUBLE>. A row whose vector is NULL or does not have
n_items scores cannot be ranked: its scores are returned as zeros, with a description of the problem.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.storage.stored_file import parquet_batches

BLOCK_BYTES = 32 * 2**20  # larger than a cache, but few calls per byte; two blocks and a row group are far below 1 GB
Floats = npt.NDArray[np.floating[Any]]


class Block(NamedTuple):
    """Rows first to first + n_rows - 1 of a file."""

    first: int
    scores: Floats  # (n_rows, n_items)
    problems: dict[int, str]  # row within the block: why it has no valid score vector


def read_blocks(file: str, column: str, dtype: str, n_items: int, first_row: int) -> Iterator[Block]:
    """The file's rows from the row group of first_row to the end."""
    try:
        for row, batch in parquet_batches(file, [column], first_row, None, max(1, BLOCK_BYTES // max(4, 4 * n_items))):
            block = Block(row, *vectors(batch.column(0), dtype, n_items))
            del batch
            yield block
            del block  # frees it before the next one is read: see parquet_batches
    except (OSError, pa.ArrowException) as error:
        raise unreadable(file, error) from None


def unreadable(file: str, error: Exception, table: str = "scores") -> DataError:
    """The error of a file that is missing or broken."""
    return DataError(
        f"{table}: {file} cannot be read ({' '.join(str(error).split())[:200]}). "
        "Is it whole, and still there? Write the table again."
    )


def vectors(column: pa.Array, dtype: str, n_items: int) -> tuple[Floats, dict[int, str]]:
    """The column as a matrix, not copied if every row is valid, and the problems of invalid rows."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        kind = np.dtype(column.type.value_type.to_pandas_dtype())
        # a NULL score becomes NaN, and is reported with the NaNs
        flat = column.values.fill_null(float("nan")).to_numpy(zero_copy_only=False)
        starts, width = column.offsets.to_numpy().astype(np.int64), 1
    else:
        kind = np.dtype(dtype).newbyteorder("<")
        column = column.cast(pa.large_binary()) if not pa.types.is_binary(column.type) else column
        _, offsets, data = column.buffers()
        flat = np.frombuffer(data or b"", np.uint8)
        wide = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        starts = np.frombuffer(offsets, wide)[column.offset : column.offset + len(column) + 1].astype(np.int64)
        width = kind.itemsize

    def scores_at(start: int, count: int) -> Floats:
        numbers = flat[start : start + width * count].view(kind)
        return numbers if numbers.flags.aligned else numbers.copy()

    lengths = np.diff(starts)
    null = column.is_null().to_numpy(zero_copy_only=False)
    whole = (lengths == width * n_items) & ~null
    if whole.all():
        return scores_at(int(starts[0]), len(column) * n_items).reshape(len(column), n_items), {}
    scores, problems = np.zeros((len(column), n_items), kind), {}
    for row in range(len(column)):
        if whole[row]:
            scores[row] = scores_at(int(starts[row]), n_items)
        else:
            n_scores = f"{lengths[row] / width:g} scores for a catalogue of {n_items} items"
            problems[row] = "its score vector is NULL" if null[row] else f"its score vector has {n_scores}"
    return scores, problems
