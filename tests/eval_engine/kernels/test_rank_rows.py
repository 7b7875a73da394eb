"""One visit per row gives what the three kernels give one after the other."""

import numpy as np
import pytest

from eval_engine.kernels.compare_count import compare_count, rows_with_nan, sorting_pays_from
from eval_engine.kernels.ragged import flatten
from eval_engine.kernels.rank_rows import rank_rows
from eval_engine.kernels.top_list import top_lists


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_as_one_after_the_other(dtype):
    n, n_items, k = 6, 3000, 20
    rng = np.random.default_rng(1)
    scores = rng.integers(-400, 400, (n, n_items)).astype(dtype)
    order = [rng.permutation(n_items) for _ in range(n)]
    n_labels = [0, 1, 5, sorting_pays_from(n_items) + 1, 10, 3]
    labels = flatten([o[:size] for o, size in zip(order, n_labels, strict=True)], n)
    excluded = flatten([o[-40 * u :] if u else [] for u, o in enumerate(order)], n)
    ranked = rank_rows(scores, *labels, *excluded, k)
    above, tied = compare_count(scores, *labels, *excluded)
    positions, found = top_lists(scores, k, *excluded)
    for mine, want in zip(ranked, (above, tied, positions, found, np.zeros(n, bool)), strict=True):
        np.testing.assert_array_equal(mine, want)


def test_flags_rows_with_nan_and_ranks_the_others():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(3, 2500)).astype(np.float32)
    clean = rank_rows(scores, *flatten([[1], [2], [3]], 3), *flatten([[], [], []], 3), 5)
    scores[1, 2400] = np.nan
    ranked = rank_rows(scores, *flatten([[1], [2], [3]], 3), *flatten([[], [], []], 3), 5)
    assert ranked.has_nan.tolist() == rows_with_nan(scores).tolist() == [False, True, False]
    np.testing.assert_array_equal(ranked.top_positions[[0, 2]], clean.top_positions[[0, 2]])
    np.testing.assert_array_equal(ranked.above[[0, 2]], clean.above[[0, 2]])
