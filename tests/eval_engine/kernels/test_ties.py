"""Chances under ties against the literal mean over all orders of a small list."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts, rank_facts
from eval_engine.kernels.recall import recall
from eval_engine.kernels.ties import IN_TOP_K, in_top_k

ROWS = st.lists(st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf]), min_size=1, max_size=6)


def outcomes(row, k):
    """For each item, whether it is in the top k, in every order that sorts the scores."""
    orders = [o for o in permutations(range(len(row))) if all(row[a] >= row[b] for a, b in pairwise(o))]
    return np.array([[i in o[:k] for i in range(len(row))] for o in orders])


@given(ROWS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_matches_all_tie_breaks(row, k):
    facts = rank_facts(np.array([row], np.float32), [range(len(row))])
    found = outcomes(row, k)
    np.testing.assert_allclose(in_top_k(facts, k, "expected"), found.mean(axis=0), atol=1e-12)
    np.testing.assert_array_equal(in_top_k(facts, k, "strict"), found.all(axis=0))
    np.testing.assert_array_equal(in_top_k(facts, k, "optimistic"), found.any(axis=0))


@pytest.mark.parametrize("ties", IN_TOP_K)
@pytest.mark.parametrize("k", [4, 5, 2**40])
def test_everything_is_in_the_top_of_a_long_enough_list(ties, k):
    facts = rank_facts(np.array([[1, 1, 1, 0, 7]], np.float32), [[0, 1, 2, 3]], excluded=[[4]])
    assert in_top_k(facts, k, ties).tolist() == [1, 1, 1, 1]


def test_a_constant_scorer():
    facts = rank_facts(np.zeros((1, 50), np.float32), [range(50)])
    assert set(in_top_k(facts, 10, "expected")) == {0.2}
    assert set(in_top_k(facts, 10, "strict")) == {0.0}
    assert set(in_top_k(facts, 10, "optimistic")) == {1.0}


def test_unknown_policy_and_cutoff():
    facts = rank_facts(np.zeros((1, 2), np.float32), [[0]])
    with pytest.raises(ValueError, match="expected, strict, optimistic"):
        in_top_k(facts, 1, "random")
    with pytest.raises(ValueError, match="k must be at least 1"):
        in_top_k(facts, 0, "strict")


def test_a_place_that_is_not_known_is_out_of_the_top_or_unknown():
    facts = RankFacts(
        np.array([0, 2]), np.ones(2), np.array([np.nan, 5.0]), np.array([7, 2], np.int32), np.array([UNKNOWN, 0], np.int32), np.array([20])
    )
    for ties in ("strict", "expected", "optimistic"):
        assert in_top_k(facts, 7, ties).tolist() == [0.0, 1.0]  # seven are known to be above it or level
        assert np.isnan(in_top_k(facts, 8, ties)).tolist() == [True, False]
    assert np.isnan(recall(facts, np.array([True, True]), 8, "strict")).all()
    assert recall(facts, np.array([False, True]), 8, "strict").tolist() == [1.0]  # only positives must be known
