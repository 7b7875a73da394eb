"""Lookups of item ids equal those of a dict."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.item_positions import catalogue_of, in_order, positions_of

IDS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 40)


@given(st.lists(IDS, unique=True, max_size=60), st.lists(IDS, max_size=80))
@settings(deadline=None)  # the first call may compile
def test_matches_a_dict(ids, others):
    place = {item: n for n, item in enumerate(ids)}
    items = [*others, *ids[::-1]]
    positions = positions_of(catalogue_of(np.array(ids, np.int64)), np.array(items, np.int64))
    assert positions.dtype == np.int32
    assert positions.tolist() == [place.get(item, -1) for item in items]


def test_ids_that_would_share_a_slot():
    ids = (np.arange(5000, dtype=np.int64) << 40) + 7
    catalogue = catalogue_of(ids)
    assert positions_of(catalogue, ids[::-1]).tolist() == list(range(5000))[::-1]
    assert (positions_of(catalogue, ids + 1) == -1).all()


def test_order_of_the_catalogue():
    ids = np.array([7, -3, 11, 2**62])
    catalogue = catalogue_of(ids)
    assert in_order(catalogue, ids)
    assert in_order(catalogue, np.tile(ids, 3))
    assert in_order(catalogue, ids[:0])
    assert not in_order(catalogue, np.append(ids, 7))
    assert not in_order(catalogue, np.concatenate([ids, ids[::-1]]))
    assert not in_order(catalogue, ids + 1)
    assert not in_order(catalogue_of(ids[:0]), ids)
