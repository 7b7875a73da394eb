"""Each estimator recovers what it says it estimates, in a world where users with many positives are served better; the naive one does not.

Exposures are drawn many times from a world that is known in full. An estimator's mean over draws is within 3 Monte Carlo standard errors
of its estimand, and many standard errors away from what it is often taken for.
"""

import numpy as np
import pytest

from eval_engine.estimators.full_exposure import full_macro, full_micro, full_selected
from eval_engine.estimators.traditional import traditional
from eval_engine.estimators.ure import ure_macro, ure_micro
from eval_engine.kernels.rank_facts import RankFacts, rank_facts
from eval_engine.statistics.ratio import estimate, ratio_sums

N_USERS, N_ITEMS, EXPOSED, K, DRAWS = 1500, 60, 6, 6, 120


def world():
    """Scores, and positives whose number is 1 to 20 per user; the model finds them the better the more there are."""
    rng = np.random.default_rng(7)
    n_positive = np.where(np.arange(N_USERS) % 2 == 0, rng.integers(1, 4, N_USERS), rng.integers(10, 21, N_USERS))
    positive = np.argsort(np.argsort(rng.random((N_USERS, N_ITEMS)), axis=1), axis=1) < n_positive[:, None]
    helped = positive * np.where(n_positive > 5, 1.2, -0.4)[:, None]
    return (rng.normal(size=(N_USERS, N_ITEMS)) + helped).round(1).astype(np.float32), positive


def drawn(truth, rng):
    """The same rank facts, of a uniform sample of each user's items only."""
    kept = np.argsort(rng.random((N_USERS, N_ITEMS)), axis=1)[:, :EXPOSED]
    pairs = (np.arange(N_USERS)[:, None] * N_ITEMS + kept).ravel()
    offsets = np.arange(N_USERS + 1) * EXPOSED
    return RankFacts(offsets, truth.value[pairs], truth.score[pairs], truth.above[pairs], truth.tied[pairs], truth.candidates)


def value(terms):
    return terms.numerator.sum() / terms.denominator.sum()


@pytest.fixture(scope="module")
def study():
    """True values by name, and a matrix of estimates over draws by name."""
    scores, positive = world()
    truth = rank_facts(scores, np.tile(np.arange(N_ITEMS), (N_USERS, 1)), positive)
    good = truth.value > 0
    true = {
        "macro": value(full_macro(truth, good, K, "expected")),
        "micro": value(full_micro(truth, good, K, "expected")),
        "selected": value(full_selected(truth, good, K, "expected", np.full(N_USERS, EXPOSED))),
    }
    rng = np.random.default_rng(11)
    samples = [drawn(truth, rng) for _ in range(DRAWS)]
    estimates = {f.__name__: np.array([value(f(s, s.value > 0, K, "expected")) for s in samples]) for f in (ure_macro, ure_micro)}
    estimates["traditional"] = np.array([value(traditional(s, s.value > 0, 2, "expected")) for s in samples])
    covered = [estimate(ratio_sums(ure_macro(s, s.value > 0, K, "expected")), 0.95) for s in samples]
    return true, estimates, covered


def errors_apart(estimates, target):
    """Distance of the mean over draws from the target, in Monte Carlo standard errors."""
    return abs(estimates.mean() - target) / (estimates.std(ddof=1) / np.sqrt(estimates.size))


def test_the_three_truths_differ(study):
    true, _, _ = study
    assert true["macro"] + 0.03 < true["selected"] < true["micro"]


def test_ure_macro_recovers_the_selected_mean_and_not_the_macro_mean(study):
    true, estimates, _ = study
    assert errors_apart(estimates["ure_macro"], true["selected"]) < 3
    assert errors_apart(estimates["ure_macro"], true["macro"]) > 20


def test_ure_micro_recovers_the_pooled_recall(study):
    true, estimates, _ = study
    assert errors_apart(estimates["ure_micro"], true["micro"]) < 3
    assert errors_apart(estimates["ure_micro"], true["macro"]) > 20


def test_traditional_recovers_none_of_them(study):
    true, estimates, _ = study
    for target in true.values():
        assert abs(estimates["traditional"].mean() - target) > 0.1


def test_intervals_cover_what_the_estimator_estimates(study):
    """Users are fixed over draws here, so intervals that count them as a sample cover at least as often as they say."""
    true, _, covered = study
    share = np.mean([one.low <= true["selected"] <= one.high for one in covered])
    assert share > 0.9
    assert np.mean([one.low <= true["macro"] <= one.high for one in covered]) < 0.1
