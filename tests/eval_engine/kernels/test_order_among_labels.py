"""How labelled pairs stand to one another, by their places, against loops over their scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from eval_engine.kernels.order_among_labels import FEW, ahead, negatives_below, places_among
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts, rank_facts

SCORES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, np.inf])


@st.composite
def labelled(draw):
    """Rank facts of a few users' pairs, and which of them are positives; users may have none."""
    n_items = draw(st.integers(1, 8))
    row = st.lists(SCORES, min_size=n_items, max_size=n_items)
    scores = np.array(draw(st.lists(row, max_size=4)), np.float64).reshape(-1, n_items)
    items = [draw(st.lists(st.integers(0, n_items - 1), unique=True)) for _ in scores]
    facts = rank_facts(scores, items)
    return facts, np.array([draw(st.booleans()) for _ in facts.value], bool)


def users(facts, positive):
    """(scores of the pairs, which of them are positives) of each user."""
    return [(facts.score[a:b], positive[a:b]) for a, b in zip(facts.offsets[:-1], facts.offsets[1:], strict=True)]


def pairs_won(offsets, above, tied, positive, weight, level):
    """Pairs of a positive and a negative in which the positive is above, and all pairs, of each user."""
    below, same, negatives = negatives_below(offsets, above, tied, positive, weight)
    user = np.repeat(np.arange(offsets.size - 1), np.diff(np.concatenate([[0], np.cumsum(positive)])[offsets]))
    w = np.ones(below.size) if weight is None else weight[positive]
    won, total = (np.bincount(user, x, minlength=offsets.size - 1) for x in (w * (below + level * same), w))
    return won.astype(float), total * negatives


def of_positives(facts, positive):
    return np.concatenate([[0], np.cumsum(positive)])[facts.offsets]


@given(labelled())
@settings(max_examples=80, deadline=None)  # the first call compiles
def test_places_among_the_labelled(case):
    facts, positive = case
    want = [
        (sum(s > t for s in scores), sum(s == t for s in scores) - 1)
        for scores, good in users(facts, positive)
        for t in scores[good]
    ]
    above, tied = places_among(facts.offsets, facts.above, facts.tied, positive)
    assert above.dtype == tied.dtype == np.int32
    assert list(zip(above.tolist(), tied.tolist(), strict=True)) == want


def test_places_have_ranks_of_the_exposed_set_only():
    facts = rank_facts(np.array([[9, 7, 7, 5, 3, 1], [1, 2, 3, 4, 5, 6]], np.float32), [[5, 2, 3], []])
    above, tied = places_among(facts.offsets, facts.above, facts.tied, np.ones(3, bool))
    assert above.tolist() == [2, 0, 1]
    assert tied.tolist() == [0, 0, 0]


def test_pairs_without_a_place_stand_below_those_with_one():
    offsets, above, tied = (
        np.array([0, 3, 6]),
        np.array([3, 4, 1, 4, 2, 4], np.int32),
        np.array([0, UNKNOWN, 0, UNKNOWN, 0, UNKNOWN], np.int32),
    )
    inside, level = places_among(offsets, above, tied, np.ones(6, bool))
    assert inside.tolist() == [1, 2, 0, 1, 0, 1]
    assert level.tolist() == [0, 0, 0, UNKNOWN, 0, UNKNOWN]  # one alone is last; of two nobody knows the order


