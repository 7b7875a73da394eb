"""Recall against a literal loop over sorted lists, and against ir_measures where there are no ties."""

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.rank_facts import rank_facts
from eval_engine.kernels.recall import hits, positives, recall


def brute_force(row, positive_items, k):
    """The mean, over the places a tied item may take, of being in the top k, over the positives."""
    shares = []
    for i in positive_items:
        first = 1 + sum(s > row[i] for s in row)
        places = range(first, first + sum(s == row[i] for s in row))
        shares.append(sum(place <= k for place in places) / len(places))
    return sum(shares) / len(shares) if shares else np.nan


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_matches_brute_force(data):
    n_items = data.draw(st.integers(1, 9))
    row = st.lists(st.sampled_from([-np.inf, -2.0, -0.0, 0.0, 3.0, np.inf]), min_size=n_items, max_size=n_items)
    scores = np.array(data.draw(st.lists(row, min_size=1, max_size=4)), np.float32)
    labels = [data.draw(st.dictionaries(st.integers(0, n_items - 1), st.booleans())) for _ in scores]
    k = data.draw(st.integers(1, n_items + 1))
    facts = rank_facts(scores, [list(one) for one in labels], [list(one.values()) for one in labels])
    want = [brute_force(scores[u], [i for i, good in one.items() if good], k) for u, one in enumerate(labels)]
    np.testing.assert_allclose(recall(facts, facts.value > 0, k, "expected"), want, atol=1e-12)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_agrees_with_ir_measures(k):
    rng = np.random.default_rng(k)
    scores = rng.normal(size=(12, 30)).astype(np.float32)
    values = rng.random((12, 30)) < 0.2
    facts = rank_facts(scores, np.tile(np.arange(30), (12, 1)), values)
    qrels = {str(u): {str(i): int(values[u, i]) for i in range(30)} for u in range(12)}
    run = {str(u): {str(i): float(scores[u, i]) for i in range(30)} for u in range(12)}
    theirs = {int(m.query_id): m.value for m in ir_measures.iter_calc([ir_measures.R @ k], qrels, run)}
    ours = recall(facts, facts.value > 0, k, "strict")
    assert np.isfinite(ours).sum() > 8
    for u in np.flatnonzero(np.isfinite(ours)):
        assert ours[u] == pytest.approx(theirs[u])


def test_no_positive_is_undefined():
    facts = rank_facts(np.zeros((2, 3), np.float32), [[0, 1], []], [[1, 0], []])
    assert positives(facts, facts.value > 0).tolist() == [1, 0]
    assert hits(facts, facts.value > 0, 3, "strict").tolist() == [1, 0]
    np.testing.assert_array_equal(recall(facts, facts.value > 0, 3, "strict"), [1, np.nan])


@pytest.mark.parametrize("positive", [np.array([1.0, 0.0]), np.array([True])])
def test_a_mask_that_is_none_is_refused(positive):
    facts = rank_facts(np.zeros((1, 3), np.float32), [[0, 1]])
    with pytest.raises(ValueError, match="positive must be a bool for each of the 2 pairs"):
        recall(facts, positive, 1, "strict")
