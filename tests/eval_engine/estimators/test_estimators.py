"""Terms of each estimator of recall and of the traditional scheme against literal loops, and by name what every estimator says of itself."""

from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.registry import ESTIMATORS, METRICS, formula, formulas
from eval_engine.estimators.user_batch import LabelSet, Propensities, UserBatch, batch_of
from eval_engine.kernels.gain import TIES
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts, rank_facts

FULL_MACRO, FULL_MICRO = formula("full_macro", "recall"), formula("full_micro", "recall")
FULL_SELECTED, FULL_AUC_SELECTED = formula("full_selected", "recall"), formula("full_selected", "auc")
URE_MACRO, URE_MICRO = formula("ure_macro", "recall"), formula("ure_micro", "recall")
TRADITIONAL = formula("traditional", "recall")
SETS = ("random", "designed", "truth", "heldout")
EVERY = [one for metric in METRICS for one in formulas(metric) if not one.needs and "top" not in one.estimator.needs]


def terms_of(one, batch, k, ties="expected"):
    more = {name: parameter.default for name, parameter in METRICS[one.metric].parameters.items()}
    pairs = batch.labels["heldout"].facts.value.size if "heldout" in batch.labels else 0
    batch.propensities = Propensities({"heldout": np.linspace(0.1, 1.0, pairs)}, 1.0, 0.5)
    return one.of(batch, one.estimator.view(batch), slice(None), k, ties, **more)


def literal_hits(scores, positives, k):
    """The expected number of positives in the top k of a dict item -> score."""
    total = 0.0
    for i in positives:
        above = sum(s > scores[i] for s in scores.values())
        same = sum(s == scores[i] for s in scores.values())
        total += min(1.0, max(0.0, (k - above) / same))
    return total


def literal_dcg(scores, positives, k):
    """Their expected discounts, cut off at k."""
    total = 0.0
    for i in positives:
        above = sum(s > scores[i] for s in scores.values())
        places = range(above + 1, above + sum(s == scores[i] for s in scores.values()) + 1)
        total += sum(1 / log2(r + 1) for r in places if r <= k) / len(places)
    return total


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_terms_match_literal_loops(data):
    n_items = data.draw(st.integers(1, 8))
    row = st.lists(st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, np.inf]), min_size=n_items, max_size=n_items)
    scores = np.array(data.draw(st.lists(row, min_size=1, max_size=4)), np.float32)
    labels = [data.draw(st.dictionaries(st.integers(0, n_items - 1), st.booleans())) for _ in scores]
    k = data.draw(st.integers(1, n_items + 1))
    facts = rank_facts(scores, [list(one) for one in labels], [list(one.values()) for one in labels])
    shown = [[i for i, good in one.items() if good] for one in labels]
    among = [{i: scores[u, i] for i in one} for u, one in enumerate(labels)]
    hits = np.array([literal_hits(dict(enumerate(row)), good, k) for row, good in zip(scores, shown, strict=True)])
    inside = np.array([literal_hits(own, good, k) for own, good in zip(among, shown, strict=True)])
    n = np.array([len(one) for one in shown], float)
    share, share_inside = hits / np.maximum(n, 1), inside / np.maximum(n, 1)
    ideal = np.array([sum(1 / log2(r + 1) for r in range(1, min(k, len(good)) + 1)) for good in shown])
    dcg = np.array([literal_dcg(own, good, k) for own, good in zip(among, shown, strict=True)])
    inverse = np.array([n_items / len(one) if one else 0.0 for one in labels])
    labelled = np.array([bool(one) for one in labels])

    exposed, truth, among = Labelled(facts), Labelled(facts, all_labelled=True), Labelled(facts).among
    for terms, numerator, denominator in [
        (FULL_MACRO.terms(truth, k, "expected"), share, n > 0),
        (FULL_MICRO.terms(truth, k, "expected"), hits, n),
        (URE_MACRO.terms(exposed, k, "expected"), share, n > 0),
        (URE_MICRO.terms(exposed, k, "expected"), hits * inverse, n * inverse),
        (TRADITIONAL.terms(among, k, "expected"), share_inside, n > 0),
        (formula("traditional", "precision").terms(among, k, "expected"), inside / k, labelled),
        (formula("traditional", "ndcg").terms(among, k, "expected"), dcg / np.where(n > 0, ideal, 1), n > 0),
    ]:
        np.testing.assert_allclose(terms.numerator, numerator, atol=1e-12)
        np.testing.assert_allclose(terms.denominator, denominator, atol=1e-12)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("k", [1, 3, 8, 20])
