"""Weights that are Poisson and keyed; replicates against loops; what is made of them."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eval_engine.statistics.bootstrap import AT_MOST, bootstrap, chance_best, interval, poisson_weights, standard_error
from eval_engine.statistics.comparison import compare
from eval_engine.statistics.paired import paired

MASK = 2**64 - 1
CDF = stats.poisson.cdf(np.arange(30), 1).tolist()
WRITTEN_DOWN = [[1, 0, 0, 0, 1, 3, 1, 1, 0, 2, 1, 2], [4, 1, 1, 1, 0, 0, 0, 1, 2, 0, 4, 1]]  # of seed 7


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def weight(seed, r, g):
    u = mix((mix((mix(seed & MASK) + r) & MASK) + g) & MASK) / 2**64
    return next(k for k, at_most in enumerate(CDF) if u < at_most)


def some_sums(n_models, n_buckets, seed):
    rng = np.random.default_rng(seed)
    b = rng.integers(1, 30, (n_models, n_buckets)) * 1.0
    return rng.binomial(b.astype(int), 0.3) * 1.0, b


@given(st.one_of(st.integers(0, 100), st.integers(-(2**70), 2**70)), st.integers(0, 10**6), st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_a_weight_is_a_hash_of_seed_replicate_and_bucket(seed, replicate, n_buckets):
    got = poisson_weights(seed, np.array([replicate, replicate + 3]), n_buckets)
    np.testing.assert_array_equal(
        got, [[weight(seed, r, g) for g in range(n_buckets)] for r in (replicate, replicate + 3)]
    )


def test_weights_do_not_change():
    assert poisson_weights(7, np.arange(2), 12).tolist() == WRITTEN_DOWN


def test_weights_are_poisson():
    weights = poisson_weights(3, np.arange(4000), 256)
    n = weights.size
    expected = np.append(stats.poisson.pmf(np.arange(7), 1), stats.poisson.sf(6, 1)) * n
    assert (
        stats.chisquare(np.bincount(np.minimum(weights, 7).astype(int).ravel(), minlength=8), expected).pvalue > 0.001
    )
    for power, moment in [(1, 1), (2, 2), (3, 5), (4, 15)]:  # Bell numbers
        assert (weights**power).mean() == pytest.approx(moment, rel=0.01)
    for axis in (0, 1):  # as even over replicates and over buckets as chance is
        sums = weights.sum(axis=axis)
        assert stats.chisquare(sums, np.full(sums.size, sums.mean())).pvalue > 0.001
        assert np.corrcoef(np.moveaxis(weights, axis, 0)[:-1].ravel(), np.moveaxis(weights, axis, 0)[1:].ravel())[
            0, 1
        ] == pytest.approx(0, abs=0.004)
    other = poisson_weights(4, np.arange(4000), 256)
    assert np.corrcoef(weights.ravel(), other.ravel())[0, 1] == pytest.approx(0, abs=0.004)


def test_thresholds_are_the_distribution_of_poisson():
    np.testing.assert_allclose(AT_MOST / 2.0**64, stats.poisson.cdf(np.arange(20), 1), rtol=1e-15)
    assert np.all(np.diff(AT_MOST.astype(object)) > 0)
    assert 2**64 - int(AT_MOST[-1]) < 25  # what rounding left out


@given(st.integers(0, 3), st.integers(0, 6), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_matches_brute_force(n_models, n_buckets, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 1, (n_models, n_buckets)), rng.integers(0, 3, (n_models, n_buckets)) * 0.7
    a[b == 0] = 0
    want = []
    for m in range(n_models):
        for r in range(9):
            above = sum(weight(seed, r, g) * a[m, g] for g in range(n_buckets))
            below = sum(weight(seed, r, g) * b[m, g] for g in range(n_buckets))
            want.append(above / below if below else math.nan)
    np.testing.assert_allclose(bootstrap(a, b, 9, seed), np.reshape(want, (n_models, 9)), rtol=1e-9, atol=1e-12)


def test_blocks_and_other_models_change_nothing():
    a, b = some_sums(5, 40, 0)
    whole = bootstrap(a, b, 300, 1)
    np.testing.assert_allclose(bootstrap(a[[3]], b[[3]], 100, 1), whole[[3], :100], rtol=1e-13)
    a[1, 0] = np.nan
    b[2] = 0
    partly = bootstrap(a, b, 300, 1)
    assert np.isnan(partly[[1, 2]]).all()
    np.testing.assert_allclose(partly[[0, 3, 4]], whole[[0, 3, 4]], rtol=1e-13)
    assert (bootstrap(a, b, 300, 2)[0] != whole[0]).mean() > 0.9


def test_small_blocks_are_one_block(monkeypatch):
    a, b = some_sums(3, 16, 2)
    whole = bootstrap(a, b, 50, 1)
    monkeypatch.setattr("eval_engine.statistics.bootstrap.WEIGHTS_AT_ONCE", 100)
    np.testing.assert_allclose(bootstrap(a, b, 50, 1), whole, rtol=1e-13)


def test_memory_is_bounded(monkeypatch):
    a, b = some_sums(2, 256, 3)
    monkeypatch.setattr("eval_engine.statistics.bootstrap.WEIGHTS_AT_ONCE", 1 << 15)
    tracemalloc.start()
    bootstrap(a, b, 4000, 1)  # 8 MB of weights
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6


@pytest.mark.parametrize(
    ("copies", "replicates"), [(2, 1), (4, 7), (6, 7), (36, 100), (36, 399)]
)  # of which numpy's product rounds rows differently
def test_identical_models_tie_in_every_replicate(copies, replicates):
    rng = np.random.default_rng(copies)
    one, worse = rng.random(256), rng.random(256) / 3
    ratios = bootstrap(
        np.vstack([[one] * copies, [worse]]), np.vstack([[rng.random(256) + 1] * (copies + 1)]), replicates, 1
    )
    assert (ratios[:copies] == ratios[0]).all()
    np.testing.assert_allclose(chance_best(ratios), [1 / copies] * copies + [0], rtol=1e-12)


def test_standard_errors_are_the_linearised_ones():
    a, b = some_sums(3, 256, 5)
    b[1] = b[0]
    a[1] = np.minimum(a[0] + (np.arange(256) % 5 == 0), b[1])  # nearly the same model: little is left of the difference
    ratios = bootstrap(a, b, 8000, 11)
    models = paired(a, b)
    np.testing.assert_allclose(standard_error(ratios), np.sqrt(np.diag(models.covariance)), rtol=0.04)
    for r in compare(models, 1000, 0.9, 0.05):
        replicates = ratios[r.first] - ratios[r.second]
        assert standard_error(replicates) == pytest.approx(r.standard_error, rel=0.04)
        np.testing.assert_allclose(interval(replicates, 0.9), [r.low, r.high], atol=0.12 * r.standard_error)
    np.testing.assert_allclose(np.cov(ratios), models.covariance, atol=0.06 * models.covariance.max())


def test_chance_best_is_the_chance_of_a_normal_difference():
    a, b = some_sums(2, 256, 6)
    (r,) = compare(paired(a, b), 1000, 0.95, 0.05)
    chance = chance_best(bootstrap(a, b, 8000, 1))
    assert chance.sum() == pytest.approx(1)
    assert chance[0] == pytest.approx(stats.norm.cdf(r.difference / r.standard_error), abs=0.03)


def test_intervals_cover():
    rng = np.random.default_rng(12)
    b = rng.integers(1, 9, (2000, 128)) * 1.0  # a world per row
    a = rng.binomial(b.astype(int), rng.beta(2, 5, b.shape)) * 1.0
    low, high = interval(bootstrap(a, b, 1000, 1), 0.95)
    assert 0.93 <= np.mean((low <= 2 / 7) & (high >= 2 / 7)) <= 0.97


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=4, max_size=4), max_size=4), st.sets(st.integers(0, 3))
)
@settings(deadline=None, max_examples=60)
def test_chance_best_matches_brute_force(rows, undefined):
    ratios = np.reshape(rows, (len(rows), 4)).astype(float)
    known = [m for m in range(len(rows)) if m not in undefined]
    ratios[[m for m in range(len(rows)) if m in undefined], 1] = np.nan
    want = np.full(len(rows), np.nan)
    want[known] = 0
    for r in range(4):
        best = [m for m in known if ratios[m, r] == max(ratios[x, r] for x in known)]
        for m in best:
            want[m] += 1 / len(best) / 4
    np.testing.assert_allclose(chance_best(ratios), want)


def test_interval_and_standard_error_are_those_of_numpy():
    ratios = np.random.default_rng(0).random((3, 41))
    low, high = interval(ratios, 0.8)
    np.testing.assert_allclose([low, high], np.percentile(ratios, [10, 90], axis=1))
    np.testing.assert_allclose(standard_error(ratios), [np.std(row, ddof=1) for row in ratios])
    ratios[1, 5] = np.nan  # one replicate that is not known
    assert np.isnan([*interval(ratios, 0.8), standard_error(ratios)]).tolist() == [[False, True, False]] * 3
    assert math.isnan(standard_error(np.ones(1)))


def test_one_bucket_claims_no_certainty():
    ratios = bootstrap(np.array([[1.0], [2.0]]), np.full((2, 1), 4.0), 50, 1)
    assert set(ratios[~np.isnan(ratios)]) == {0.25, 0.5}
    assert np.isnan([*interval(ratios, 0.95), standard_error(ratios), chance_best(ratios)]).all()


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (2, 0)])
def test_empty(shape):
    ratios = bootstrap(np.zeros(shape), np.zeros(shape), 6, 1)
    assert ratios.shape == (shape[0], 6)
    assert np.isnan(ratios).all()
    for result in (*interval(ratios, 0.95), standard_error(ratios), chance_best(ratios)):
        np.testing.assert_array_equal(result, np.full(shape[0], np.nan))


def test_settings_that_cannot_be():
    with pytest.raises(ValueError, match="per model and bucket"):
        bootstrap(np.zeros(3), np.zeros(3), 5, 1)
    with pytest.raises(ValueError, match="one replicate"):
        bootstrap(np.zeros((1, 3)), np.zeros((1, 3)), 0, 1)
    with pytest.raises(ValueError, match="confidence"):
        interval(np.zeros((1, 3)), 95)


@pytest.mark.parametrize("n_buckets", [32, 256])
def test_a_row_has_the_same_bits_whatever_is_computed_with_it(n_buckets):
    rng = np.random.default_rng(n_buckets)
    a, b = rng.random((41, n_buckets)), rng.random((41, n_buckets))
    together = bootstrap(a, b, 333, 5)
    for n in range(1, 41):
        np.testing.assert_array_equal(bootstrap(a[:n], b[:n], 333, 5), together[:n])
