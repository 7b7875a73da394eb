"""Adjusted p-values against statsmodels, and against loops from the formulas."""

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from eval_engine.statistics.multiplicity import benjamini_hochberg, holm

P = st.one_of(
    st.floats(0, 1, allow_subnormal=False), st.sampled_from([0.0, 1.0, 0.01, 0.02, 0.05, 1e-300])
)  # below 2e-308 numbers have few digits left, and statsmodels and the formula round apart
METHODS = [(holm, "holm"), (benjamini_hochberg, "fdr_bh")]


def brute_holm(p):
    ranked = sorted(p)
    steps = [min(1.0, (len(p) - k) * x) for k, x in enumerate(ranked)]
    return [max(steps[: ranked.index(x) + p.count(x)]) for x in p]


def brute_benjamini_hochberg(p):
    ranked = sorted(p)
    steps = [min(1.0, len(p) * x / (k + 1)) for k, x in enumerate(ranked)]
    return [min(steps[ranked.index(x) :]) for x in p]


@pytest.mark.parametrize(("adjusted", "method"), METHODS)
@given(p=st.lists(P, min_size=1, max_size=12))
@settings(deadline=None, max_examples=60)
def test_matches_statsmodels(adjusted, method, p):
    with mock.patch("gc.collect"):  # which multipletests calls each time
        want = multipletests(p, method=method)[1]
    np.testing.assert_allclose(adjusted(np.array(p)), want, rtol=1e-12, atol=0)


@given(st.lists(P, max_size=10))
@settings(deadline=None, max_examples=60)
def test_matches_brute_force(p):
    np.testing.assert_allclose(holm(np.array(p)), brute_holm(p), rtol=1e-12)
    np.testing.assert_allclose(benjamini_hochberg(np.array(p)), brute_benjamini_hochberg(p), rtol=1e-12)


@pytest.mark.parametrize(("adjusted", "method"), METHODS)
@given(p=st.lists(st.one_of(P, st.just(math.nan)), max_size=12))
@settings(deadline=None, max_examples=60)
def test_nan_stays_and_is_not_counted(adjusted, method, p):
    p = np.array(p, float)
    before = p.copy()
    result = adjusted(p)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(p))
    np.testing.assert_array_equal(result[~np.isnan(p)], adjusted(p[~np.isnan(p)]))
    np.testing.assert_array_equal(p, before)  # what is given is not written to
    assert (result[~np.isnan(p)] >= p[~np.isnan(p)]).all()


@pytest.mark.parametrize("adjusted", [holm, benjamini_hochberg])
def test_one_none_and_what_cannot_be(adjusted):
    assert adjusted(np.array([])).shape == (0,)
    np.testing.assert_array_equal(adjusted(np.array([0.03])), [0.03])
    np.testing.assert_array_equal(adjusted(np.array([np.nan, np.nan])), [np.nan, np.nan])
    with pytest.raises(ValueError, match=r"p-value 1 is 1\.5"):
        adjusted(np.array([0.5, 1.5]))
    with pytest.raises(ValueError, match="p-value 0 is -0"):
        adjusted(np.array([-0.1]))
    with pytest.raises(ValueError, match="list of p-values"):
        adjusted(np.ones((2, 2, 2)))


@pytest.mark.parametrize(("adjusted", "method"), METHODS)
@given(p=st.lists(st.lists(st.one_of(P, st.just(math.nan)), min_size=3, max_size=3), max_size=5))
@settings(deadline=None, max_examples=60)
def test_families_in_rows_are_adjusted_apart(adjusted, method, p):
    p = np.array(p, float).reshape(-1, 3)
    np.testing.assert_array_equal(adjusted(p), np.array([adjusted(row) for row in p]).reshape(p.shape))
