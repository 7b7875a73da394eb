"""Spans of codes against a literal search."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.spans import spans_of


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(1, 4), st.integers(0, 3))))
def test_matches_a_literal_search(runs: list[tuple[int, int, int]]) -> None:
    rows: list[int] = []  # the code of each row; gaps belong to nobody
    first, last, sizes = [], [], []
    for code, size, gap in runs:
        first.append(len(rows))
        rows += [code] * size
        last.append(len(rows) - 1)
        sizes.append(size)
        rows += [-1] * gap
    low, high, total = spans_of(np.array([run[0] for run in runs], np.int32), 6, np.array(first), np.array(last), np.array(sizes))
    for code in range(6):
        mine = [n for n, found in enumerate(rows) if found == code]
        assert total[code] == len(mine)
        if mine:
            assert (low[code], high[code]) == (mine[0], mine[-1])
