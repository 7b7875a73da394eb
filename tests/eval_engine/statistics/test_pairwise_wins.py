"""Wins user by user: what loops over dictionaries give."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.statistics.pairwise_wins import wins

VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0, float("nan")])


@given(
    st.lists(st.dictionaries(st.integers(-5, 5), st.tuples(VALUES, VALUES), max_size=8), min_size=1, max_size=4),
    st.randoms(),
)
@settings(deadline=None)
def test_wins(models, random):
    users, values = [], []
    for own in models:
        keys = list(own)
        random.shuffle(keys)
        users.append(np.array(keys, np.int64))
        values.append(np.array([own[key] for key in keys], np.float32).reshape(-1, 2).T)
    found = wins(users, values, 2)
    for i, first in enumerate(models):
        for j, second in enumerate(models):
            for n in range(2):
                expected = sum(first[u][n] > second[u][n] for u in first if u in second) if i != j else 0
                assert found[i, j, n] == expected


def test_no_models():
    assert wins([], [], 3).shape == (0, 0, 3)
