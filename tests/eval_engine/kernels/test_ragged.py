"""Lists per user as offsets and one flat array."""

import numpy as np
import pytest

from eval_engine.kernels.ragged import flatten, no_lists, users_of


def test_flatten_keeps_integers_beside_empty_lists():
    offsets, flat = flatten([[], np.array([4, 2], np.int16), [], [7]], 4)
    assert offsets.tolist() == [0, 0, 2, 2, 3]
    assert flat.tolist() == [4, 2, 7]
    assert np.issubdtype(flat.dtype, np.integer)
    assert users_of(offsets).tolist() == [1, 1, 3]


def test_no_lists():
    offsets, flat = no_lists(2)
    assert offsets.tolist() == [0, 0, 0]
    assert flat.size == 0
    assert [x.tolist() for x in flatten([[], []], 2)] == [[0, 0, 0], []]


def test_one_list_per_user():
    with pytest.raises(ValueError, match="3 users, 1 lists"):
        flatten([[1]], 3)
