"""Agreement of two ways to value models, against loops over the formulas."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.statistics.agreement import (
    agreement,
    error_against,
    intervals,
    jackknife,
    kendall,
    kendall_difference,
    pearson,
)

VALUES = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=9)


def brute_force(x: list[float], y: list[float]) -> tuple[float, float, int]:
    n = len(x)
    mx, my = sum(x) / n, sum(y) / n
    pearson = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / math.sqrt(
        sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y)
    )
    same = opposite = tied_x = tied_y = 0
    for i, j in combinations(range(n), 2):
        dx, dy = x[i] - x[j], y[i] - y[j]
        same, opposite = same + (dx * dy > 0), opposite + (dx * dy < 0)
        tied_x, tied_y = tied_x + (dx == 0), tied_y + (dy == 0)
    pairs = n * (n - 1) / 2
    return pearson, (same - opposite) / math.sqrt((pairs - tied_x) * (pairs - tied_y)), opposite


@settings(deadline=None)  # numba compiles at the first call
@given(VALUES)
def test_matches_brute_force(pairs):
    x, y = np.array(pairs, float).T
    found = agreement(x, y)
    assert found.n_models == len(pairs)
    if (x == x[0]).all() or (y == y[0]).all():
        assert math.isnan(found.pearson)
        assert math.isnan(found.kendall)
        assert found.reason == "all models have the same value in one of the two"
        return
    pearson, kendall, flipped = brute_force(x.tolist(), y.tolist())
    assert (found.pearson, found.kendall, found.n_flipped) == (
        pytest.approx(pearson, abs=1e-12),
        pytest.approx(kendall, abs=1e-12),
        flipped,
    )
    assert found.reason is None


@pytest.mark.parametrize(("n", "words"), [(0, "0 models have"), (1, "1 model has"), (2, "2 models have")])
def test_too_few_models_say_so(n, words):
    found = agreement(np.arange(n) * 1.0, np.arange(n) * -1.0)
    assert math.isnan(found.pearson)
    assert math.isnan(found.kendall)
    assert found.reason == f"{words} both values, but a correlation says something of 3 or more"
    assert found.n_flipped == n * (n - 1) // 2


def test_models_without_a_value_are_left_out():
    x, y = np.array([1, np.nan, 2, 3, 4.0]), np.array([1, 2, 3, np.nan, 4.0])
    assert agreement(x, y) == agreement(np.array([1, 2, 4.0]), np.array([1, 3, 4.0]))
    assert agreement(x, y).n_models == 3


@settings(deadline=None)  # numba compiles at the first call
@given(VALUES)
def test_replicates_and_models_left_out_are_as_single_calls(pairs):
    x, y = np.array(pairs, float).T
    stacked = np.stack([x, y, -x], axis=1), np.stack([y, x, y], axis=1)
    np.testing.assert_array_equal(kendall(*stacked), [kendall(x, y), kendall(y, x), kendall(-x, y)])
    n = len(x)
    for error, correlation in zip(jackknife(x, y), (kendall, pearson), strict=True):
        without = [float(correlation(np.delete(x, m), np.delete(y, m))) for m in range(n)]
        mean = sum(without) / n
        expected = math.sqrt((n - 1) / n * sum((c - mean) ** 2 for c in without)) if n > 3 else math.nan
        assert error == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_ties_are_counted():
    found = agreement(np.array([1, 1, 2, 3.0]), np.array([1, 2, 2, 1.0]))
    assert (found.n_tied, found.n_flipped) == (3, 2)


def test_difference_of_two_taus_has_its_level_by_the_jackknife():
    rng = np.random.default_rng(5)
    rejected = []
    for _ in range(400):
        x, shared = rng.normal(size=(2, 40))
        y, z = (0.7 * x + 0.5 * shared + 0.7 * own for own in rng.normal(size=(2, 40)))
        rejected.append(kendall_difference(x, y, z).p < 0.05)
    assert 0.02 < np.mean(rejected) < 0.085
    better = kendall_difference(x, x + 0.1 * y, rng.normal(size=40))
    assert better.value > 0
    assert better.p < 1e-3
    assert kendall_difference(x, y, y)[::2] == (0.0, 1.0)


def panel(rng, n_models, agree, noise, replicates=200):
    """True values of two sets, values with noise over users, and replicates of them."""
    x = rng.normal(size=n_models)
    y = 2 * (agree * x + math.sqrt(1 - agree**2) * rng.normal(size=n_models))
    shared = rng.normal(size=(2, 1 + replicates))  # an error of all models
    errors = rng.normal(size=(2, n_models, 1 + replicates)) * noise + shared[:, None]
    seen = [x + errors[0, :, 0], y + 2 * errors[1, :, 0]]
    stars = [seen[0][:, None] + errors[0, :, 1:], seen[1][:, None] + 2 * errors[1, :, 1:]]
    return (x, y), seen, tuple(stars)


@pytest.mark.parametrize("agree", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_intervals_over_users_cover(agree, noise):
    rng = np.random.default_rng(17)
    covered = []
    for _ in range(200):
        truth, seen, stars = panel(rng, 30, agree, noise)
        found = intervals(*seen, stars, 0.95)
        if found.reason is None:
            for (low, high), true in ((found.kendall, kendall(*truth)), (found.pearson, pearson(*truth))):
                covered.append(low - 1e-9 <= true <= high + 1e-9)
    assert len(covered) > 300
    of_kendall, of_pearson = np.mean(covered[::2]), np.mean(covered[1::2])
    assert of_kendall > 0.88
    assert of_pearson > 0.88


def test_noise_beyond_the_spread_leaves_no_interval():
    rng = np.random.default_rng(1)
    _, seen, stars = panel(rng, 30, 0.5, 0.6)
    found = intervals(*seen, stars, 0.95)
    assert np.isnan(found.kendall).all()
    assert "of their spread, beyond 0.3, where the interval does not cover" in found.reason
    assert found.noise > 0.3
    assert "20 bootstrap replicates or more" in intervals(*seen, tuple(s[:, :5] for s in stars), 0.95).reason
    stars[0][3, 7] = np.nan
    assert "a bootstrap replicate of some model is undefined" in intervals(*seen, stars, 0.95).reason


def test_bias_and_spread_are_those_of_the_true_values():
    """Means over worlds, against D of the true values; uncorrected, both are far above."""
    rng = np.random.default_rng(2)
    found, expected, naive = [], [], []
    for _ in range(300):
        x = rng.normal(size=20)
        bias = 0.3 + 0.2 * rng.normal(size=20)
        errors = 0.5 * rng.normal(size=(20, 301)) + 0.3 * rng.normal(size=301)
        seen = x + bias + errors[:, 0]
        found.append(error_against(seen, x, (seen[:, None] + errors[:, 1:], np.repeat(x[:, None], 300, axis=1))))
        expected.append((bias.mean() ** 2, bias.var(ddof=1)))
        naive.append(((seen - x).mean() ** 2, (seen - x).var(ddof=1)))
    error = np.std(np.array(found) - expected, axis=0) / math.sqrt(300)
    assert (np.abs(np.mean(found, axis=0) - np.mean(expected, axis=0)) < 4 * error).all()
    assert (np.mean(naive, axis=0) - np.mean(expected, axis=0) > 4 * error).all()