def test_traditional_is_full_exposure_of_a_world_of_the_exposed_items(k, ties):
    rng = np.random.default_rng(k)
    scores, positive = rng.integers(0, 12, (50, 40)).astype(float), rng.random((50, 40)) < 0.3
    shown = [rng.permutation(40)[:8] for _ in scores]
    exposed = Labelled(rank_facts(scores, shown, [positive[u, s] for u, s in enumerate(shown)]))
    small_scores, small_values = (np.array([x[u, s] for u, s in enumerate(shown)]) for x in (scores, positive))
    small = Labelled(rank_facts(small_scores, np.tile(np.arange(8), (50, 1)), small_values))
    compared = 0
    for metric in METRICS:
        for one in (one for one in formulas(metric) if one.estimator.name == "traditional"):
            full = formula(f"full_{one.mean}", metric)
            more = {"p": 0.8} if metric == "rbp" else {}
            for ours, true in zip(
                one.terms(exposed.among, k, ties, **more), full.terms(small, k, ties, **more), strict=True
            ):
                np.testing.assert_allclose(ours, true, rtol=1e-14)
            compared += 1
    assert compared == 10


def test_traditional_of_a_partial_list():
    """An exposed item without a score stands below those with one; of two nobody knows the order."""
    above, tied = np.array([3, 5, 5, 2, 5], np.int32), np.array([0, UNKNOWN, UNKNOWN, 0, UNKNOWN], np.int32)
    facts = RankFacts(np.array([0, 3, 5]), np.ones(5), np.full(5, np.nan), above, tied, np.array([9, 9], np.int32))
    positive = np.array([False, True, False, False, True])
    np.testing.assert_array_equal(TRADITIONAL.terms(Labelled(facts, positive).among, 1, "expected").numerator, [0, 0])
    np.testing.assert_array_equal(
        TRADITIONAL.terms(Labelled(facts, positive).among, 2, "expected").numerator, [np.nan, 1]
    )


def test_unknown_places_of_positives_only_make_recall_unknown():
    facts = RankFacts(
        np.array([0, 2]),
        np.ones(2),
        np.array([np.nan, 5.0]),
        np.array([7, 2], np.int32),
        np.array([UNKNOWN, 0], np.int32),
        np.array([20]),
    )
    for ties in TIES:
        assert np.isnan(URE_MACRO.terms(Labelled(facts, np.array([True, True])), 8, ties).numerator).all()
        assert URE_MACRO.terms(Labelled(facts, np.array([False, True])), 8, ties).numerator.tolist() == [1.0]


def test_no_positive_is_left_out():
    facts = rank_facts(np.zeros((2, 3), np.float32), [[0, 1], []], [[1, 0], []])
    assert FULL_MACRO.terms(Labelled(facts), 3, "strict").numerator.tolist() == [1, 0]
    assert FULL_MACRO.terms(Labelled(facts), 3, "strict").denominator.tolist() == [1, 0]


def test_users_who_cannot_show_it_have_no_weight_in_selected_means():
    scores, positive = np.random.default_rng(0).normal(size=(3, 7)), np.array([[1, 1, 1, 0, 0, 0, 0], [0] * 7, [1] * 7])
    truth = rank_facts(scores, np.tile(np.arange(7), (3, 1)), positive)

    def weights(one, *shown):
        exposed = rank_facts(scores, [np.arange(n) for n in shown])
        batch = UserBatch({"truth": LabelSet(truth), "random": LabelSet(exposed)})
        return terms_of(one, batch, 2).denominator.tolist()

    assert weights(FULL_SELECTED, 0, 2, 1) == [0, 0, 1]
    assert weights(FULL_AUC_SELECTED, 0, 2, 2) == [0, 0, 0]
    assert weights(FULL_AUC_SELECTED, 1, 2, 2) == [0, 0, 0]  # one exposure is of one kind
    assert weights(FULL_AUC_SELECTED, 7, 7, 7) == [1, 0, 0]


def test_every_estimator_says_what_it_estimates():
    assert len({str(one) for one in EVERY}) == len(EVERY)
    assert list(ESTIMATORS) == [one.name for one in ESTIMATORS.values()]
    facts = rank_facts(np.eye(3, dtype=np.float32), [[0, 1], [1, 2], []], [[1, 0], [1, 0], []])
    for one in EVERY:
        assert one.estimand.endswith(".")
        assert len(one.estimand.split()) > 8
        assert one.left_out.startswith("users without")
        assert one == formula(one.estimator.name, one.metric)
        assert one.estimator.estimates is None or ESTIMATORS[one.estimator.estimates].role == "truth"
        terms = terms_of(one, batch_of(facts, None, SETS), 1)
        assert terms.numerator.shape == terms.denominator.shape == (3,)
        assert terms.numerator.dtype == terms.denominator.dtype == np.float64
        assert (terms.denominator > 0).tolist() == [True, True, False]


def test_no_users():
    facts = rank_facts(np.zeros((0, 4)), [])
    for one in EVERY:
        assert [x.shape for x in terms_of(one, batch_of(facts, None, SETS), 3)] == [(0,), (0,)]
