"""Where the rows of each value lie: the first and the last, and how many there are. One pass; runs of one value are looked up once."""

import numpy as np

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.item_positions import MIX

FEW = 1024  # distinct values that there is room for to begin with


def spans_of(values: Ints, nobody: Bools | None = None) -> tuple[Ints, Ints, Ints, Ints]:
    """Each distinct value, in order of its first row, its first and last row and its number of rows, int64 all; nobody: rows that have no value."""
    values, nobody = np.ascontiguousarray(values, np.int64), np.empty(0, np.bool_) if nobody is None else nobody
    found, row, n, room = np.empty((4, 0), np.int64), 0, 0, FEW
    while row < values.size:
        found = np.concatenate([found[:, :n], np.empty((4, room - n), np.int64)], axis=1)
        bits = int(room - 1).bit_length() + 2
        slots, shift = np.full(1 << bits, -1, np.int32), np.uint64(64 - bits)
        _enter(found[0], n, slots, shift)
        row, n = _spans(values, nobody, row, n, slots, shift, *found)
        room *= 4
    return found[0, :n], found[1, :n], found[2, :n], found[3, :n]


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
    """Goes on from a row until the end, or until there is no room for another value; the row it has come to, and how many values there are."""
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
