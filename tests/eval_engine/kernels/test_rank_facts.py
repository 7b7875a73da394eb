"""Rank facts from arrays in memory: the numbers, the layout, and an error for each thing that cannot be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.errors import DataError
from eval_engine.kernels.rank_facts import RankFacts, rank_facts


def test_numbers_of_a_small_case():
    scores = np.array([[0.9, 0.5, 0.5, 0.1], [1.0, 2.0, 3.0, 4.0], [0.0, -0.0, -np.inf, np.inf]], np.float32)
    facts = rank_facts(
        scores, items=[[1, 3], [], [0, 3, 2]], values=[[5, 1], [], [2, 3, 4]], excluded=[[0], [1, 2], []]
    )
    assert facts.offsets.tolist() == [0, 2, 2, 5]
    assert facts.above.tolist() == [0, 2, 1, 0, 3]
    assert facts.tied.tolist() == [1, 0, 1, 0, 0]
    assert facts.candidates.tolist() == [3, 2, 4]
    assert facts.value.tolist() == [5, 1, 2, 3, 4]
    assert facts.score.tolist() == [0.5, np.float32(0.1), 0.0, np.inf, -np.inf]
    assert facts.user.tolist() == [0, 0, 2, 2, 2]
    assert facts.n_users == 3


def test_types():
    facts = rank_facts(np.zeros((2, 3), np.float16), items=np.array([[0, 1], [2, 0]]))
    assert [x.dtype for x in facts[:6]] == [np.int64, np.float64, np.float32, np.int32, np.int32, np.int32]
    assert facts.probability is None
    assert facts.in_uniform is None
    assert facts.value.tolist() == [1, 1, 1, 1]
    assert rank_facts(np.zeros((1, 3)), items=[[1]]).score.dtype == np.float64


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=4), max_size=6))
@settings(max_examples=60, deadline=None)
def test_per_user_is_the_sum_of_each_segment(segments):
    sizes = [len(s) for s in segments]
    flat = np.array([x for s in segments for x in s])
    some = np.zeros(flat.size, np.int32)
    facts = RankFacts(np.cumsum([0, *sizes]), flat, flat, some, some, np.ones(len(sizes), np.int32))
    result = facts.per_user(flat)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, [sum(s) for s in segments], rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.array([[0, 1], [np.nan, 1]])}, "scores: user 1, item 0 is NaN"),
        ({"items": [[0], [2]]}, r"items: user 1 has item 2, but scores have the items 0\.\.1"),
        ({"items": [[-1], []]}, "items: user 0 has item -1"),
        ({"items": [[0], [1, 1]]}, "items: user 1 has item 1 more than once"),
        ({"excluded": [[0], []]}, "items: user 0, item 0 is labelled and excluded"),
        ({"excluded": [[1, 1], []]}, "excluded: user 0 has item 1 more than once"),
        ({"excluded": [[], [7]]}, "excluded: user 1 has item 7"),
        ({"values": [[1.0], []]}, "values: user 1 has 0 values for 1 items"),
        ({"values": [[1.0], [np.nan]]}, "values: user 1 has a value that is NaN"),
    ],
)
def test_bad_data_is_named(change, message):
    arguments = {"scores": np.array([[0.0, 1.0], [0.0, 1.0]]), "items": [[0], [1]]} | change
    with pytest.raises(DataError, match=message):
        rank_facts(**arguments)


@pytest.mark.parametrize(
    ("scores", "items", "message"),
    [
        (np.zeros(3), [[0]], r"\(n_users, n_items\) matrix"),
        (np.zeros((2, 3)), [[0]], "2 users, 1 lists"),
        (np.zeros((1, 3)), [[0.5]], "integer positions"),
        (np.zeros((1, 3)), [[[0]]], "one dimension"),
    ],
)
def test_wrong_calls_are_refused(scores, items, message):
    with pytest.raises(ValueError, match=message):
        rank_facts(scores, items)


def test_all_items_of_all_users_can_be_labelled():
    scores = np.random.default_rng(0).normal(size=(4, 600))
    facts = rank_facts(scores, items=np.tile(np.arange(600), (4, 1)))
    for u in range(4):
        assert sorted(facts.above[u * 600 : (u + 1) * 600]) == list(range(600))
