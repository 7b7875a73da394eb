import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.sampled_hit_rate import drawn, expected
from eval_engine.kernels.rank_facts import rank_facts
from eval_engine.kernels.sampled_negatives import chance_among_negatives


@given(st.integers(1, 120), st.integers(0, 120), st.integers(0, 120), st.integers(1, 150), st.integers(1, 20))
@settings(max_examples=150)
def test_chance_is_the_mean_of_hypergeometric_ones(m: int, a: int, t: int, n: int, k: int) -> None:
    a = min(a, m)
    t = min(t, m - a)
    drawn = min(n, m)
    for ties, places in (("expected", range(t + 1)), ("strict", [t]), ("optimistic", [0])):
        ours = chance_among_negatives(np.array([a]), np.array([t]), np.array([m]), k, n, ties)[0]
        theirs = np.mean([hypergeom.cdf(k - 1, m, a + x, drawn) for x in places])
        assert ours == pytest.approx(theirs, abs=1e-10)


def test_a_long_tied_block_and_a_large_catalogue() -> None:
    a, t, m = 2_000, 30_000, 1_000_000
    ours = chance_among_negatives(np.array([a]), np.array([t]), np.array([m]), 10, 100, "expected")[0]
    places = np.linspace(a, a + t, 3001).round().astype(int)
    theirs = np.trapezoid(hypergeom.cdf(9, m, places, 100), places) / t
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_unknown_places_have_no_chance() -> None:
    assert np.isnan(chance_among_negatives(np.array([3]), np.array([-1]), np.array([9]), 2, 5, "expected")[0])
    with pytest.raises(ValueError, match="at least 1"):
        chance_among_negatives(np.array([3]), np.array([0]), np.array([9]), 0, 5, "expected")


def test_expected_is_the_mean_of_ten_thousand_sampled_ones() -> None:
    """Several held-out positives a user, and ties; negatives are drawn from what is not held out as a positive."""
    rng = np.random.default_rng(7)
    n_items, n, k, draws = 40, 8, 3, 10_000
    scores = rng.integers(0, 8, (6, n_items)).astype(float)
    items = [rng.choice(n_items, size, replace=False) for size in (1, 2, 3, 4, 5, 6)]
    labelled = Labelled(rank_facts(scores, items), None, all_labelled=True)
    found = expected(labelled, k, "expected", n)
    assert found.denominator.tolist() == [1, 2, 3, 4, 5, 6]
    hits = np.zeros((6, draws))
    for u, own in enumerate(items):
        others = np.setdiff1d(np.arange(n_items), own)
        for i in own:
            noise = rng.random((draws, n_items))
            chosen = others[np.argsort(noise[:, others], axis=1)[:, :n]]
            rival = scores[u, chosen] + rng.random((draws, n)) * 1e-6
            mine = scores[u, i] + rng.random(draws) * 1e-6
            hits[u] += (rival > mine[:, None]).sum(axis=1) < k
    error = hits.std(axis=1) / np.sqrt(draws)
    assert (np.abs(hits.mean(axis=1) - found.numerator) < 4 * error + 1e-9).all()
    pooled = hits.sum(axis=0) / 21
    assert abs(pooled.mean() - found.numerator.sum() / 21) < 4 * pooled.std() / np.sqrt(draws)


def test_one_draw_is_on_average_the_expectation_and_the_same_again() -> None:
    rng = np.random.default_rng(8)
    scores = rng.normal(size=(200, 60))
    items = np.argsort(rng.random((200, 60)), axis=1)[:, :3]
    labelled = Labelled(rank_facts(scores, items), None, all_labelled=True)
    labelled.columns = {"key": rng.integers(-(2**62), 2**62, 600)}
    want = expected(labelled, 5, "expected", 20).numerator.sum()
    each = [drawn(labelled, 5, "expected", 20, seed).numerator.sum() for seed in range(200)]
    assert abs(np.mean(each) - want) < 4 * np.std(each) / np.sqrt(200)
    assert each[3] == drawn(labelled, 5, "expected", 20, 3).numerator.sum()
    at_three, at_five = (drawn(labelled, k, "expected", 20, 1).numerator for k in (3, 5))
    assert (at_three <= at_five).all()
