"""Metrics of complete labels against ir_measures and against every order of tied items; a sample of everything is everything."""

from itertools import pairwise, permutations
from math import comb

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.auc import auc
from eval_engine.estimators.metrics.hit_rate import chance_of_a_positive, hit_rate
from eval_engine.estimators.registry import METRICS, formula, formulas
from eval_engine.estimators.user_batch import batch_of
from eval_engine.kernels.gain import TIES
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts, rank_facts

average_precision = METRICS["map"].means["macro"].terms
dcg = METRICS["dcg"].means["mean"].terms
ndcg_macro = METRICS["ndcg"].means["macro"].terms
ndcg_mean = METRICS["ndcg"].means["mean"].terms
precision = METRICS["precision"].means["mean"].terms
recall_macro = METRICS["recall"].means["macro"].terms

SCORES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf])
N_USERS, N_ITEMS = 40, 30
THEIRS = {"R": recall_macro, "P": precision, "nDCG": ndcg_macro, "AP": average_precision, "Success": hit_rate}


def world(seed, values=None):
    """Scores, without ties if no few values are given, and positives; the first user has none, the second nothing else."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(N_USERS, N_ITEMS)) if values is None else rng.choice(values, (N_USERS, N_ITEMS))
    positive = rng.random((N_USERS, N_ITEMS)) < 0.2
    positive[0], positive[1] = False, True
    return scores, positive


def everything(scores, positive):
    return rank_facts(scores, np.tile(np.arange(scores.shape[1]), (len(scores), 1)), positive)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("k", [1, 5, 20, 40])
@pytest.mark.parametrize("name", THEIRS)
def test_agrees_with_ir_measures(name, k, ties):
    scores, positive = world(k)
    qrels = {str(u): {str(i): int(positive[u, i]) for i in range(N_ITEMS)} for u in range(N_USERS)}
    run = {str(u): {str(i): float(scores[u, i]) for i in range(N_ITEMS)} for u in range(N_USERS)}
    theirs = {int(m.query_id): m.value for m in ir_measures.iter_calc([getattr(ir_measures, name) @ k], qrels, run)}
    terms = THEIRS[name](Labelled(everything(scores, positive)), k, ties)
    assert terms.denominator.tolist() == [float(name in ("P", "Success")), *[1.0] * (N_USERS - 1)]
    np.testing.assert_allclose(terms.numerator, [theirs[u] for u in range(N_USERS)], atol=1e-12)


def test_auc_agrees_with_sklearn():
    scores, positive = world(3, values=np.arange(8.0))
    terms = auc(Labelled(everything(scores, positive)), 1, "expected")
    assert terms.denominator.tolist() == [0, 0, *[1] * (N_USERS - 2)]
    np.testing.assert_allclose(
        terms.numerator[2:], [roc_auc_score(positive[u], scores[u]) for u in range(2, N_USERS)], rtol=1e-12
    )


@pytest.mark.parametrize("ties", TIES)
def test_dcg_is_ndcg_times_the_best(ties):
    labelled = Labelled(everything(*world(4, values=np.arange(8.0))))
    best = labelled.ideal_dcg(7, labelled.n_positive)
    np.testing.assert_allclose(
        dcg(labelled, 7, ties).numerator, ndcg_macro(labelled, 7, ties).numerator * best, rtol=1e-12
    )


def test_the_mean_ndcg_counts_users_without_a_positive_as_0():
    labelled = Labelled(everything(*world(4, values=np.arange(8.0))))
    over_some, over_all = ndcg_macro(labelled, 7, "expected"), ndcg_mean(labelled, 7, "expected")
    np.testing.assert_array_equal(over_all.numerator, over_some.numerator)
    assert over_all.numerator[0] == over_some.denominator[0] == 0
    assert (over_all.denominator == 1).all()


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("k", [1, 4, 100])
def test_random_exposure_of_everything_is_full_exposure(k, ties):
    facts = everything(*world(5, values=np.arange(8.0)))
    batch = batch_of(facts)
    compared = 0
    for one in (one for metric in METRICS for one in formulas(metric)):
        name = one.estimator.name
        if name.startswith("ure") and name not in ("ure_balanced", "ure_mean_known"):
            full = formula(name.replace("ure", "full"), one.metric)
            more = {"p": 0.8} if one.metric == "rbp" else {}
            for ours, true in zip(
                one.terms(one.estimator.view(batch), k, ties, **more),
                full.terms(full.estimator.view(batch), k, ties, **more),
                strict=True,
            ):
                np.testing.assert_array_equal(ours, true)
            compared += 1
    assert compared == 10


@pytest.mark.parametrize("k", [1, 4, 100])
def test_bounds_hold_what_is_expected_and_are_no_more_than_all(k):
    labelled = Labelled(everything(*world(6, values=np.arange(5.0))))
    for metric in (recall_macro, precision, ndcg_macro, auc, average_precision, hit_rate):
        low, middle, high = (metric(labelled, k, ties).numerator for ties in ("strict", "expected", "optimistic"))
        assert (low <= middle + 1e-12).all()
        assert (middle <= high + 1e-12).all()
        if metric in (auc, average_precision, hit_rate):
            assert 0 <= low.min() <= high.max() <= 1


@given(st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=6), st.integers(1, 7))
@settings(max_examples=80, deadline=None)
def test_hit_rate_matches_all_tie_breaks(items, k):
    row, positive = zip(*items, strict=True)
    orders = [order for order in permutations(range(len(row))) if all(row[a] >= row[b] for a, b in pairwise(order))]
    hits = [any(positive[i] for i in order[:k]) for order in orders]
    labelled = Labelled(everything(np.array([row]), np.array([positive])))
    assert hit_rate(labelled, k, "expected").numerator[0] == pytest.approx(np.mean(hits), abs=1e-12)
    assert hit_rate(labelled, k, "optimistic").numerator[0] == max(hits)
    assert hit_rate(labelled, k, "strict").numerator[0] <= min(hits)  # some one positive is in, whatever the order


def test_a_hit_that_is_sure_does_not_hang_on_unknown_places():
    """A positive at rank 2 and one beyond the end of a partial list of 3; whether other users have ties makes no difference."""
    for tied_of_another in (0, 1):
        above, tied = np.array([1, 3, 3, 0], np.int32), np.array([0, UNKNOWN, UNKNOWN, tied_of_another], np.int32)
        facts = RankFacts(np.array([0, 2, 3, 4]), np.ones(4), np.full(4, np.nan), above, tied, np.full(3, 6, np.int32))
        labelled = Labelled(facts, all_labelled=True)
        for ties in TIES:
            np.testing.assert_array_equal(hit_rate(labelled, 4, ties).numerator, [1, np.nan, 1])
            np.testing.assert_array_equal(hit_rate(labelled, 3, ties).numerator, [1, 0, 1])
            assert np.isnan(recall_macro(labelled, 4, ties).numerator).tolist() == [True, True, False]


def test_hit_rate_of_a_sample_is_known_for_the_first_place_only():
    facts = rank_facts(np.array([[9.0, 8, 7, 6], [9, 8, 7, 6]]), [[0, 3], [0, 1, 2, 3]], [[1, 1], [0, 0, 1, 0]])
    np.testing.assert_array_equal(hit_rate(Labelled(facts), 1, "expected").numerator, [2, 0])
    np.testing.assert_array_equal(hit_rate(Labelled(facts), 3, "expected").numerator, [np.nan, 1])


def test_one_exposure_says_nothing_about_pairs():
    facts = rank_facts(np.array([[9.0, 8, 7, 6]] * 2), [[1], [1, 2]])
    assert average_precision(Labelled(facts), 4, "expected").denominator.tolist() == [0, 1]
    assert average_precision(Labelled(facts, all_labelled=True), 4, "expected").denominator.tolist() == [1, 1]


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
