"""Lists of numbers as BINARY values, little-endian.

Spark copies, shuffles and passes a BINARY value to Python as it is. An ARRAY costs it some 50 ns per element in each of
these steps.

>>> import numpy as np
>>> column = pack(np.array([7, 8, 9], np.int32), np.array([0, 1, 1, 3]))
>>> [len(x) for x in column.to_pylist()]
[4, 0, 8]
>>> offsets, values = unpack(column, np.int32)
>>> offsets.tolist(), values.tolist()
([0, 1, 1, 3], [7, 8, 9])
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def pack(values: npt.NDArray[Any], offsets: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """values[offsets[n] : offsets[n + 1]] as the bytes of row n; offsets start at 0."""
    flat = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    starts = np.asarray(offsets, np.int64) * flat.itemsize
    if starts[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"{flat.size:,} numbers are more than the 2 GB that a BINARY column of a batch can hold")
    return pa.Array.from_buffers(
        pa.binary(), len(starts) - 1, [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(flat)]
    )


def unpack(column: pa.Array, dtype: npt.DTypeLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Offsets and flat numbers of a column of binary lists; NULL is read as an empty list."""
    column = column if pa.types.is_binary(column.type) else column.cast(pa.binary())
    if column.null_count:
        column = column.fill_null(b"")
    kind = np.dtype(dtype).newbyteorder("<")
    _, offsets, data = column.buffers()
    starts = (
        np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        if offsets
        else np.zeros(1, np.int32)
    )
    flat = np.frombuffer(data or b"", np.uint8)[starts[0] : starts[-1]]
    values = flat.view(kind) if flat.ctypes.data % kind.itemsize == 0 else np.frombuffer(flat.tobytes(), kind)
    return (starts.astype(np.int64) - starts[0]) // kind.itemsize, values
