"""Lists made by torch are those of the kernel for the CPU: ties, signed zeros, infinities, items left out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eval_engine.kernels.top_list import top_lists
from models.device_lists import first_items

SCORES = [0.0, -0.0, 1.5, -1.5, 1e-45, -1e-45, 3e38, -3e38, np.inf, -np.inf]


def lists_of(scores: np.ndarray, k: int, left_out: np.ndarray) -> np.ndarray:
    rows, items = (torch.from_numpy(index) for index in np.nonzero(left_out))
    return first_items(torch.from_numpy(scores), k, rows, items).numpy()


@given(st.data())
def test_agrees_with_the_kernel(data: st.DataObject) -> None:
    n_users, n_items = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 12))
    cells = n_users * n_items
    drawn = data.draw(st.lists(st.sampled_from(SCORES), min_size=cells, max_size=cells))
    scores = np.array(drawn, np.float32).reshape(n_users, n_items)
    flags = data.draw(st.lists(st.booleans(), min_size=cells, max_size=cells))
    left_out = np.array(flags).reshape(scores.shape)
    k = data.draw(st.integers(1, n_items))
    offsets = np.concatenate([[0], left_out.sum(axis=1).cumsum()])
    expected, _ = top_lists(scores, k, offsets, np.nonzero(left_out)[1])
    np.testing.assert_array_equal(lists_of(scores, k, left_out), expected)


def test_nan_is_the_last_and_ties_with_minus_infinity() -> None:
    scores = np.array([[np.nan, -np.inf, -5.0, np.nan, 2.0]], np.float32)
    assert lists_of(scores, 5, np.zeros((1, 5), bool)).tolist() == [[4, 2, 0, 1, 3]]


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_many_scores_are_in_the_order_of_a_sort(scale: float) -> None:
    scores = (np.random.default_rng(0).standard_normal((5, 3000)) * scale).astype(np.float32)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :50]
    np.testing.assert_array_equal(lists_of(scores, 50, np.zeros(scores.shape, bool)), expected)
