"""Positives grouped by user and slice agree with loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.slice_order import COUNTED, FEW, slice_order


def entries(offsets: np.ndarray, codes: np.ndarray) -> dict[tuple[int, int], list[int]]:
    """By user and slice, the user's positives of that slice."""
    groups: dict[tuple[int, int], list[int]] = {}
    for user in range(offsets.size - 1):
        for p in range(offsets[user], offsets[user + 1]):
            for row in codes:
                if row[p] >= 0:
                    groups.setdefault((user, int(row[p])), []).append(p)
    return groups


def check(lengths: list[int], codes: np.ndarray) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    order = slice_order(offsets, codes)
    expected = entries(offsets, codes)
    keys = list(zip(order.users.tolist(), order.slices.tolist(), strict=True))
    assert len(keys) == len(set(keys))
    assert set(keys) == set(expected)
    assert order.users.tolist() == sorted(order.users.tolist())
    for n, key in enumerate(keys):
        assert order.positives[order.offsets[n] : order.offsets[n + 1]].tolist() == expected[key]
    assert order.offsets[-1] == order.positives.size


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.integers(0, 6), max_size=6), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_matches_loops(lengths: list[int], n_rows: int, seed: int) -> None:
    drawn = np.random.default_rng(seed).integers(-1, 4, (n_rows, sum(lengths)))
    check(lengths, np.where(drawn < 0, -1, drawn + 4 * np.arange(n_rows)[:, None]))


@pytest.mark.parametrize("n_codes", [5, COUNTED * 3 * FEW])  # counted, and too many codes for it
def test_users_with_many_positives(n_codes: int) -> None:
    lengths = [1, 3 * FEW, 0, 2 * FEW, 1]
    drawn = np.random.default_rng(0).integers(-1, n_codes, (2, sum(lengths)))
    check(lengths, np.where(drawn < 0, -1, drawn + n_codes * np.arange(2)[:, None]))
