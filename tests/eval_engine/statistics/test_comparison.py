"""Comparisons of models against scipy and statsmodels, on nasty input, and in simulation."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from eval_engine.statistics.comparison import Comparison, compare, compare_groups, hit_size
from eval_engine.statistics.paired import paired

UNDEFINED = ["standard_error", "low", "high", "p", "p_holm", "p_fdr", "p_no_worse_first", "p_no_worse_second"]


def scores(n_models, n_users, seed):
    """A user per bucket; the models' scores go together."""
    rng = np.random.default_rng(seed)
    return rng.random(n_users) + rng.normal(0, 0.3, (n_models, n_users)) + 0.05 * np.arange(n_models)[:, None] + 0.5


def of_means(x):
    return paired(x, np.ones_like(x))


def test_of_means_it_is_the_paired_t_test():
    x = scores(4, 83, 0)
    results = compare(of_means(x), 83, 0.9, 0.02)
    assert [r[:2] for r in results] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    for r in results:
        want = stats.ttest_rel(x[r.first], x[r.second])
        interval = want.confidence_interval(0.9)
        np.testing.assert_allclose([r.difference, r.p], [(x[r.first] - x[r.second]).mean(), want.pvalue], rtol=1e-9)
        np.testing.assert_allclose([r.low, r.high], [interval.low, interval.high], rtol=1e-9)
    for method, field in [("holm", "p_holm"), ("fdr_bh", "p_fdr")]:
        np.testing.assert_allclose(
            [getattr(r, field) for r in results], multipletests([r.p for r in results], method=method)[1], rtol=1e-12
        )


@pytest.mark.parametrize("margin", [0.0, 0.01, 0.2])
def test_no_worse_is_the_one_sided_t_test_of_the_combination(margin):
    x = scores(3, 60, 5)
    for r in compare(of_means(x), 60, 0.95, margin):
        first, second = x[r.first], x[r.second]
        np.testing.assert_allclose(
            r.p_no_worse_first,
            DescrStatsW(first - (1 - margin) * second).ttest_mean(0, alternative="larger")[1],
            rtol=1e-9,
        )
        np.testing.assert_allclose(
            r.p_no_worse_second,
            DescrStatsW(second - (1 - margin) * first).ttest_mean(0, alternative="larger")[1],
            rtol=1e-9,
        )


def brute_force(a, b, i, j, margin):
    """difference, standard error, p, p_no_worse_first by loops from the formulas; every bucket has b > 0."""
    buckets = range(a.shape[1])
    n = len(buckets)
    value = [sum(a[m]) / sum(b[m]) for m in (i, j)]

    def test(share):
        squares = 0.0
        for g in buckets:
            e = [(a[m, g] - value[x] * b[m, g]) / sum(b[m]) for x, m in enumerate((i, j))]
            squares += (e[0] - share * e[1]) ** 2
        return value[0] - share * value[1], math.sqrt(n / (n - 1) * squares)

    d, se = test(1.0)
    t, t_se = test(1 - margin)
    return d, se, 2 * stats.t.sf(abs(d) / se, n - 1), stats.t.sf(t / t_se, n - 1)


def test_ratios_match_brute_force():
    rng = np.random.default_rng(8)
    b = rng.integers(1, 9, (3, 25)) * 1.0
    a = b * rng.random((3, 25))
    for r in compare(paired(a, b), 25, 0.95, 0.1):
        np.testing.assert_allclose(
            [r.difference, r.standard_error, r.p, r.p_no_worse_first],
            brute_force(a, b, r.first, r.second, 0.1),
            rtol=1e-9,
        )
        assert r.p_no_worse_second == pytest.approx(brute_force(a, b, r.second, r.first, 0.1)[3], rel=1e-9)


def test_first_and_second_swap():
    x = scores(2, 30, 1)
    (one,), (other,) = compare(of_means(x), 30, 0.95, 0.05), compare(of_means(x[::-1]), 30, 0.95, 0.05)
    assert (one.difference, one.low, one.high) == (-other.difference, -other.high, -other.low)
    assert (one.p_no_worse_first, one.p_no_worse_second) == (other.p_no_worse_second, other.p_no_worse_first)
    assert (one.p, one.users_needed) == (other.p, other.users_needed)


def test_identical_models():
    x = scores(1, 50, 2)
    (r,) = compare(of_means(np.vstack([x, x])), 50, 0.95, 0.1)
    assert (r.difference, r.standard_error, r.low, r.high, r.p, r.p_holm, r.p_fdr) == (0, 0, 0, 0, 1, 1, 1)
    assert r.users_needed is None
    assert r.p_no_worse_first == r.p_no_worse_second < 0.05  # and so equivalent
    (strict,) = compare(of_means(np.vstack([x, x])), 50, 0.95, 0.0)
    assert strict.p_no_worse_first == strict.p_no_worse_second == 1
    nothing = compare(paired(np.zeros((2, 9)), np.ones((2, 9))), 50, 0.95, 0.1)[0]
    assert (nothing.p, nothing.p_no_worse_first, nothing.p_no_worse_second) == (1, 1, 1)


