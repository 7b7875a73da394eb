"""The sum of 1 / pi over the top K: right probabilities pass, wrong ones and missing exposures are seen."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import skew

from eval_engine.exposure_design.design import design_exposures
from eval_engine.quality.probability_sums import frame_sum, off, top_sum
from eval_engine.statistics.exposure_moments import frames

N, ITEMS, K = 20_000, 80, 5


def sums(change=lambda chance, in_top: chance, keep=lambda arm, in_top: in_top):
    rng = np.random.default_rng(0)
    lists = np.argsort(rng.random((2, N, ITEMS)), axis=2)[:, :, :K]
    plan = design_exposures(lists, ITEMS, 8, 4, 1)
    found = []
    for m in range(2):
        b = np.array(
            [
                (keep(arm, np.isin(items, top)) / change(chance, np.isin(items, top))).sum()
                for items, chance, arm, top in zip(
                    plan.items, plan.probabilities, plan.in_targeted, lists[m], strict=True
                )
            ]
        )
        found.append(top_sum("ab"[m], K, N, float(b.sum()), float((b**2).sum())))
    return found


def test_planned_and_shown_exposures_pass():
    found = sums()
    assert all(abs(one.mean - K) < 0.1 for one in found)
    assert off(found, 0.001) == []


def test_wrong_probabilities_are_seen():
    lines = off(sums(change=lambda chance, in_top: np.where(in_top, chance * 0.8, chance)), 0.001)
    assert len(lines) == 1
    assert "the sum of 1 / probability over the top 5 is 6.2" in lines[0]


def test_exposures_that_were_not_shown_are_seen():
    assert off(sums(keep=lambda arm, in_top: in_top & (np.arange(arm.size) % 4 > 0)), 0.001)


def test_a_user_alone_has_no_verdict():
    assert off([top_sum("a", 5, 1, 4.0, 16.0), top_sum("a", 5, 0, 0.0, 0.0)], 0.001) == []


def of_draws(shown, p):
    """The mean of d from independent draws, a row per user; users who were shown nothing are not seen."""
    shown = shown[shown.any(axis=1)]
    terms = frames(shown @ (1 / p), np.full(len(shown), p.size))
    sums = tuple(sum(map(Fraction, term.tolist())) for term in terms)
    sizes = shown.sum(axis=1)
    return frame_sum(len(shown), int((sizes == 1).sum()), int((sizes == 2).sum()), sums), terms.d


def chances(n_items, size, decay):
    weight = np.exp(-decay * np.arange(n_items) / n_items)
    return np.minimum(1.0, weight / weight.sum() * size)


def drawn(rng, n, p):
    return rng.random((n, p.size)) < p


def test_the_mean_and_its_error_are_those_of_numpy():
    p = chances(60, 4, 3)
    found, d = of_draws(drawn(np.random.default_rng(1), 500, p), p)
    assert found[:2] == pytest.approx((d.mean(), d.std(ddof=1) / np.sqrt(d.size)))


def test_a_mean_below_is_judged_with_its_skewness():
    """Samples of which some are told off and some are not; some would be by four standard errors alone."""
    p, rng, verdicts = chances(80, 5, 8), np.random.default_rng(2), []
    for factor in np.linspace(1, 2.5, 40):
        found, d = of_draws(drawn(rng, 60, p), np.minimum(1.0, p * factor))
        far = 4 + max(0, skew(d)) * 33 / (6 * np.sqrt(d.size))
        if d.mean() < 0:
            assert found.off == (d.mean() + 0.001 < -far * d.std(ddof=1) / np.sqrt(d.size))
            verdicts.append((found.off, d.mean() + 0.001 < -4 * found.se))
    off_here, by_four = map(sum, zip(*verdicts, strict=True))
    assert 5 < off_here < by_four < len(verdicts)


@pytest.mark.parametrize(("decay", "size"), [(0, 1), (0, 3), (3, 5), (8, 5)])
def test_right_probabilities_pass_and_wrong_ones_do_not(decay, size):
    """A third of the users are shown nothing if one exposure is expected: the mean is too large, and that is no failure."""
    rng, p = np.random.default_rng(3), chances(80, size, decay)
    right = [of_draws(drawn(rng, 200, p), p)[0] for _ in range(100)]
    assert sum(one.off for one in right) <= 3
    if size == 1:
        assert np.mean([one.mean for one in right]) > 0.5
    else:
        assert all(of_draws(drawn(rng, 1000, p), p / 3)[0].off for _ in range(3))
    if decay < 8:
        assert all(of_draws(drawn(rng, 1000, p), np.minimum(1.0, p * 3))[0].off for _ in range(3))


@pytest.mark.parametrize(("factor", "wrong"), [(1.0, False), (0.9996, False), (0.99, True), (1.01, True)])
def test_equal_sums_of_all_users_have_no_error(factor, wrong):
    d = Fraction(float(frames(np.array([25 * factor]), np.array([25])).d[0]))
    assert frame_sum(40, 0, 0, (40 * d, 40 * d**2, 40 * d**3)).off == wrong


def test_one_exposure_of_everybody_says_nothing_about_a_mean_above():
    for d, wrong in ((3, False), (Fraction(-1, 2), True)):
        assert frame_sum(40, 40, 0, (40 * d, 40 * d**2, 40 * d**3)).off == wrong


def test_the_least_probability_is_cut():
    with np.errstate(over="ignore"):
        assert frames(1 / np.array([5e-324]), np.array([3])).ddd.tolist() == [4096.0**3]
