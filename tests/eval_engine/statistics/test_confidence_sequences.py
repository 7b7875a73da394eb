"""Confidence sequences: the formula by hand, and over many looks how often a series ever leaves the truth out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_engine.statistics.confidence_sequences import sequence_factor

DAYS, PER_DAY, SERIES = 200, 200, 2000


@given(st.integers(1, 10**9), st.floats(0.001, 0.5), st.integers(1, 10**7))
def test_the_factor_is_that_of_the_formula(n: int, alpha: float, tightest_at: int) -> None:
    r_squared = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1) / tightest_at
    inside = 2 * (n * r_squared + 1) / (n * r_squared) * math.log(math.sqrt(n * r_squared + 1) / alpha)
    assert math.isclose(float(sequence_factor(n, alpha, tightest_at)), math.sqrt(inside), rel_tol=1e-9)


def test_the_sequence_is_tightest_about_where_it_is_asked_to_be() -> None:
    n = np.arange(1000.0, 40_000, 10)
    assert 0.8 < n[np.argmin(sequence_factor(n, 0.05, 10_000))] / 10_000 < 1.2


def test_it_is_wider_than_an_interval_of_one_look_and_undefined_without_users() -> None:
    assert (sequence_factor(np.array([10.0, 1e4, 1e8]), 0.05, 1e4) > 2.5).all()
    assert np.isnan(sequence_factor(0, 0.05, 1e4))


@pytest.mark.parametrize(("alpha", "tightest_at"), [(0.0, 10), (1.0, 10), (0.05, 0)])
def test_settings_that_mean_nothing_are_errors(alpha: float, tightest_at: float) -> None:
    with pytest.raises(ValueError, match=r"alpha|tightest_at"):
        sequence_factor(100, alpha, tightest_at)


def ever_left_out(factors: np.ndarray, baseline: int) -> float:
    """Share of series without a change that some day's interval leaves 0 out. baseline: users of the other estimate."""
    rng = np.random.default_rng(11)
    n = np.arange(1, DAYS + 1) * PER_DAY
    skewed = rng.gamma(0.5 * PER_DAY, 1.0, (SERIES, DAYS))  # sums of a day's users, each Gamma(0.5)
    means = skewed.cumsum(axis=1) / n - rng.gamma(0.5 * baseline, 1.0, (SERIES, 1)) / baseline
    errors = np.sqrt(0.5 * (1 / n + 1 / baseline))
    return float((np.abs(means) > factors * errors).any(axis=1).mean())


@pytest.mark.parametrize("baseline", [10**9, 8000])
def test_at_most_alpha_of_series_ever_leave_the_truth_out_and_ordinary_intervals_many(baseline: int) -> None:
    n = np.arange(1, DAYS + 1) * PER_DAY
    together = 1 / (1 / n + 1 / baseline)
    at_every_look = ever_left_out(sequence_factor(together, 0.05, 2000), baseline)
    of_one_look = ever_left_out(np.full(DAYS, 1.959964), baseline)
    assert at_every_look <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / SERIES)
    assert of_one_look > 0.2