def test_a_difference_without_error_is_certain():
    (r,) = compare(paired(np.array([[2.0] * 8, [1.0] * 8]), np.full((2, 8), 4.0)), 50, 0.95, 0.1)
    assert (r.difference, r.standard_error, r.low, r.high, r.p) == (0.25, 0, 0.25, 0.25, 0)
    assert (r.p_no_worse_first, r.p_no_worse_second, r.users_needed) == (0, 1, 1)


def test_undefined_models_are_nan_and_not_in_the_family():
    x = scores(4, 40, 3)
    unknown = x.copy()
    unknown[1, 7] = np.nan
    everybody = np.ones_like(x)
    everybody[2] = 0
    results = {r[:2]: r for r in compare(paired(unknown, everybody), 40, 0.95, 0.05)}
    assert len(results) == 6
    (alone,) = compare(of_means(x[[0, 3]]), 40, 0.95, 0.05)
    assert results.pop((0, 3))[2:] == alone[2:]
    assert alone.p == alone.p_holm == alone.p_fdr
    for r in results.values():
        assert np.isnan([r.difference, *(getattr(r, field) for field in UNDEFINED)]).all()
        assert r.users_needed is None


@pytest.mark.parametrize(
    ("a", "b"),
    [(np.array([[1.0], [0.5]]), np.ones((2, 1))), (np.array([[1.0, 0.0], [0.5, 0.0]]), np.array([[1.0, 0.0]] * 2))],
)
def test_one_bucket_has_a_difference_and_nothing_else(a, b):
    (r,) = compare(paired(a, b), 10, 0.95, 0.05)
    assert r.difference == 0.5
    assert np.isnan([getattr(r, field) for field in UNDEFINED]).all()
    assert r.users_needed is None
    (same,) = compare(paired(a[[0, 0]], b), 10, 0.95, 0.05)
    assert same.difference == 0
    assert np.isnan([getattr(same, field) for field in UNDEFINED]).all()


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (1, 0), (1, 4)])
def test_fewer_than_two_models_have_no_pair(shape):
    assert compare(paired(np.ones(shape), np.ones(shape)), 10, 0.95, 0.05) == []


def test_no_bucket():
    (r,) = compare(paired(np.ones((2, 0)), np.ones((2, 0))), 0, 0.95, 0.05)
    assert np.isnan(r[2:11]).all()
    assert r.users_needed is None


def test_users_needed():
    x = scores(2, 400, 4)
    (r,) = compare(of_means(x), 400, 0.9, 0.05, 0.7)
    want = 400 * ((stats.norm.ppf(0.95) + stats.norm.ppf(0.7)) * r.standard_error / abs(r.difference)) ** 2
    assert r.users_needed == math.ceil(want)
    assert isinstance(r.users_needed, int)
    assert compare(of_means(x), 800, 0.9, 0.05, 0.7)[0].users_needed == math.ceil(2 * want)
    assert compare(of_means(x), 0, 0.9, 0.05)[0].users_needed is None
    x[1] += x[0].mean() - x[1].mean() + 1e-9
    assert compare(of_means(x), 10**6, 0.9, 0.05)[0].users_needed is None  # more than a BIGINT holds


def test_with_the_users_needed_the_power_is_what_was_asked_for():
    rng = np.random.default_rng(6)
    true, sd, n = 0.1, 0.8, 20_000
    d = rng.normal(true, sd, n)
    (pilot,) = compare(of_means(np.array([1 + d, np.ones(n)])), n, 0.95, 0.05)
    needed = math.ceil(
        (pilot.users_needed or 0) * (pilot.difference / true) ** 2
    )  # had the run hit the true difference
    found = [
        compare(of_means(np.array([1 + rng.normal(true, sd, needed), np.ones(needed)])), needed, 0.95, 0.05)[0].p < 0.05
        for _ in range(1000)
    ]
    assert np.mean(found) == pytest.approx(0.8, abs=0.04)


def worlds(n_worlds, n_users, n_buckets, seed):
    """Bucket sums of two models that hit the same users, (n_worlds, 2, n_buckets), and their true difference."""
    rng = np.random.default_rng(seed)
    tries = rng.integers(1, 8, (n_worlds, n_users))
    taste = rng.beta(2, 5, (n_worlds, n_users))
    hits = [rng.binomial(tries, taste), rng.binomial(tries, 0.8 * taste)]
    at = (rng.integers(0, n_buckets, (n_worlds, n_users)) + n_buckets * np.arange(n_worlds)[:, None]).ravel()

    def sums(x):
        return np.bincount(at, x.ravel(), minlength=n_worlds * n_buckets).reshape(n_worlds, n_buckets)

    return np.stack([sums(x) for x in hits], axis=1), np.stack([sums(tries)] * 2, axis=1), 0.2 * 2 / 7


