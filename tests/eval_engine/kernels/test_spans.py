"""Spans of values equal those of a plain search."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.spans import FEW, spans_of

VALUES = st.integers(-1, 5) | st.sampled_from([-(2**63), 2**63 - 1])


def literal(values: list[int | None]) -> list[tuple[int, int, int, int]]:
    rows: dict[int, list[int]] = {}
    for row, value in enumerate(values):
        if value is not None:
            rows.setdefault(value, []).append(row)
    return [(value, mine[0], mine[-1], len(mine)) for value, mine in rows.items()]


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(VALUES | st.none(), st.integers(1, 4))))
def test_matches_a_literal_search(runs: list[tuple[int | None, int]]) -> None:
    values = [value for value, size in runs for _ in range(size)]
    spans = spans_of(
        np.array([value or 0 for value in values], np.int64), np.array([value is None for value in values], bool)
    )
    assert list(zip(*(column.tolist() for column in spans), strict=True)) == literal(values)
    if None not in values:
        assert [column.tolist() for column in spans_of(np.array(values, np.int64))] == [
            column.tolist() for column in spans
        ]


def test_more_values_than_the_first_table_holds() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-(2**40), 2**40, 9 * FEW)[rng.integers(0, 9 * FEW, 50 * FEW)]
    spans = spans_of(values)
    assert spans[0].size > 4 * FEW
    assert list(zip(*(column.tolist() for column in spans), strict=True)) == literal(values.tolist())


def test_nothing() -> None:
    assert [column.size for column in spans_of(np.empty(0, np.int64))] == [0, 0, 0, 0]
