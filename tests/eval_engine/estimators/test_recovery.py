"""Each estimator recovers what it says it estimates, in a world where users with many positives are served better; the
naive one does not.

Exposures are drawn many times from a world that is known in full. An estimator's mean over draws is within 3 Monte
Carlo standard errors of its estimand, and many standard errors away from what it is often taken for.
"""

import numpy as np
import pytest

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.registry import ESTIMATORS, METRICS, formula, formulas
from eval_engine.estimators.registry import terms_of as formula_of
from eval_engine.estimators.user_batch import LabelSet, Propensities, UserBatch
from eval_engine.kernels.rank_facts import RankFacts, rank_facts
from eval_engine.statistics.ratio import estimate, ratio_sums

N_USERS, N_ITEMS, EXPOSED, K, DRAWS = 1500, 60, 6, 6, 120
TARGET = {  # of each estimator with one that is met for any number of exposures
    "ure_macro recall": "full_selected recall",
    "ure_micro recall": "full_micro recall",
    "ure_mean precision": "full_mean precision",
    "ure_mean dcg": "full_mean dcg",
    "ure_mean rbp": "full_mean rbp",
    "ure_macro auc": "full_selected auc",
}


def world():
    """Scores, and positives whose number is 1 to 20 per user; the model finds them the better the more there are."""
    rng = np.random.default_rng(7)
    n_positive = np.where(np.arange(N_USERS) % 2 == 0, rng.integers(1, 4, N_USERS), rng.integers(10, 21, N_USERS))
    positive = np.argsort(np.argsort(rng.random((N_USERS, N_ITEMS)), axis=1), axis=1) < n_positive[:, None]
    helped = positive * np.where(n_positive > 5, 1.2, -0.4)[:, None]
    return (rng.normal(size=(N_USERS, N_ITEMS)) + helped).round(1).astype(np.float32), positive


def drawn(truth, rng, exposed=EXPOSED):
    """The same rank facts, of a uniform sample of each user's items only."""
    kept = np.argsort(rng.random((N_USERS, N_ITEMS)), axis=1)[:, :exposed]
    pairs = (np.arange(N_USERS)[:, None] * N_ITEMS + kept).ravel()
    offsets = np.arange(N_USERS + 1) * exposed
    facts = RankFacts(
        offsets, truth.value[pairs], truth.score[pairs], truth.above[pairs], truth.tied[pairs], truth.candidates
    )
    return UserBatch({"random": LabelSet(facts)})


def terms_of(one, batch, k):
    more = {"p": 0.8} if one.metric == "rbp" else {}
    return one.of(batch, one.estimator.view(batch), slice(None), k, "expected", **more)


def value(terms):
    return terms.numerator.sum() / terms.denominator.sum()


@pytest.fixture(scope="module")
def facts():
    scores, positive = world()
    return rank_facts(scores, np.tile(np.arange(N_ITEMS), (N_USERS, 1)), positive)


@pytest.fixture(scope="module")
def true(facts):
    """The true value of every estimator of complete labels, by name."""
    shown = RankFacts(
        np.arange(N_USERS + 1) * EXPOSED, *[np.zeros(N_USERS * EXPOSED)] * 4, np.full(N_USERS, N_ITEMS, np.int32)
    )
    batch = UserBatch({"truth": LabelSet(facts), "random": LabelSet(shown)})
    known = (one for metric in METRICS for one in formulas(metric) if one.estimator.name.startswith("full"))
    return {str(one): value(terms_of(one, batch, K)) for one in known}


@pytest.fixture(scope="module")
def estimates(facts):
    """Every estimate of every draw, by estimator."""
    rng = np.random.default_rng(11)
    samples = [drawn(facts, rng) for _ in range(DRAWS)]
    drawable = (one for metric in METRICS for one in formulas(metric) if one.estimator.name.startswith("ure"))
    asked = {str(one): (one, K) for one in drawable if one.metric != "hit_rate"}
    asked |= {"ure_mean hit_rate": (formula("ure_mean", "hit_rate"), 1)}
    asked |= {"traditional recall": (formula("traditional", "recall"), 2)}
    return {
        name: [estimate(ratio_sums(terms_of(one, sample, k)), 0.95) for sample in samples]
        for name, (one, k) in asked.items()
    }


def errors_apart(found, target):
    """Distance of the mean over draws from the target, in Monte Carlo standard errors."""
    values = np.array([one.value for one in found])
    return abs(values.mean() - target) / (values.std(ddof=1) / np.sqrt(values.size))


def test_the_three_truths_of_recall_differ(true):
    assert true["full_macro recall"] + 0.03 < true["full_selected recall"] < true["full_micro recall"]


