"""Spans of codes against a literal search."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.spans import heads_of, spans_of


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


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([1, 1, 2, 63, 64, 65, 200]))))
def test_heads_are_where_a_value_changes(runs: list[tuple[int, int]]) -> None:
    values = [value for value, size in runs for _ in range(size)]
    assert heads_of(np.array(values, np.int64)).tolist() == [n for n, value in enumerate(values) if n == 0 or values[n - 1] != value]
    assert heads_of(np.array(values, np.int64) > 0).tolist() == [n for n, value in enumerate(values) if n == 0 or (values[n - 1] > 0) != (value > 0)]
