"""Unbiasedness, exactly: the mean of each estimator over every set of exposures that can be drawn.

Drawn evenly, e of 6 items, every set is as likely as another. Drawn each by itself with its own probability, a set has
the product of the chances that its items are in and the others out.
"""

from itertools import combinations

import numpy as np
import pytest

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.auc import auc
from eval_engine.estimators.metrics.hit_rate import hit_rate
from eval_engine.estimators.registry import METRICS, formula
from eval_engine.estimators.user_batch import LabelSet, UserBatch
from eval_engine.kernels.gain import TIES
from eval_engine.kernels.rank_facts import RankFacts, rank_facts

dcg = METRICS["dcg"].means["mean"].terms
ndcg_mean = METRICS["ndcg"].means["mean"].terms
precision = METRICS["precision"].means["mean"].terms
rbp_of = METRICS["rbp"].means["mean"].terms
recall_macro = METRICS["recall"].means["macro"].terms
recall_micro = METRICS["recall"].means["micro"].terms

N = 6
SCORES = np.array(
    [[9, 8, 8, 5, 5, 1], [2, 2, 2, 2, 2, 2], [3, 1, 1, 1, 0, 0], [6, 5, 4, 3, 2, 1], [1, 1, 2, 2, 3, 3]], float
)
POSITIVE = np.array(
    [[0, 1, 0, 0, 1, 1], [1, 0, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]], bool
)
USERS = range(len(SCORES))
PROBABILITY = np.random.default_rng(1).uniform(0.15, 0.9, SCORES.shape)
TRUTH = rank_facts(SCORES, np.tile(np.arange(N), (len(SCORES), 1)), POSITIVE)
CUTOFFS = [1, 2, 3, 6]
SIZES = [2, 3, 4, 5]


def rbp(labelled, k, ties):
    return rbp_of(labelled, k, ties, p=0.7)


def drawn(sets, probability=None):
    """Every set of exposures of every user as a user of their own, those of user u at u * len(sets) and on."""
    pairs = [u * N + i for u in USERS for shown in sets for i in shown]
    offsets = np.cumsum([0, *[len(shown) for _ in USERS for shown in sets]])
    candidates = np.full(offsets.size - 1, N, np.int32)
    known = None if probability is None else probability.ravel()[pairs]
    return Labelled(
        RankFacts(
            offsets, TRUTH.value[pairs], TRUTH.score[pairs], TRUTH.above[pairs], TRUTH.tied[pairs], candidates, known
        )
    )


def per_user(x, weight=None):
    """The mean over the sets of each user, or their sum with these weights (n_users, n_sets)."""
    by_set = np.reshape(x, (len(SCORES), -1))
    return by_set.mean(axis=1) if weight is None else (by_set * weight).sum(axis=1)


@pytest.fixture(scope="module")
def truth():
    return Labelled(TRUTH, all_labelled=True)


@pytest.fixture(scope="module", params=SIZES)
def samples(request):
    return request.param, drawn(list(combinations(range(N), request.param)))


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("k", CUTOFFS)
def test_sums_drawn_evenly(truth, samples, k, ties):
    _, sample = samples
    for metric in (precision, dcg, rbp, recall_micro):
        for found, true in zip(metric(sample, k, ties), metric(truth, k, ties), strict=True):
            np.testing.assert_allclose(per_user(found), true, atol=1e-12)
    np.testing.assert_allclose(per_user(sample.precisions(k, ties)), truth.precisions(k, ties), atol=1e-12)


def test_first_place_drawn_evenly(truth, samples):
    _, sample = samples
    for ties in ("expected", "strict"):
        np.testing.assert_allclose(
            per_user(hit_rate(sample, 1, ties).numerator), hit_rate(truth, 1, ties).numerator, atol=1e-12
        )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_ndcg_of_few_exposures_is_dcg_over_the_best_of_k(truth, k):
    """One shown positive stands for N / e = 3 of them, k or more: exact for users who have k, too low for those who have fewer."""
    sample = drawn(list(combinations(range(N), 2)))
    found, true = per_user(ndcg_mean(sample, k, "expected").numerator), ndcg_mean(truth, k, "expected").numerator
    best = truth.ideal_dcg(k, np.full(len(SCORES), float(k)))
    np.testing.assert_allclose(found, dcg(truth, k, "expected").numerator / best, atol=1e-12)
    enough = truth.n_positive >= k
    np.testing.assert_allclose(found[enough], true[enough], atol=1e-12)
    assert (found <= true + 1e-12).all()


