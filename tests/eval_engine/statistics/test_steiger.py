"""Steiger's test against the formula worked by hand, the published example, and a simulation of its level."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

import eval_engine
from eval_engine.statistics.agreement import kendall, pearson
from eval_engine.statistics.steiger import steiger


def test_a_value_worked_by_hand():
    """n = 103, r_xy = 0.4, r_xz = 0.5, r_yz = 0.1: |R| = 1 - 0.16 - 0.25 - 0.01 + 0.04 = 0.62; the denominator is
    2 (102/100) 0.62 + 0.45^2 0.9^3 = 1.2648 + 0.1476225 = 1.4124225; t = -0.1 sqrt(102 1.1 / 1.4124225)."""
    test = steiger(0.4, 0.5, 0.1, 103)
    t = -0.1 * math.sqrt(112.2 / 1.4124225)
    assert test.t == pytest.approx(t, rel=1e-12)
    assert test.p == pytest.approx(2 * student.cdf(t, 100), rel=1e-12)
    assert test.p_one_sided == pytest.approx(test.p / 2)
    assert test.degrees == 100
    assert eval_engine.steiger(0.4, 0.5, 0.1, 103) == test


def test_level_and_power_for_pearson_and_level_for_tau():
    """x agrees equally with y and z: 5 % of tests reject for Pearson; for tau far fewer, which the docstring says."""
    rng = np.random.default_rng(7)
    n, worlds = 40, 2000
    x = rng.normal(size=(n, worlds))
    shared, own = rng.normal(size=(n, worlds)), rng.normal(size=(2, n, worlds))
    y, z = 0.5 * x + 0.6 * shared + 0.6 * own[0], 0.5 * x + 0.6 * shared + 0.6 * own[1]
    better = 0.9 * x + 0.6 * shared + 0.6 * own[0]

    def rejected(correlation, one):
        rows = zip(correlation(x, one), correlation(x, z), correlation(one, z), strict=True)
        return np.mean([steiger(*row, n).p < 0.05 for row in rows])

    assert 0.035 < rejected(pearson, y) < 0.065
    assert rejected(pearson, better) > 0.5
    assert rejected(kendall, y) < 0.01


@settings(deadline=None)  # numba compiles at the first call
@given(st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=4, max_size=12))
def test_any_sample_gives_a_p_value_or_nan_and_turns_with_its_sides(rows):
    x, y, z = np.array(rows, float).T
    for correlation in (pearson, kendall):
        r = [float(correlation(*pair)) for pair in ((x, y), (x, z), (y, z))]
        test, turned = steiger(*r, len(rows)), steiger(r[1], r[0], r[2], len(rows))
        assert math.isnan(test.p) or 0 <= test.p <= 1
        np.testing.assert_allclose([turned.t, turned.p], [-test.t, test.p])


@pytest.mark.parametrize(("r", "n"), [((0.5, 0.2, 0.1), 3), ((math.nan, 0.2, 0.1), 30), ((0.5, -0.5, -1.0), 30)])
def test_undefined(r, n):
    assert math.isnan(steiger(*r, n).p)


def test_identical_variables_do_not_differ():
    assert steiger(0.5, 0.5, 1.0, 20)[:2] == (0.0, 1.0)


@pytest.mark.parametrize(
    ("r", "message"), [((1.2, 0.0, 0.0), "r_xy is 1.2"), ((0.9, -0.9, 0.9), "no three variables have")]
)
def test_what_no_sample_has(r, message):
    with pytest.raises(ValueError, match=message):
        steiger(*r, 20)
