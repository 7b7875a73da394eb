"""Decimals of statistics: exact, whatever their size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eval_engine.evaluation.bucket_statistics import _decimals
from eval_engine.statistics.ratio import SCALE

WHOLE = st.integers(-(2**62) + 1, 2**62 - 1) | st.integers(-(10**7), 10**7) | st.integers(-3, 3)


@given(st.lists(st.tuples(WHOLE, st.integers(0, SCALE - 1) | st.sampled_from([0, SCALE - 1]))))
def test_decimals_are_exact(numbers):
    whole, part = (np.array([one[n] for one in numbers], np.int64) for n in range(2))
    found = _decimals(whole, part).to_pylist()
    # digits of the number itself: a product would be rounded to 28
    assert [int(f"{one:f}".replace(".", "")) for one in found] == [x * SCALE + y for x, y in numbers]


def test_decimals_that_are_not_valid():
    valid = np.arange(20) % 3 == 0
    found = _decimals(np.arange(20), np.zeros(20, np.int64), valid).to_pylist()
    assert found == [n if n % 3 == 0 else None for n in range(20)]
