"""Counts equal those of loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.baselines.counts import popularity, positive_popularity
from models.logged import Logged

N_USERS, N_ITEMS = 4, 5
PAIRS = st.dictionaries(st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1)), st.booleans())


@settings(deadline=None)
@given(PAIRS)
def test_counts_match_loops(pairs: dict[tuple[int, int], bool]) -> None:
    keys = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    positive = np.array([pairs[pair] for pair in sorted(pairs)], bool)
    logged = Logged(keys[:, 0], keys[:, 1], positive, positive * 5.0, N_USERS, N_ITEMS)
    assert popularity(logged).tolist() == [sum(item == i for _, item in pairs) for i in range(N_ITEMS)]
    assert positive_popularity(logged).tolist() == [
        sum(item == i and liked for (_, item), liked in pairs.items()) for i in range(N_ITEMS)
    ]
