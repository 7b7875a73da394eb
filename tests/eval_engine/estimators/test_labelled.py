"""Labelled pairs: what they stand for, the precisions at positives against every order of tied items, ideal lists."""

from itertools import pairwise, permutations
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.estimators.labelled import Labelled
from eval_engine.kernels.gain import TIES
from eval_engine.kernels.order_among_labels import negatives_below
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts, rank_facts

SCORES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf])


def pairs_won(facts, positive, level):
    """Pairs of a positive and a negative in which the positive is above, and all pairs, of each user, one by one."""
    below, same, negatives = negatives_below(facts.offsets, facts.above, facts.tied, positive, None)
    return facts.per_user(np.bincount(np.flatnonzero(positive), below + level * same, minlength=positive.size)), (
        facts.per_user(positive) * negatives
    )


def all_labelled(row, positive):
    """One user whose every item is labelled."""
    return Labelled(rank_facts(np.array([row], np.float64), [range(len(row))]), np.array(positive, bool))


def sum_of_precisions(order, positive, k):
    """By the plain definition: at every positive in the top k, the share of positives down to it."""
    found, total = 0, 0.0
    for rank, item in enumerate(order[:k], 1):
        found += positive[item]
        total += positive[item] * found / rank
    return total


@given(st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=6), st.integers(1, 8))
@settings(max_examples=80, deadline=None)
def test_precisions_match_all_tie_breaks(items, k):
    row, positive = zip(*items, strict=True)
    orders = [order for order in permutations(range(len(row))) if all(row[a] >= row[b] for a, b in pairwise(order))]
    by_order = [sum_of_precisions(order, positive, k) for order in orders]
    found = {ties: all_labelled(row, positive).precisions(k, ties)[0] for ties in TIES}
    assert found["expected"] == pytest.approx(np.mean(by_order), abs=1e-12)
    assert found["strict"] <= min(by_order) + 1e-12
    assert found["optimistic"] >= max(by_order) - 1e-12
    if len(orders) == 1:
        np.testing.assert_allclose(list(found.values()), by_order[0], atol=1e-12)


def test_precisions_of_a_sample_by_loops():
    """Three of five labelled: w = 5/3, and a pair is labelled with chance 3 * 2 / (5 * 4)."""
    facts = rank_facts(np.array([[9.0, 8, 7, 6, 5]]), [[0, 2, 3]], [[1, 1, 1]])
    single, pair = 1 + 1 / 3 + 1 / 4, 1 / 3 + 2 / 4
    assert Labelled(facts).precisions(5, "expected")[0] == pytest.approx(5 / 3 * single + 20 / 6 * pair)
    assert Labelled(facts).precisions(3, "expected")[0] == pytest.approx(5 / 3 * (1 + 1 / 3) + 20 / 6 / 3)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_precisions_with_known_probabilities_by_loops(data):
    """The sum over positives i of w_i / rank_i, and over other positives j of w_i w_j / rank_i where j is before i; over all orders."""
    row = data.draw(st.lists(SCORES, min_size=1, max_size=5))
    shown = data.draw(st.lists(st.integers(0, len(row) - 1), unique=True))
    k = data.draw(st.integers(1, 6))
    probability = np.random.default_rng(len(shown)).uniform(0.1, 1, len(shown))
    facts = rank_facts(np.array([row]), [shown])._replace(probability=probability)
    w = dict(zip(shown, 1 / probability, strict=True))
    by_order = []
    for order in permutations(range(len(row))):
        if all(row[a] >= row[b] for a, b in pairwise(order)):
            rank = {item: n for n, item in enumerate(order, 1)}
            top = [i for i in shown if rank[i] <= k]
            by_order.append(sum(w[i] * (1 + sum(w[j] for j in shown if rank[j] < rank[i])) / rank[i] for i in top))
    found = {ties: Labelled(facts).precisions(k, ties)[0] for ties in TIES}
    assert found["expected"] == pytest.approx(np.mean(by_order), rel=1e-12)
    assert found["strict"] <= min(by_order) * (1 + 1e-12)
    assert found["optimistic"] >= max(by_order) * (1 - 1e-12)


def test_what_a_pair_stands_for():
    facts = rank_facts(np.zeros((4, 6)), [[0, 1, 2], [], range(6), [3]], [[1, 1, 0], [], [1] * 6, [0]])
    some = Labelled(facts)
    assert some.scale.tolist() == [2, 0, 1, 6]
    assert some.total.tolist() == some.n_positive.tolist() == [2, 0, 6, 0]
    assert some.complete.tolist() == [False, False, True, False]
    assert some.weight is None
    everything = Labelled(facts, all_labelled=True)
    assert everything.scale.tolist() == [1, 1, 1, 1]
    assert everything.complete.all()
    known = Labelled(facts._replace(probability=np.array([0.5, 0.25, 0.1, *[0.5] * 6, 0.1])))
    assert known.scale.tolist() == [1, 1, 1, 1]
    assert known.total.tolist() == [2 + 4, 0, 12, 0]


def test_ideal_dcg_is_linear_between_whole_numbers():
    facts = rank_facts(np.zeros((5, 3)), [[]] * 5)
    found = Labelled(facts).ideal_dcg(3, np.array([0, 1, 1.5, 3, 70]))
    second, third = 1 / log2(3), 1 / log2(4)
    np.testing.assert_allclose(found, [0, 1, 1 + second / 2, 1 + second + third, 1 + second + third])


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_pairs_of_complete_labels_need_the_positives_only(level):
    rng = np.random.default_rng(2)
    scores, positive = rng.integers(0, 9, (30, 25)).astype(float), rng.random((30, 25)) < 0.3
    facts = rank_facts(scores, np.tile(np.arange(25), (30, 1)), positive)
    compared = pairs_won(facts, facts.value > 0, level)
    positives_only = Labelled(rank_facts(scores, [np.flatnonzero(row) for row in positive]), all_labelled=True)
    for found in (Labelled(facts), positives_only):
        np.testing.assert_array_equal(found.pairs_won(level), compared)


def test_pairs_of_complete_labels_and_a_partial_list():
    """Four candidates, two of them scored. A positive without a place loses to the negatives with one; with a negative beside it nobody knows."""
    above, tied = np.array([0, 1, 2, 2] * 3, np.int32), np.array([0, 0, UNKNOWN, UNKNOWN] * 3, np.int32)
    positive = np.array([[True, False, True, True], [True, False, True, False], [False, True, False, False]]).ravel()
    facts = RankFacts(np.array([0, 4, 8, 12]), np.ones(12), np.full(12, np.nan), above, tied, np.full(3, 4, np.int32))
    compared = pairs_won(facts, positive, 0.5)
    np.testing.assert_array_equal(compared[0], [1, np.nan, 2])
    np.testing.assert_array_equal(Labelled(facts, positive).pairs_won(0.5), compared)


@pytest.mark.parametrize("positive", [np.array([1.0, 0.0]), np.array([True])])
def test_a_mask_that_is_none_is_refused(positive):
    with pytest.raises(ValueError, match="positive must be a bool for each of the 2 pairs"):
        Labelled(rank_facts(np.zeros((1, 3), np.float32), [[0, 1]]), positive)
