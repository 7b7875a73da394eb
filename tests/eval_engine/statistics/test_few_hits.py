"""Intervals of few hits against exact laws, what they cover in simulation, and what stays as it was."""

import math

import numpy as np
import pytest
from scipy import stats

from eval_engine.estimators.stratified import combine_strata
from eval_engine.statistics.few_hits import Range, interval
from eval_engine.statistics.ratio import estimate, ratio_sums

SHARE, RARE = Range(1.0, True), Range(1.0)


def of_hits(hits, gain=1.0):
    """Users with 0 or a gain."""
    a = np.asarray(hits, float) * gain
    return estimate(ratio_sums((a, np.ones(a.size))), 0.95, RARE if gain != 1.0 else SHARE)


def test_no_hit_and_only_hits_are_clopper_and_pearsons():
    none, all_of_them = of_hits(np.zeros(40)), of_hits(np.ones(40))
    assert (none.value, none.low) == (0, 0)
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 40))
    assert (all_of_them.low, all_of_them.high) == (pytest.approx(0.025 ** (1 / 40)), 1)
    assert of_hits(np.zeros(40), 20.0).high == 1  # the size of a hit is not known: the range


def test_few_equal_hits_are_at_least_as_wide_as_the_exact_interval():
    hits = np.arange(200) < 4
    found = of_hits(hits)
    assert found.low <= stats.beta.ppf(0.025, 4, 197) * 1.06
    assert found.high >= stats.beta.ppf(0.975, 5, 196) * 0.97
    rare = of_hits(hits, 20.0)
    assert rare.low <= 20 / 200 * stats.gamma.ppf(0.025, 4) * 1.08
    assert rare.high >= 20 / 200 * stats.gamma.ppf(0.975, 5) * 0.97


def test_with_many_hits_the_linearised_interval_stays():
    a = (np.arange(1000) % 3 == 0).astype(float)
    found, plain = of_hits(a), estimate(ratio_sums((a, np.ones(1000))), 0.95)
    assert found == plain


def test_intervals_are_cut_to_the_range_and_keep_values_outside():
    low, high = interval([0.02, 0.99, 1.3], [0.001, 0.2, 0.01], 500, 499, 0.95, RARE)
    assert (low >= 0).all()
    assert high[1] == 1
    assert high[2] == 1.3
    assert low[2] < 1.3
    assert np.isinf(estimate(ratio_sums((np.ones(2) * [1, 9], np.ones(2))), 0.95).high) is np.False_


def test_undefined_stays_undefined():
    low, high = interval([math.nan, 0.5], [0.1, math.nan], 10, 9, 0.95, SHARE)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


@pytest.mark.parametrize(("users", "chance", "gain"), [(300, 0.004, 60.0), (300, 0.01, 20.0), (100, 0.03, 1.0)])
def test_they_cover_where_the_linearised_interval_does_not(users, chance, gain):
    rng = np.random.default_rng(users)
    truth, few, plain = chance * gain, 0, 0
    for _ in range(400):
        terms = (rng.random(users) < chance) * gain, np.ones(users)
        sums = ratio_sums(terms)
        found, before = estimate(sums, 0.95, SHARE if gain == 1 else RARE), estimate(sums, 0.95)
        few += found.low <= truth <= found.high
        plain += before.low <= truth <= before.high
    assert few / 400 >= 0.93
    assert plain / 400 < 0.93


def test_strata_have_the_users_of_the_stratum_that_decides():
    """Without a hit, 3 users of a stratum with nine tenths of the weight say little, whatever the other 97 do."""
    b = np.zeros((1, 2, 100))
    b[0, 0, :3], b[0, 1, 3:] = 1.0, 1.0
    weights = np.zeros((2, 100))
    weights[0, 0], weights[1, 3] = 9.0, 1.0
    found = combine_strata(np.zeros(b.shape), b, weights)
    assert found.users[0] == pytest.approx(1 / (0.81 / 3 + 0.01 / 97))
    low, high = interval(found.values, 0.0, found.users, 99, 0.95, SHARE)
    assert low[0] == 0
    assert high[0] == pytest.approx(1 - 0.025 ** (1 / found.users[0]))
    even = combine_strata(np.zeros(b.shape), b, np.repeat(b[0].sum(axis=1)[:, None] / 100, 100, 1))
    assert even.users[0] == pytest.approx(100)  # shares as the users: all of them


def test_what_is_not_a_sum_of_hits_is_cut_only():
    of = Range(math.sqrt(2), counted=False)
    low, high = interval([0.1, 0.7, 1.3], [0.1, 0.1, 0.2], 9, 31, 0.95, of)
    t = stats.t.ppf(0.975, 31)
    assert low == pytest.approx([0, 0.7 - t * 0.1, 1.3 - t * 0.2])
    assert high == pytest.approx([0.1 + t * 0.1, 0.7 + t * 0.1, math.sqrt(2)])


def test_a_stratum_without_a_hit_may_have_one():
    """5 users of a stratum with a third of the weight have no hit: the error has room for what they may have."""
    a, b, weights = np.zeros((1, 2, 60)), np.zeros((1, 2, 60)), np.zeros((2, 60))
    b[0, 0, :5], b[0, 1, 5:], a[0, 1, 5:30] = 1.0, 1.0, 1.0
    weights[0, 0], weights[1, 9] = 1.0, 2.0
    found = combine_strata(a, b, weights)
    assert found.unseen[0] * 1.959964 == pytest.approx(1 / 3 * (1 - 0.025 ** (1 / 5)))
    a[0, 0, 0] = 1.0
    assert combine_strata(a, b, weights).unseen[0] == 0
    assert combine_strata(a * 0, b, weights).unseen[0] == 0  # no hit at all: the interval knows
