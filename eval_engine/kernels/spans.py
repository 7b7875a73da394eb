"""Where the entries of each code lie: its first and last row, and how many there are; one pass."""

import numpy as np

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled


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
