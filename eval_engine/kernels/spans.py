"""Where the rows of each value lie: the first and the last, and how many there are. One pass; runs of one value are looked up once."""

import numpy as np

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.item_positions import MIX

FEW = 1024  # distinct values that there is room for to begin with


def spans_of(values: Ints, nobody: Bools | None = None) -> tuple[Ints, Ints, Ints, Ints]:
    """Each distinct value, in order of its first row, its first and last row and its number of rows, int64 all; nobody: rows that have no value."""
    distinct, spans = _spans(np.ascontiguousarray(values, np.int64), np.empty(0, np.bool_) if nobody is None else nobody)
    return distinct, spans[0], spans[1], spans[2]


@compiled
def _spans(values, nobody):  # type: ignore[no-untyped-def]
    distinct, spans = np.empty(FEW, np.int64), np.zeros((3, FEW), np.int64)
    slots, shift = np.full(4 * FEW, -1, np.int32), np.uint64(52)
    n, row = 0, 0
    while row < values.size:
        if nobody.size and nobody[row]:
            row += 1
            continue
        value, first = values[row], row
        while row < values.size and values[row] == value and not (nobody.size and nobody[row]):
            row += 1
        slot = _slot(distinct, slots, shift, value)
        code = slots[slot]
        if code < 0:
            if n == distinct.size:  # no room: twice as much
                distinct = np.concatenate((distinct, distinct))
                spans = np.concatenate((spans, np.zeros_like(spans)), axis=1)
                slots, shift = np.full(2 * slots.size, -1, np.int32), shift - np.uint64(1)
                for old in range(n):
                    slots[_slot(distinct, slots, shift, distinct[old])] = old
                slot = _slot(distinct, slots, shift, value)
            slots[slot], code = n, n
            distinct[n], spans[0, n] = value, first
            n += 1
        spans[1, code] = row - 1
        spans[2, code] += row - first
    return distinct[:n], spans[:, :n]


@compiled
def _slot(distinct, slots, shift, value):  # type: ignore[no-untyped-def]
    """Where the value is, or would be: open addressing."""
    last = np.uint64(slots.size - 1)
    slot = (np.uint64(value) * MIX) >> shift
    while slots[slot] >= 0 and distinct[slots[slot]] != value:
        slot = (slot + np.uint64(1)) & last
    return slot
