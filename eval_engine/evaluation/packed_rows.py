"""The rows that tasks send to the aggregation: sums of a bucket as bytes, with the per-user values on which models are
compared.

bucket   0 .. 255      users by hash: sums of everything, and numbers per user
         256 .. 287    users by hash, coarse: sums of slices and strata
         512 .. 767    items by hash: how often each is in a top list
         768           weights of pairs (pair_weights.py)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.kernels.arrays import Ints
from eval_engine.statistics.bucket_sums import N_BUCKETS

PACKED = "bucket INT, model STRING, sums BINARY, users BINARY, values BINARY"
PACKED_ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("model", pa.string()),
        ("sums", pa.binary()),
        ("users", pa.binary()),
        ("values", pa.binary()),
    ]
)
ROW = np.dtype(
    [
        ("bucket", "<i4"),
        ("cell", "<i4"),  # -1 - group: sums that all cells of the group share
        ("slice", "<i4"),  # EVERYTHING, ZERO, or the code of a slice
        ("stratum", "<i4", 3),
        ("counts", "<i8", 3),
        ("whole", "<i8", 7),
        ("part", "<i8", 7),
    ]
)
EVERYTHING, ZERO = -1, -2
COARSE, ITEMS = N_BUCKETS, 2 * N_BUCKETS  # coarse buckets and buckets of items are numbered from here
WEIGHTS = 3 * N_BUCKETS
ZSTD = pa.Codec("zstd", compression_level=1)


def packed(rows: npt.NDArray[Any]) -> bytes:
    """Rows of ROW, compressed to about a tenth: most of their bytes are zero."""
    return rows.nbytes.to_bytes(8, "little") + ZSTD.compress(rows.tobytes(), asbytes=True)


def unpacked(stored: bytes) -> npt.NDArray[Any]:
    """Rows of ROW."""
    return np.frombuffer(ZSTD.decompress(stored[8:], unpacked_size(stored)), ROW)


def unpacked_size(stored: bytes | None) -> int:
    """The bytes of the rows in memory."""
    return 0 if stored is None else int.from_bytes(stored[:8], "little")


def packed_batch(buckets: Ints, model: str, *columns: Sequence[bytes | None]) -> pa.RecordBatch:
    """Rows of PACKED."""
    binary = [pa.array(column, pa.binary()) for column in columns]
    return pa.RecordBatch.from_arrays(
        [pa.array(buckets, pa.int32()), pa.array([model] * len(buckets), pa.string()), *binary], schema=PACKED_ARROW
    )