@pytest.mark.parametrize("name", TARGET)
def test_recovers_its_target(true, estimates, name):
    assert errors_apart(estimates[name], true[TARGET[name]]) < 3


def test_recovers_the_hit_rate_of_the_first_place(facts, estimates):
    hit_rate = value(formula("full_mean", "hit_rate").terms(Labelled(facts, all_labelled=True), 1, "expected"))
    assert errors_apart(estimates["ure_mean hit_rate"], hit_rate) < 3


def test_does_not_recover_the_macro_means(true, estimates):
    assert errors_apart(estimates["ure_macro recall"], true["full_macro recall"]) > 20
    assert errors_apart(estimates["ure_micro recall"], true["full_macro recall"]) > 20
    assert errors_apart(estimates["ure_macro auc"], true["full_macro auc"]) > 20


def test_traditional_recovers_none_of_them(true, estimates):
    mean = np.mean([one.value for one in estimates["traditional recall"]])
    for name in ("full_macro", "full_micro", "full_selected"):
        assert abs(mean - true[f"{name} recall"]) > 0.1


@pytest.mark.parametrize("name", TARGET)
def test_intervals_cover_what_the_estimator_estimates(true, estimates, name):
    """Users are fixed over draws here, so intervals that count them as a sample cover at least as often as they say."""
    assert np.mean([one.low <= true[TARGET[name]] <= one.high for one in estimates[name]]) > 0.9


def test_intervals_do_not_cover_what_it_is_taken_for(true, estimates):
    assert np.mean([one.low <= true["full_macro recall"] <= one.high for one in estimates["ure_macro recall"]]) < 0.1


def test_average_precision_comes_nearer_as_exposures_grow(facts, true):
    rng, one, target = np.random.default_rng(13), formula("ure_macro", "map"), true["full_macro map"]
    error = [
        abs(np.mean([value(terms_of(one, drawn(facts, rng, e), K)) for _ in range(20)]) - target) for e in (6, 20, 50)
    ]
    assert error[0] > error[1] > 4 * error[2]
    assert error[0] > 0.2 * target > 4 * error[2]  # far off with few


def test_ndcg_is_near_where_most_positives_are_of_users_with_many(true, estimates):
    found = np.mean([one.value for one in estimates["ure_mean ndcg"]])
    assert found == pytest.approx(true["full_mean ndcg"], rel=0.05)


def logged_by_chance(truth, rng):
    """The same rank facts, of pairs that a platform logs: each with its own known chance, higher for good scores."""
    chance = np.clip(0.15 + 0.5 / (1 + truth.above / 4), 0, 1)
    kept = np.flatnonzero(rng.random(truth.value.size) < chance)
    offsets = np.searchsorted(kept, truth.offsets)
    facts = RankFacts(
        offsets, truth.value[kept], truth.score[kept], truth.above[kept], truth.tied[kept], truth.candidates
    )
    assert (np.diff(offsets) > 0).all()  # else users without a pair would be left out
    return UserBatch({"heldout": LabelSet(facts)}, propensities=Propensities({"heldout": chance[kept]}, 1.0, 0.5))


def test_precision_from_logged_propensities(facts, true):
    rng, asked = np.random.default_rng(17), {}
    for name in ("snips", "clipped", "holdout"):
        one = formula_of(ESTIMATORS[name], METRICS["precision"], logged=True)
        asked[name] = one, K
    samples = [logged_by_chance(facts, rng) for _ in range(DRAWS)]
    found = {
        name: [estimate(ratio_sums(terms_of(one, sample, k)), 0.95) for sample in samples]
        for name, (one, k) in asked.items()
    }
    target = true["full_mean precision"]
    assert errors_apart(found["snips"], target) < 3
    assert np.mean([one.low <= target <= one.high for one in found["snips"]]) > 0.9
    assert all(one.n_users == N_USERS for one in found["snips"])
    assert errors_apart(found["holdout"], target) > 20
    assert np.mean([one.value for one in found["clipped"]]) < target  # clipped weights are too small


@pytest.mark.parametrize("name", ["snips", "clipped", "snips_user", "ips"])
def test_precision_under_weights_needs_logged_propensities(name, facts):
    batch = logged_by_chance(facts, np.random.default_rng(19))
    estimated, logged = (formula_of(ESTIMATORS[name], METRICS["precision"], one) for one in (False, True))
    assert np.isnan(value(terms_of(estimated, batch, K)))
    assert "add up to the number of pairs" in estimated.estimand
    defined = name in ("snips", "clipped")
    assert np.isnan(value(terms_of(logged, batch, K))) != defined
    assert ("over users with a held-out pair" in logged.estimand) == defined
