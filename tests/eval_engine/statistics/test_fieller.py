"""Intervals of ratios against a search over ratios, and their coverage."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eval_engine.statistics.fieller import Moments, ratio_interval

RATIOS = np.linspace(-3, 5, 160_001)


def by_search(of: Moments, c: float) -> tuple[float, float]:
    """The least and largest ratio r for which a - r b is within c standard errors of 0."""
    variance = of.variance_a - 2 * RATIOS * of.covariance + RATIOS**2 * of.variance_b
    inside = RATIOS[(of.a - RATIOS * of.b) ** 2 <= c * c * variance]
    return float(inside.min()), float(inside.max())


@given(st.floats(-0.5, 1.5), st.floats(0.6, 1.5), st.floats(0.01, 0.1), st.floats(0.01, 0.1), st.floats(-0.9, 0.9))
def test_the_ends_are_those_of_a_search(a: float, b: float, se_a: float, se_b: float, correlation: float) -> None:
    of = Moments(a, b, se_a**2, se_b**2, correlation * se_a * se_b)
    np.testing.assert_allclose(ratio_interval(of, 1.96), by_search(of, 1.96), atol=1e-4)


def test_an_end_is_where_a_test_of_that_margin_turns() -> None:
    of = Moments(0.97, 1.0, 0.01**2, 0.012**2, 0.00005)
    low, high = ratio_interval(of, 1.645)
    for r, sign in ((low, 1), (high, -1)):
        error = math.sqrt(of.variance_a - 2 * r * of.covariance + r * r * of.variance_b)
        assert math.isclose(of.a - r * of.b, sign * 1.645 * error, rel_tol=1e-9)


def test_unknown_where_the_denominator_may_be_zero_or_an_error_is_unknown() -> None:
    for of in (Moments(1, 0.1, 0.01, 0.01), Moments(1, -1, 1e-4, 1e-4), Moments(1, 1, math.nan, 1e-4)):
        assert all(math.isnan(end) for end in ratio_interval(of, 1.96))


def test_without_errors_the_interval_is_the_ratio() -> None:
    assert ratio_interval(Moments(0.9, 1.0, 0.0, 0.0), 1.96) == (0.9, 0.9)


def test_the_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    n = 4000
    shared = rng.normal(0, 0.02, n)
    a, b = 0.9 + shared + rng.normal(0, 0.02, n), 1.0 + shared + rng.normal(0, 0.03, n)
    ends = [ratio_interval(Moments(x, y, 8e-4, 13e-4, 4e-4), 1.959964) for x, y in zip(a, b, strict=True)]
    held = np.mean([low <= 0.9 <= high for low, high in ends])
    assert abs(held - 0.95) < 3 * math.sqrt(0.95 * 0.05 / n)