@pytest.mark.parametrize("k", CUTOFFS)
def test_recall_given_the_number_of_shown_positives(truth, samples, k):
    _, sample = samples
    ratio, users = (np.reshape(x, (len(SCORES), -1)) for x in recall_macro(sample, k, "expected"))
    n = np.reshape(sample.n_positive, users.shape)
    true = recall_macro(truth, k, "expected").numerator
    seen = {(u, shown) for u in USERS for shown in set(n[u]) if shown > 0}
    assert len(seen) > 4
    for u, shown in seen:
        assert ratio[u][n[u] == shown].mean() == pytest.approx(true[u], abs=1e-12)
    assert ((n > 0) == users).all()


def test_auc_given_the_number_of_shown_positives(truth, samples):
    exposures, sample = samples
    ratio, users = (np.reshape(x, (len(SCORES), -1)) for x in auc(sample, 1, "expected"))
    n = np.reshape(sample.n_positive, users.shape)
    true = auc(truth, 1, "expected").numerator
    assert ((n > 0) & (n < exposures) == users).all()
    for u in USERS:
        for shown in set(n[u][users[u] > 0]):
            assert ratio[u][n[u] == shown].mean() == pytest.approx(true[u], abs=1e-12)


@pytest.mark.parametrize("k", CUTOFFS)
def test_means_over_users_who_show_it_are_selected_means(truth, samples, k):
    """Numerators and denominators of ure_macro have those of full_selected as their means, so it tends to their ratio."""
    exposures, sample = samples
    shown = np.full(len(SCORES), exposures)
    shown_facts = RankFacts(np.append(0, np.cumsum(shown)), *[np.zeros(shown.sum())] * 4, truth.facts.candidates)
    batch = UserBatch({"truth": LabelSet(truth.facts), "random": LabelSet(shown_facts, np.zeros(shown.sum(), bool))})
    for metric, name in ((recall_macro, "recall"), (auc, "auc")):
        selected = formula("full_selected", name)
        want = selected.of(batch, batch.complete("truth"), slice(None), k, "expected")
        for found, target in zip(metric(sample, k, "expected"), want, strict=True):
            np.testing.assert_allclose(per_user(found), target, atol=1e-12)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("k", CUTOFFS)
def test_sums_drawn_with_known_uneven_probabilities(truth, k, ties):
    sets = [shown for size in range(N + 1) for shown in combinations(range(N), size)]
    inside = np.array([[i in shown for i in range(N)] for shown in sets])
    chance = np.where(inside, PROBABILITY[:, None, :], 1 - PROBABILITY[:, None, :]).prod(axis=2)  # (n_users, n_sets)
    np.testing.assert_allclose(chance.sum(axis=1), 1)
    sample = drawn(sets, PROBABILITY)
    for metric in (precision, dcg, rbp):
        np.testing.assert_allclose(
            per_user(metric(sample, k, ties).numerator, chance), metric(truth, k, ties).numerator, atol=1e-12
        )
    for found, true in zip(recall_micro(sample, k, ties), recall_micro(truth, k, ties), strict=True):
        np.testing.assert_allclose(per_user(found, chance), true, atol=1e-12)
    np.testing.assert_allclose(per_user(sample.precisions(k, ties), chance), truth.precisions(k, ties), atol=1e-12)
    for found, true in zip(sample.pairs_won(0.5), truth.pairs_won(0.5), strict=True):
        np.testing.assert_allclose(per_user(found, chance), true, atol=1e-12)
    if k == 1 and ties != "optimistic":
        np.testing.assert_allclose(
            per_user(hit_rate(sample, 1, ties).numerator, chance), hit_rate(truth, 1, ties).numerator, atol=1e-12
        )
