"""Sums over users' positives agree with loops."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.gain import gain_table
from eval_engine.kernels.user_totals import (
    FEW,
    counts_within,
    ideal_totals,
    totals_of_classes,
    totals_within,
    user_totals,
)

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


PLACES = st.lists(st.integers(0, 12), max_size=8)


@settings(deadline=None)
@given(
    st.lists(PLACES, max_size=5), st.lists(st.integers(1, 14), min_size=1, max_size=3), st.booleans(), st.integers(0, 9)
)
def test_totals_of_the_top_match_loops(users: list[list[int]], cutoffs: list[int], rising: bool, seed: int) -> None:
    users = [sorted(one) for one in users] if rising else users  # a list, or any places
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in users])]).astype(np.int64)
    above = np.array([place for one in users for place in one], np.int32)
    rng = np.random.default_rng(seed)
    x, own, which = rng.normal(size=above.size), rng.integers(-1, 3, above.size), rng.integers(0, 4, above.size)
    table = np.stack([x, *rng.normal(size=(7, above.size))], axis=1)  # the row of a pair is the p-th from the end
    row = np.arange(above.size)[::-1].astype(np.int32) - above.size  # negative: from the end
    totals = totals_within(offsets, above, row, table, np.array(cutoffs))
    numbers = totals_within(offsets, above, np.empty(0, np.int32), np.empty((0, 0)), np.array(cutoffs))
    classes = totals_of_classes(offsets, above, own, 3, np.array(cutoffs))
    counts = counts_within(offsets, which, 4, np.array(cutoffs))
    for c, k in enumerate(cutoffs):
        recommended = [0] * 4
        for u in range(len(users)):
            inside = [p for p in range(offsets[u], offsets[u + 1]) if above[p] < k]
            columns = [sum((table[::-1][p, n] for p in inside), 0.0) for n in range(8)]
            assert totals[c, :, u].tolist() == [len(inside), *columns]
            assert numbers[c, :, u].tolist() == [len(inside)]
            assert classes[c, :, u].tolist() == [sum(own[p] == g for p in inside) for g in range(3)]
            for p in range(offsets[u], min(offsets[u] + k, offsets[u + 1])):
                recommended[which[p]] += 1
        assert counts[c].tolist() == recommended
