"""Pairs that are there twice, against counting."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.test_sets.duplicates import by_range, n_twice

PAIRS = st.lists(st.tuples(st.integers(-1, 8), st.integers(-1, 5)), max_size=60)


@settings(deadline=None)
@given(PAIRS, st.integers(1, 12))
def test_copies_are_counted_in_every_range(pairs: list[tuple[int, int]], n_ranges: int) -> None:
    users, items = np.array(pairs, np.int32).reshape(-1, 2).T
    codes, ends = by_range(users, items, 9, n_ranges)
    known = [pair for pair in pairs if min(pair) >= 0]
    assert codes.size == len(known)
    found = 0
    for r, part in enumerate(np.split(codes, ends[:-1])):
        low, high = 9 * r // n_ranges, 9 * (r + 1) // n_ranges
        assert sorted((c >> 32, c & 0xFFFFFFFF) for c in part.tolist()) == sorted(
            p for p in known if low <= p[0] < high
        )
        found += n_twice(part, low, high)
    assert found == sum(n - 1 for n in Counter(known).values())
