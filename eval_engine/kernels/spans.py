"""First row, last row and number of rows of each distinct value, in one pass over the rows.

A run of equal values costs one lookup in the hash table.
"""

import numpy as np

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.item_positions import MIX

FEW = 1024  # distinct values in the first hash table; it grows by a factor of 4


def spans_of(values: Ints, nobody: Bools | None = None) -> tuple[Ints, Ints, Ints, Ints]:
    """Distinct values in the order of their first rows; first row, last row and number of rows of each; all int64.

    nobody marks rows without a value: they are skipped.
    """
    values, nobody = np.ascontiguousarray(values, np.int64), np.empty(0, np.bool_) if nobody is None else nobody
    spans, row, n, room = np.empty((4, 0), np.int64), 0, 0, FEW
    while row < values.size:
        spans = np.concatenate([spans[:, :n], np.empty((4, room - n), np.int64)], axis=1)
        bits = int(room - 1).bit_length() + 2
        slots, shift = np.full(1 << bits, -1, np.int32), np.uint64(64 - bits)
        _enter(spans[0], n, slots, shift)
        row, n = _spans(values, nobody, row, n, slots, shift, *spans)
        room *= 4
    return spans[0, :n], spans[1, :n], spans[2, :n], spans[3, :n]


@compiled
def _enter(distinct, n, slots, shift):  # type: ignore[no-untyped-def]
    last = np.uint64(slots.size - 1)
    for code in range(n):
        slot = (np.uint64(distinct[code]) * MIX) >> shift
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        slots[slot] = code


@compiled
def _spans(values, nobody, row, n, slots, shift, distinct, low, high, total):  # type: ignore[no-untyped-def]
    """Reads rows from `row` to the end, or until a new value has no free place; returns the next row and n distinct."""
    last, n_rows = np.uint64(slots.size - 1), np.uint64(values.size)
    row = np.uint64(row)
    while row < n_rows:
        if nobody.size and nobody[row]:
            row += np.uint64(1)
            continue
        value, first = values[row], row
        slot = (np.uint64(value) * MIX) >> shift
        code = slots[slot]
        while code >= 0 and distinct[code] != value:
            slot = (slot + np.uint64(1)) & last
            code = slots[slot]
        if code < 0:
            if n == distinct.size:
                break
            code = np.int32(n)
            slots[slot], distinct[code], low[code], total[code] = code, value, np.int64(row), 0
            n += 1
        row += np.uint64(1)
        while row < n_rows and values[row] == value and not (nobody.size and nobody[row]):
            row += np.uint64(1)
        high[code] = np.int64(row) - 1
        total[code] += np.int64(row - first)
    return np.int64(row), n
