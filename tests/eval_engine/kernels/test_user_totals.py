"""Sums over users' positives agree with loops."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.gain import gain_table
from eval_engine.kernels.user_totals import FEW, ideal_totals, user_totals

WEIGHTS = st.lists(st.sampled_from([0.0, 0.1, 1.0, 2.5, 1e6]), max_size=2 * FEW)


@settings(deadline=None)  # the first call compiles
@given(st.lists(WEIGHTS, max_size=5), st.lists(st.integers(1, 2 * FEW + 5), min_size=1, max_size=3))
def test_match_loops(users: list[list[float]], cutoffs: list[int]) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in users])]).astype(np.int64)
    weight = np.array([w for one in users for w in one], np.float64)
    np.testing.assert_array_equal(user_totals(offsets, weight), [sum(one, 0.0) for one in users])
    np.testing.assert_array_equal(user_totals(offsets, weight > 0), [sum(w > 0 for w in one) for one in users])
    best = ideal_totals(offsets, weight, gain_table("discount", max(cutoffs))[0], np.array(cutoffs))
    for c, k in enumerate(cutoffs):
        for u, one in enumerate(users):
            falling = sorted(one, reverse=True)[:k]
            expected = math.fsum(w / math.log2(rank + 1) for rank, w in enumerate(falling, 1))
            np.testing.assert_allclose(best[c, u], expected, rtol=1e-12)