@given(labelled(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_ahead(case, weighted):
    facts, positive = case
    weight = np.random.default_rng(positive.size).random(int(positive.sum())) + 0.1
    one = weight if weighted else np.ones(weight.size)
    want, at = [], 0
    for scores, good in users(facts, positive):
        mine, w = scores[good], one[at : at + good.sum()]
        for i, s in enumerate(mine):
            want.append((sum(w[mine > s]), sum(w[j] for j in range(mine.size) if j != i and mine[j] == s)))
        at += mine.size
    found = ahead(of_positives(facts, positive), facts.above[positive], weight if weighted else None)
    np.testing.assert_allclose(np.array(found).T, np.array(want).reshape(-1, 2), atol=1e-12)
    assert ((found.level > 0) == (np.array(want).reshape(-1, 2)[:, 1] > 0)).all()  # exactly 0 where there is none


def literal_pairs(scores, good, weight, level):
    won = total = 0.0
    for i in np.flatnonzero(good):
        for j in np.flatnonzero(~good):
            w = weight[i] * weight[j]
            won += w * (1.0 if scores[i] > scores[j] else level if scores[i] == scores[j] else 0.0)
            total += w
    return won, total


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
@given(case=labelled(), weighted=st.booleans())
@settings(max_examples=60, deadline=None)
def test_pairs_won(level, case, weighted):
    facts, positive = case
    weight = np.random.default_rng(positive.size).random(positive.size) + 0.1 if weighted else np.ones(positive.size)
    cuts = facts.offsets[1:-1]
    want = (
        [literal_pairs(*one, w, level) for one, w in zip(users(facts, positive), np.split(weight, cuts), strict=True)]
        if facts.n_users
        else []
    )
    found = pairs_won(facts.offsets, facts.above, facts.tied, positive, weight if weighted else None, level)
    np.testing.assert_allclose(np.array(found).T, np.array(want).reshape(-1, 2), atol=1e-12)


@pytest.mark.parametrize("n_values", [5, 40, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_pairs_are_sorted_and_give_the_same(n_values, weighted):
    """The first user's pairs are compared one by one, the second's, twice as many and more than FEW, sorted."""
    rng = np.random.default_rng(n_values)
    sizes = np.array([100, 200])
    assert 20 * 80 < FEW < 60 * 140
    scores = rng.integers(0, n_values, (2, 200)).astype(np.float64)
    facts = rank_facts(scores, [range(n) for n in sizes])
    positive = np.concatenate([rng.permutation(n) < n_good for n, n_good in zip(sizes, (20, 60), strict=True)])
    weight = rng.random(300) + 0.1 if weighted else None
    for level in (0.0, 0.5, 1.0):
        found = pairs_won(facts.offsets, facts.above, facts.tied, positive, weight, level)
        for u, (mine, good) in enumerate(users(facts, positive)):
            w = np.ones(good.size) if weight is None else weight[facts.offsets[u] : facts.offsets[u + 1]]
            assert (found[0][u], found[1][u]) == pytest.approx(literal_pairs(mine, good, w, level), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_sklearn(weighted):
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 30, (20, 400)).astype(np.float64)
    positive = rng.random((20, 400)) < 0.2
    shown = [rng.permutation(400)[:n] for n in rng.integers(20, 400, 20)]  # some below FEW pairs, some above
    facts = rank_facts(scores, shown)
    good = np.concatenate([positive[u, s] for u, s in enumerate(shown)])
    weight = rng.random(good.size) + 0.1 if weighted else None
    won, total = pairs_won(facts.offsets, facts.above, facts.tied, good, weight, 0.5)
    n_pairs = [positive[u, s].sum() * (~positive[u, s]).sum() for u, s in enumerate(shown)]
    assert min(n_pairs) < FEW < max(n_pairs)
    for u, shown_u in enumerate(shown):
        w = None if weight is None else weight[facts.offsets[u] : facts.offsets[u + 1]]
        theirs = roc_auc_score(positive[u, shown_u], scores[u, shown_u], sample_weight=w)
        assert won[u] / total[u] == pytest.approx(theirs, rel=1e-12)


def test_pairs_of_unknown_order_are_unknown():
    """Two users with places 0 and 1, and two pairs below them: of one kind, then of both kinds."""
    above, tied = np.array([0, 1, 2, 2] * 2, np.int32), np.array([0, 0, UNKNOWN, UNKNOWN] * 2, np.int32)
    positive = np.array([True, False, True, True, True, False, True, False])
    won, total = pairs_won(np.array([0, 4, 8]), above, tied, positive, None, 0.5)
    np.testing.assert_array_equal(won, [1, np.nan])
    assert total.tolist() == [3, 4]


def test_no_users():
    facts = RankFacts(
        np.zeros(1, np.int64),
        np.zeros(0),
        np.zeros(0),
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
    )
    nobody = np.zeros(0, bool)
    assert [x.shape for x in places_among(facts.offsets, facts.above, facts.tied, nobody)] == [(0,), (0,)]
    assert [x.shape for x in ahead(facts.offsets, facts.above, None)] == [(0,), (0,)]
    assert [x.shape for x in pairs_won(facts.offsets, facts.above, facts.tied, nobody, None, 0.5)] == [(0,), (0,)]
