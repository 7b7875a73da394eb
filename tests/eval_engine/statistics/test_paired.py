"""Ratios, errors and covariances of models against plain loops, the paired t test and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from eval_engine.statistics.paired import Paired, paired
from eval_engine.statistics.ratio import estimate, ratio_sums

NUMERATOR = st.one_of(st.just(0.0), st.floats(-1e3, 1e3), st.sampled_from([0.25, 1.0, math.nan]))
DENOMINATOR = st.one_of(st.just(0.0), st.floats(1e-2, 1e3), st.just(1.0))


@st.composite
def bucket_sums(draw, most_models=4, most_buckets=6):
    """Sums of some models, a row of which may be repeated; with empty buckets, and without any."""
    n_buckets = draw(st.integers(0, most_buckets))
    row = st.tuples(
        st.lists(NUMERATOR, min_size=n_buckets, max_size=n_buckets),
        st.lists(DENOMINATOR, min_size=n_buckets, max_size=n_buckets),
    )
    rows = draw(st.lists(row, max_size=most_models))
    rows += draw(st.lists(st.sampled_from(rows), max_size=1)) if rows else []
    return [np.array([r[x] for r in rows], float).reshape(len(rows), n_buckets) for x in (0, 1)]


def brute_force(a, b):
    """Values, errors and the number of buckets, by loops from the formulas."""
    models, buckets = range(len(a)), range(a.shape[1])
    values, errors, carrying = [], [], set()
    for m in models:
        below = math.fsum(b[m])
        if below == 0 or any(math.isnan(x) for x in a[m]):
            values.append(math.nan)
            errors.append([math.nan for _ in buckets])
            continue
        used = [g for g in buckets if b[m, g] > 0]
        carrying.update(used)
        values.append(math.fsum(a[m, g] for g in used) / below)
        errors.append([(a[m, g] - values[m] * b[m, g]) / below if g in used else 0.0 for g in buckets])
    return values, errors, len(carrying)


def brute_covariance(errors, n, i, j):
    return n / (n - 1) * math.fsum(x * y for x, y in zip(errors[i], errors[j], strict=True)) if n > 1 else math.nan


@given(bucket_sums())
@settings(deadline=None, max_examples=60)
def test_matches_brute_force(sums):
    result = paired(*sums)
    values, errors, n_units = brute_force(*sums)
    scale = 1e-12 * (1 + 1e6)
    assert result.n_units == n_units
    np.testing.assert_allclose(result.values, values, rtol=1e-12, atol=scale)
    np.testing.assert_allclose(result.errors, np.reshape(errors, sums[0].shape), rtol=1e-9, atol=scale)
    models = range(len(values))
    covariance = [[brute_covariance(result.errors, n_units, i, j) for j in models] for i in models]
    np.testing.assert_allclose(
        result.covariance, np.reshape(covariance, (len(values), len(values))), rtol=1e-9, atol=1e-12
    )


def test_a_user_per_bucket_is_the_t_test():
    x, y = np.random.default_rng(1).random((2, 57))
    models = paired(np.array([x, y]), np.ones((2, 57)))
    np.testing.assert_allclose(
        models.values / np.sqrt(np.diag(models.covariance)), stats.ttest_1samp([x, y], 0, axis=1).statistic, rtol=1e-12
    )
    np.testing.assert_allclose(models.covariance, np.cov(x, y) / 57, rtol=1e-12)


def test_of_one_model_it_is_the_estimate_of_users():
    rng = np.random.default_rng(2)
    b = rng.integers(1, 9, 40).astype(float)
    a = b * rng.random(40)
    want = estimate(ratio_sums((a, b)), 0.95)
    models = paired(a[None], b[None])
    assert models.values[0] == pytest.approx(want.value, rel=1e-11)
    assert math.sqrt(models.covariance[0, 0]) == pytest.approx(want.standard_error, rel=1e-6)


@given(bucket_sums(), st.randoms(), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_neither_order_nor_empty_buckets_nor_undefined_models_matter(sums, random, n_empty):
    n_buckets = sums[0].shape[1] + n_empty
    order = random.sample(range(n_buckets), n_buckets)
    a, b = (np.hstack([x, np.zeros((len(x), n_empty))])[:, order] for x in sums)
    unknown = np.full((1, n_buckets), np.nan)
    one, other = paired(*sums), paired(np.vstack([unknown, a]), np.vstack([np.ones((1, n_buckets)), b]))
    assert one.n_units == other.n_units
    assert math.isnan(other.values[0])
    np.testing.assert_allclose(other.values[1:], one.values, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(other.covariance[1:, 1:], one.covariance, rtol=1e-6, atol=1e-9)


def test_users_in_parts_are_users_at_once_and_a_split_bucket_keeps_the_value():
    rng = np.random.default_rng(4)
    hits, tries = rng.integers(0, 5, (3, 200)), rng.integers(4, 9, (3, 200))
    buckets = rng.integers(0, 16, 200)

    def sums(x, users):
        return np.array([np.bincount(buckets[users], row[users], minlength=16) for row in x])

    parts = np.array_split(rng.permutation(200), 5)
    whole = paired(sums(hits, np.arange(200)), sums(tries, np.arange(200)))
    merged = paired(sum(sums(hits, part) for part in parts), sum(sums(tries, part) for part in parts))
    for x, y in zip(whole, merged, strict=True):
        np.testing.assert_array_equal(x, y)
    split = paired(*(np.hstack([sums(x, part) for part in parts]) for x in (hits, tries)))
    np.testing.assert_allclose(split.values, whole.values, rtol=1e-14)
    np.testing.assert_allclose(split.errors.reshape(3, len(parts), 16).sum(axis=1), whole.errors, atol=1e-14)


def test_undefined_is_nan():
    a = np.array([[1.0, 2.0, 0.0], [1.0, np.nan, 0.0], [0.0, 0.0, 0.0], [2.0, 1.0, 0.0]])
    b = np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 5.0], [0.0, 0.0, 0.0], [2.0, 4.0, 0.0]])
    models = paired(a, b)
    np.testing.assert_array_equal(models.values, [0.75, np.nan, np.nan, 0.5])
    np.testing.assert_array_equal(np.isnan(models.covariance), ~np.outer([1, 0, 0, 1], [1, 0, 0, 1]).astype(bool))
    assert models.n_units == 2


@pytest.mark.parametrize(("n_buckets", "value"), [(0, math.nan), (1, 0.5), (2, 0.5)])
def test_one_bucket_has_no_standard_error(n_buckets, value):
    models = paired(np.ones((2, n_buckets)), np.array([[1.0, 0.0], [2.0, 0.0]])[:, :n_buckets])
    assert models.values[0] - models.values[1] == pytest.approx(value, nan_ok=True)
    assert np.isnan(models.covariance).all()


def test_a_numerator_over_nothing_is_left_out():
    models = paired(np.array([[1.0, 7.0, 3.0]]), np.array([[2.0, 0.0, 2.0]]))
    assert models.values == 1.0
    assert models.n_units == 2
    assert models.errors[0, 1] == 0


@pytest.mark.parametrize(("a", "b"), [(np.inf, 1.0), (1.0, np.inf), (1.0, np.nan), (1.0, -1.0)])
def test_sums_that_cannot_be_are_named(a, b):
    with pytest.raises(ValueError, match="bucket 1 of model 0 has numerator"):
        paired(np.array([[0.0, a]]), np.array([[1.0, b]]))


@pytest.mark.parametrize(("a", "b"), [((2, 3), (2, 4)), ((3,), (3,)), ((2, 3), (3, 2)), ((1, 2, 3), (1, 2, 3))])
def test_shapes(a, b):
    with pytest.raises(ValueError, match="per model and bucket"):
        paired(np.zeros(a), np.zeros(b))


def test_no_models():
    models = paired(np.zeros((0, 5)), np.zeros((0, 5)))
    assert isinstance(models, Paired)
    assert models.covariance.shape == (0, 0)
    assert models.n_units == 0