@pytest.mark.parametrize(("n_users", "n_buckets"), [(400, 64), (300, 16)])
def test_intervals_cover_the_true_difference(n_users, n_buckets):
    a, b, true = worlds(1500, n_users, n_buckets, 7)
    results = [compare(paired(a[w], b[w]), n_users, 0.95, 0.05)[0] for w in range(len(a))]
    covered = np.mean([r.low <= true <= r.high for r in results])
    assert 0.93 <= covered <= 0.97
    assert np.std([r.difference for r in results]) == pytest.approx(
        np.mean([r.standard_error for r in results]), rel=0.06
    )


def test_models_at_the_margin_pass_as_no_worse_as_often_as_stated():
    a, b, _ = worlds(1500, 400, 64, 9)
    passed = [
        compare(paired(a[w], b[w]), 400, 0.95, 0.2)[0].p_no_worse_second < 0.05 for w in range(len(a))
    ]  # the second is worse by 20 %
    assert 0.03 <= np.mean(passed) <= 0.07


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((10, 95.0, 0.1, 0.8), "confidence"),
        ((10, 0.95, 1.0, 0.8), "margin"),
        ((10, 0.95, -0.1, 0.8), "margin"),
        ((10, 0.95, 0.1, 1.0), "power"),
        ((10, 0.95, 0.1, 0.01), "power"),
        ((-1, 0.95, 0.1, 0.8), "n_users"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        compare(of_means(np.ones((2, 3))), *settings)


def test_a_comparison_holds_plain_numbers():
    (r,) = compare(of_means(scores(2, 20, 0)), 20, 0.95, 0.05)
    assert isinstance(r, Comparison)
    assert all(type(x) in (int, float) for x in r)


def hits_of_two(rng, n_users, ratio, runs, chance=0.3):
    """Pairs of models of which the second loses a share of the first's hits; bucket sums and the sizes of hits."""
    a = (rng.random((runs, n_users)) < chance).astype(float)
    both = np.stack([a, a * (rng.random(a.shape) < ratio)], axis=1)
    buckets = np.add.reduceat(both, np.arange(0, n_users, -(-n_users // 200)), axis=2)
    below = np.add.reduceat(np.ones(n_users), np.arange(0, n_users, -(-n_users // 200)))
    values = both.mean(axis=2)
    errors = (buckets - values[:, :, None] * below) / n_users
    sums = [both.sum(axis=2), np.full(values.shape, float(n_users)), (both**2).sum(axis=2)]
    return values, errors, np.full(runs, below.size), np.full(runs, n_users), hit_size(*sums)


def called_equivalent(found):
    return ((found.p >= 0.05) & (np.maximum(found.p_no_worse_first, found.p_no_worse_second) < 0.05)).mean()


@pytest.mark.parametrize("n_users", [100, 300, 1500, 4000])
def test_a_model_worse_by_the_margin_is_rarely_called_equivalent(n_users):
    values, errors, units, users, hits = hits_of_two(np.random.default_rng(n_users), n_users, 0.99, 1000)
    settings = {"confidence": 0.95, "margin": 0.01, "power": 0.8}
    assert called_equivalent(compare_groups(values, errors, units, users, **settings, hits=hits)) <= 0.05 + 0.014
    if n_users == 300:  # without the number of hits at stake it was
        assert called_equivalent(compare_groups(values, errors, units, users, **settings)) > 0.2


def test_models_that_no_user_tells_apart_are_equivalent_once_300_hits_are_at_stake():
    for n_users, want in ((800, 0.0), (1200, 1.0)):
        numbers = hits_of_two(np.random.default_rng(1), n_users, 1.0, 50)
        found = compare_groups(*numbers[:4], confidence=0.95, margin=0.01, power=0.8, hits=numbers[4])
        assert called_equivalent(found) == want
        assert 950 < np.median(found.users_equivalent) < 1250


def test_with_users_equivalent_the_power_is_what_was_asked_for():
    pilot = hits_of_two(np.random.default_rng(2), 40_000, 0.997, 1)
    found = compare_groups(*pilot[:4], confidence=0.95, margin=0.01, power=0.8, hits=pilot[4])
    needed = int(found.users_equivalent[0, 0])
    numbers = hits_of_two(np.random.default_rng(3), needed, 0.997, 400)
    again = compare_groups(*numbers[:4], confidence=0.95, margin=0.01, power=0.8, hits=numbers[4])
    no_worse = np.maximum(again.p_no_worse_first, again.p_no_worse_second) < 0.05
    assert no_worse.mean() >= 0.75


def test_without_a_hit_nothing_is_equivalent():
    found = compare_groups(
        np.zeros((1, 2)), np.zeros((1, 2, 9)), np.array([9]), np.array([90]),
        confidence=0.95, margin=0.01, power=0.8, hits=hit_size(np.zeros((1, 2)), np.ones((1, 2)), np.zeros((1, 2))),
    )  # fmt: skip
    assert found.p_no_worse_first[0, 0] == 1
    assert np.isnan(found.users_equivalent[0, 0])
