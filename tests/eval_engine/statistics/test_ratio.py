"""The ratio, its standard error and interval against plain formulas; sums that are the same bits for any partitioning."""

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eval_engine.statistics.ratio import NO_USERS, RatioSums, estimate, exact_sum, merge, ratio_sums

FINITE = st.floats(-1e6, 1e6)
TERMS = st.lists(st.tuples(FINITE, st.one_of(st.just(0.0), st.floats(1e-3, 1e6))), max_size=12)


def arrays(terms):
    return np.array([a for a, _ in terms]), np.array([b for _, b in terms])


@given(TERMS, st.integers(0, 12), st.integers(0, 12), st.randoms())
@settings(max_examples=100)
def test_any_partitioning_gives_the_same_integers(terms, one, other, random):
    whole = ratio_sums(arrays(terms))
    shuffled = random.sample(terms, len(terms))
    low, high = sorted((one, other))
    parts = [ratio_sums(arrays(part)) for part in (shuffled[:low], shuffled[low:high], shuffled[high:])]
    random.shuffle(parts)
    assert reduce(merge, parts, NO_USERS) == whole
    assert all(isinstance(x, int) for x in whole)


@given(st.lists(st.floats(-1e15, 1e15), max_size=20))
def test_exact_sum_rounds_each_value_once(values):
    want = sum(Fraction(v) for v in values)
    # floor, difference and product each add at most one unit of the last place of 1e12
    assert abs(Fraction(exact_sum(np.array(values)), 10**12) - want) <= len(values) * Fraction(1, 10**12)


@pytest.mark.parametrize("x", [2.0**61, 2.0**70, 1e30, -(2.0**61), -1e30])
def test_sums_do_not_overflow(x):
    assert exact_sum(np.array([x, x, x, 0.25])) == 3 * int(x) * 10**12 + 250_000_000_000


def test_long_sums_do_not_overflow():
    n = 5_000_000
    assert exact_sum(np.full(n, 2.0**41 + 0.5)) == n * (2**41 * 10**12 + 500_000_000_000)


def test_of_a_mean_it_is_the_usual_standard_error():
    x = np.random.default_rng(0).random(40)
    result = estimate(ratio_sums((x, np.ones(40))), 0.9)
    interval = stats.t.interval(0.9, 39, loc=x.mean(), scale=stats.sem(x))
    np.testing.assert_allclose(result[:4], [x.mean(), stats.sem(x), *interval], rtol=1e-9)
    assert result[4:] == (40, 0, 0)


@given(st.integers(2, 30), st.integers(0, 10**6))
@settings(max_examples=40)
def test_standard_error_is_that_of_the_linearised_ratio(n, seed):
    rng = np.random.default_rng(seed)
    b = rng.integers(1, 9, n) * 10.0
    a = b * rng.random(n)
    ratio = sum(a) / sum(b)
    residual = sum((x - ratio * y) ** 2 for x, y in zip(a, b, strict=True))
    result = estimate(ratio_sums((a, b)), 0.95)
    assert result.value == pytest.approx(ratio, rel=1e-11)
    assert result.standard_error == pytest.approx(np.sqrt(n / (n - 1) * residual) / sum(b), rel=1e-6)


def test_standard_error_is_that_of_a_simulation():
    rng = np.random.default_rng(3)
    b = rng.poisson(3, (4000, 400)).astype(float)
    a = rng.binomial(b.astype(int), 0.3).astype(float)
    values = a.sum(axis=1) / b.sum(axis=1)
    claimed = [estimate(ratio_sums((a[i], b[i])), 0.95).standard_error for i in range(50)]
    assert np.mean(claimed) == pytest.approx(values.std(ddof=1), rel=0.06)


def test_no_cancellation_where_all_users_agree():
    b = np.arange(1.0, 1001) * 1e4
    assert estimate(ratio_sums((b, b)), 0.95)[:4] == (1.0, 0.0, 1.0, 1.0)
    assert estimate(ratio_sums((b / 4, b)), 0.95)[:2] == (0.25, 0.0)


def test_undefined_is_nan():
    nobody = estimate(ratio_sums((np.zeros(3), np.zeros(3))), 0.95)
    assert np.isnan(nobody[:4]).all()
    assert nobody[4:] == (0, 3, 0)
    alone = estimate(ratio_sums((np.array([1.0, 0.0]), np.array([4.0, 0.0]))), 0.95)
    assert np.isnan(alone[1:4]).all()
    assert (alone.value, *alone[4:]) == (0.25, 1, 1, 0)
    assert np.isnan(estimate(NO_USERS, 0.95).value)


@pytest.mark.parametrize(("a", "b"), [(np.inf, 1.0), (1.0, np.inf), (1.0, np.nan), (1.0, -1.0)])
def test_terms_that_cannot_be_are_named(a, b):
    with pytest.raises(ValueError, match="user 1 has numerator"):
        ratio_sums((np.array([0.0, a]), np.array([1.0, b])))


def test_one_user_whose_numerator_is_not_known_leaves_no_value():
    sums = merge(
        ratio_sums((np.array([0.5, np.nan]), np.ones(2))), ratio_sums((np.array([np.nan, 0.25]), np.array([0.0, 1.0])))
    )
    assert (sums.n_users, sums.n_left_out, sums.n_unknown) == (
        3,
        1,
        1,
    )  # a user with denominator 0 is left out, known or not
    result = estimate(sums, 0.95)
    assert np.isnan(result[:4]).all()
    assert result[4:] == (3, 1, 1)


def test_shapes_and_confidence():
    with pytest.raises(ValueError, match="per user"):
        ratio_sums((np.zeros(2), np.zeros(3)))
    with pytest.raises(ValueError, match="confidence"):
        estimate(RatioSums(2, 0, 1, 1, 1, 1, 1), 95)
