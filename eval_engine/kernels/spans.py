"""Runs of equal values, and where the entries of each code lie: its first and last row, and how many there are; one pass each."""

import numpy as np

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled

STEP = 64


def heads_of(values: Ints) -> Ints:
    """Where a value differs from the one before it, int64; 0 among them."""
    values = np.ascontiguousarray(values)
    heads = np.empty(values.size, np.int64)  # memory that is not written to is not taken
    return heads[: _fill_heads(values, heads)].copy()


def spans_of(codes: Ints, n_codes: int, first: Ints, last: Ints, n_rows: Ints) -> tuple[Ints, Ints, Ints]:
    """(n_codes,) int64 each, of runs of rows in rising order: a run's code (-1: nobody's), first and last row, and number of rows. n_rows 0: no such code."""
    low, high, total = np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64), np.zeros(n_codes, np.int64)
    arrays = (np.ascontiguousarray(array, np.int64) for array in (first, last, n_rows))
    _add_runs(np.ascontiguousarray(codes, np.int32), *arrays, low, high, total)
    return low, high, total


@compiled
def _add_runs(codes, first, last, n_rows, low, high, total):  # type: ignore[no-untyped-def]
    for run in range(codes.size):
        code = codes[run]
        if code >= 0:
            if total[code] == 0:
                low[code] = first[run]
            high[code] = last[run]
            total[code] += n_rows[run]


@compiled
def _fill_heads(values, heads):  # type: ignore[no-untyped-def]
    """How many there are."""
    if not values.size:
        return 0
    heads[0], n = 0, 1
    for start in range(1, values.size, STEP):
        here, before = values[start : start + STEP], values[start - 1 : start - 1 + STEP]
        changes = 0
        for j in range(here.size):  # without a branch, so that many are compared at once: most steps hold no head
            changes += here[j] != before[j]
        if changes:
            for j in range(here.size):
                if here[j] != before[j]:
                    heads[n] = start + j
                    n += 1
    return n
