"""Means equal those of loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.errors import DataError
from models.baselines.averages import average_rating, global_average
from models.logged import Logged

N_USERS, N_ITEMS = 4, 5
PAIRS = st.dictionaries(
    st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1)), st.floats(-5, 5), min_size=1
)


def to_logged(pairs: dict[tuple[int, int], float]) -> Logged:
    keys = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    values = np.array([pairs[pair] for pair in sorted(pairs)], np.float64)
    return Logged(keys[:, 0], keys[:, 1], values > 3, values, N_USERS, N_ITEMS)


@settings(deadline=None)
@given(PAIRS, st.sampled_from([0.0, 0.5, 10.0]))
def test_means_match_loops(pairs: dict[tuple[int, int], float], damping: float) -> None:
    mean = sum(pairs.values()) / len(pairs)
    expected = []
    for i in range(N_ITEMS):
        own = [value for (_, item), value in pairs.items() if item == i]
        expected.append((sum(own) + damping * mean) / (len(own) + damping) if own else mean)
    np.testing.assert_allclose(average_rating(to_logged(pairs), damping), expected, atol=1e-12)
    np.testing.assert_allclose(global_average(to_logged(pairs)), [mean] * N_ITEMS, atol=1e-12)


def test_damping_moves_towards_the_mean_and_equal_means_tie() -> None:
    pairs = {(0, 0): 5.0, (0, 1): 3.0, (1, 1): 3.0, (2, 1): 3.0, (0, 2): 2.0, (1, 2): 4.0}
    plain, damped = average_rating(to_logged(pairs), 0.0), average_rating(to_logged(pairs), 1e9)
    assert plain[0] == 5
    assert plain[1] == plain[2] == 3
    np.testing.assert_allclose(damped, 20 / 6, atol=1e-6)


@pytest.mark.parametrize("row", [global_average, lambda logged: average_rating(logged, 1.0)])
def test_without_pairs_there_is_no_mean(row) -> None:
    with pytest.raises(DataError, match="0 logged pairs of 5 items"):
        row(to_logged({}))
