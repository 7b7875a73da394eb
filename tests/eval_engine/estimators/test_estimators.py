"""Terms of each estimator against literal loops, and by name what every estimator says of itself."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.estimators.full_exposure import chance_of_a_positive, full_macro, full_micro
from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.estimators.traditional import among_labelled, traditional
from eval_engine.estimators.ure import ure_macro, ure_micro
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts, rank_facts


def literal_recall(scores, positives, k):
    """Expected recall of the positives in a dict item -> score, NaN without a positive."""
    if not positives:
        return np.nan
    total = 0.0
    for i in positives:
        above = sum(s > scores[i] for s in scores.values())
        same = sum(s == scores[i] for s in scores.values())
        total += min(1.0, max(0.0, (k - above) / same))
    return total / len(positives)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_terms_match_literal_loops(data):
    n_items = data.draw(st.integers(1, 8))
    row = st.lists(st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, np.inf]), min_size=n_items, max_size=n_items)
    scores = np.array(data.draw(st.lists(row, min_size=1, max_size=4)), np.float32)
    labels = [data.draw(st.dictionaries(st.integers(0, n_items - 1), st.booleans())) for _ in scores]
    k = data.draw(st.integers(1, n_items + 1))
    facts = rank_facts(scores, [list(one) for one in labels], [list(one.values()) for one in labels])
    positive = facts.value > 0
    shown = [[i for i, good in one.items() if good] for one in labels]
    over_all = [literal_recall(dict(enumerate(scores[u])), shown[u], k) for u in range(len(scores))]
    over_labelled = [literal_recall({i: scores[u, i] for i in labels[u]}, shown[u], k) for u in range(len(scores))]
    has = np.array([len(one) > 0 for one in shown])
    n = np.array([len(one) for one in shown], float)
    inverse = np.array([n_items / len(one) if one else 0.0 for one in labels])

    for terms, numerator, denominator in [
        (full_macro(facts, positive, k, "expected"), np.nan_to_num(over_all), has),
        (full_micro(facts, positive, k, "expected"), np.nan_to_num(over_all) * n, n),
        (ure_macro(facts, positive, k, "expected"), np.nan_to_num(over_all), has),
        (ure_micro(facts, positive, k, "expected"), np.nan_to_num(over_all) * n * inverse, n * inverse),
        (traditional(facts, positive, k, "expected"), np.nan_to_num(over_labelled), has),
    ]:
        np.testing.assert_allclose(terms.numerator, numerator, atol=1e-12)
        np.testing.assert_allclose(terms.denominator, denominator, atol=1e-12)


def test_ure_of_a_user_is_exactly_unbiased_given_the_number_of_positives():
    """Every subset of three of seven items, one tie among the scores: the mean of m/n over the subsets with n positives is M / N+."""
    scores = np.array([[0.9, 0.8, 0.8, 0.5, 0.4, 0.2, 0.1]], np.float32)
    good = {1, 3, 6, 0}
    k = 3
    everything = rank_facts(scores, [range(7)], [[i in good for i in range(7)]])
    truth = full_macro(everything, everything.value > 0, k, "expected").numerator[0]
    by_n = {}
    for shown in combinations(range(7), 3):
        facts = rank_facts(scores, [shown], [[i in good for i in shown]])
        terms = ure_macro(facts, facts.value > 0, k, "expected")
        if terms.denominator[0]:
            by_n.setdefault(int(facts.value.sum()), []).append(terms.numerator[0])
    assert set(by_n) == {1, 2, 3}
    for means in by_n.values():
        assert np.mean(means) == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("total", [1, 5, 30])
def test_chance_of_a_positive_is_the_hypergeometric_one(total):
    good, drawn = (x.ravel() for x in np.meshgrid(np.arange(total + 1), np.arange(total + 1)))
    want = [1 - comb(total - int(g), int(d)) / comb(total, int(d)) for g, d in zip(good, drawn, strict=True)]
    np.testing.assert_allclose(chance_of_a_positive(good, drawn, np.full(good.size, total)), want, atol=1e-12)


def test_chance_of_a_positive_is_stable_for_large_catalogues():
    want = 1 - comb(10**6 - 3, 20) / comb(10**6, 20)
    assert chance_of_a_positive([3], [20], [10**6])[0] == pytest.approx(want, rel=1e-4)
    with pytest.raises(ValueError, match="more than candidates"):
        chance_of_a_positive([1], [5], [4])


def test_among_labelled_has_ranks_of_the_exposed_set_only():
    facts = among_labelled(rank_facts(np.array([[9, 7, 7, 5, 3, 1], [1, 2, 3, 4, 5, 6]], np.float32), [[5, 2, 3], []]))
    assert facts.above.tolist() == [2, 0, 1]
    assert facts.candidates.tolist() == [3, 0]


def test_items_without_a_score_stand_below_those_with_one():
    nan = np.nan
    facts = RankFacts(np.array([0, 3, 6]), np.ones(6), np.array([2, nan, 5, nan, 1, nan]), np.zeros(6, int), np.zeros(6, int), np.array([9, 9]))
    ranked = among_labelled(facts)
    assert ranked.above.tolist() == [1, 2, 0, 1, 0, 1]
    assert ranked.tied.tolist() == [0, 0, 0, UNKNOWN, 0, UNKNOWN]  # one alone is last; of two nobody knows the order


def test_every_estimator_says_what_it_estimates():
    assert len({e.name for e in ESTIMATORS}) == len(ESTIMATORS)
    facts = rank_facts(np.eye(3, dtype=np.float32), [[0, 1], [1], []])
    for estimator in ESTIMATORS:
        assert estimator.estimand.endswith(".")
        assert len(estimator.estimand.split()) > 8
        more = (np.array([1, 1, 0]),) if estimator.source == "both" else ()
        terms = estimator.terms(facts, facts.value > 0, 1, "expected", *more)
        assert terms.numerator.shape == terms.denominator.shape == (3,)
        assert terms.numerator.dtype == terms.denominator.dtype == np.float64
        assert (terms.denominator > 0).tolist() == [True, True, False]
