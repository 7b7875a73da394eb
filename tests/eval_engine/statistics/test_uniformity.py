"""Tests of uniform drawing: p-values are uniform where drawing is, whatever e/N and the candidates; what is not uniform is found; moments against loops."""

import math
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, kstest

from eval_engine.statistics.exposure_moments import Draws, Overlap, deviance, draws, overlap
from eval_engine.statistics.uniformity import both, chi_square, gamma_tail, overlap_p, rounded, two_sided


class Drawn:
    """Users and their candidates, what is expected of them, and draws."""

    def __init__(self, candidates: np.ndarray, exposed: np.ndarray) -> None:
        self.candidates, self.exposed = candidates, exposed
        terms = draws(exposed, candidates.sum(axis=1))
        self.total = Draws(*(float(np.sum(term)) for term in terms))
        self.expected, self.variance, d = terms.p @ candidates, terms.variance @ candidates, terms.c @ candidates
        self.events = candidates.sum(axis=0)
        self.dd, self.ddd = float((d**2).sum()), float((d**3).sum())

    def counts(self, rng: np.random.Generator, appeal: Any = 0.0) -> np.ndarray:
        """Exposures per item of one draw; the larger its appeal, the likelier an item."""
        keys = appeal + rng.gumbel(size=self.candidates.shape)
        keys[~self.candidates] = -np.inf
        most = int(self.exposed.max())
        if (self.exposed == most).all():
            return np.bincount(np.argpartition(-keys, most, axis=1)[:, :most].ravel(), minlength=keys.shape[1])
        return np.asarray((np.argsort(np.argsort(-keys, axis=1), axis=1) < self.exposed[:, None]).sum(axis=0))

    def p(self, observed: np.ndarray) -> tuple[float, float, float]:
        """Of all items, of the worst one, of both."""
        able = self.events > 0
        of_all = chi_square(float(((observed - self.expected) ** 2).sum()), self.total, self.dd, self.ddd).p
        of_one = float(two_sided(observed[able], self.expected[able], self.events[able]).min())
        return of_all, min(1.0, of_one * int(able.sum())), both(of_all, of_one, int(able.sum()))


def candidates(rng: np.random.Generator, users: int, items: int, logged: int) -> np.ndarray:
    """All items but a user's logged ones, most of which are popular."""
    keys = np.log(1.0 / (np.arange(items) + 1)) + rng.gumbel(size=(users, items))
    return np.asarray(np.argsort(np.argsort(-keys, axis=1), axis=1) >= rng.integers(0, 2 * logged + 1, users)[:, None])


def world(name: str, rng: np.random.Generator) -> Drawn:
    all_items = np.ones((80, 40), np.bool_)
    unseen = candidates(rng, 80, 50, 15)
    return {
        "few of many": lambda: Drawn(np.ones((150, 60), np.bool_), np.full(150, 3)),
        "half": lambda: Drawn(all_items, np.full(80, 20)),
        "from one to all but one": lambda: Drawn(all_items, rng.integers(1, 40, 80)),
        "unseen": lambda: Drawn(unseen, np.full(80, 6)),
        "half of unseen": lambda: Drawn(unseen, unseen.sum(axis=1) // 2),
    }[name]()


@pytest.mark.parametrize("name", ["few of many", "half", "from one to all but one", "unseen", "half of unseen"])
def test_p_values_of_uniform_drawing_are_uniform(name: str) -> None:
    rng = np.random.default_rng(20)
    drawn = world(name, rng)
    found = np.array([drawn.p(drawn.counts(rng)) for _ in range(1500)])
    assert kstest(found[:, 0], "uniform").pvalue > 0.01
    for level in (0.01, 0.05, 0.2):
        assert abs((found[:, 0] < level).mean() - level) < 4 * math.sqrt(level / 1500)
        assert (
            (found[:, 1:] < level).mean(axis=0) < level + 3 * math.sqrt(level / 1500)
        ).all()  # Bonferroni and steps of counts: less, never more


@pytest.mark.parametrize(("users", "items"), [(60, 400), (40, 1600)])
def test_few_exposures_per_item_give_no_false_alarms(users: int, items: int) -> None:
    rng = np.random.default_rng(21)
    drawn = Drawn(np.ones((users, items), np.bool_), np.full(users, 2))  # 0.3 and 0.05 exposures per item
    found = np.array([drawn.p(drawn.counts(rng)) for _ in range(1500)])
    for level in (0.001, 0.01, 0.1):
        assert ((found < level).mean(axis=0) < level + 3 * math.sqrt(level / 1500)).all()
    assert (found[:, 0] < 0.3).mean() > 0.1  # but it is a test


@pytest.mark.parametrize("n", [2, 3])
def test_moments_are_those_of_all_ways_to_draw(n: int) -> None:
    """Where all draw from the same items, mean, variance and third moment are exact."""
    items, exposed = 5, np.array([1, 2, 3])[:n]
    drawn = Drawn(np.ones((n, items), np.bool_), exposed)
    ways = product(*(combinations(range(items), e) for e in exposed))
    t = np.array([((np.bincount(np.concatenate(way), minlength=items) - drawn.expected) ** 2).sum() for way in ways])
    total = drawn.total
    assert total.mean == pytest.approx(t.mean()) == pytest.approx(drawn.variance.sum())
    m = total.c / total.c_over_n
    assert 2 * ((1 - 1 / m) * drawn.dd - total.cc_n) == pytest.approx(t.var())
    skewness = ((t - t.mean()) ** 3).mean() / t.std() ** 3
    at = float(t.mean() + 2)
    assert chi_square(at, total, drawn.dd, drawn.ddd).p == pytest.approx(
        gamma_tail((at - 1 - t.mean()) / t.std(), skewness), rel=1e-9
    )


def test_terms_against_loops() -> None:
    rng = np.random.default_rng(3)
    open_to = candidates(rng, 30, 12, 4)
    exposed = rng.integers(1, open_to.sum(axis=1) + 1)
    drawn = Drawn(open_to, exposed)
    for i in range(12):
        p = [exposed[u] / open_to[u].sum() for u in range(30) if open_to[u, i]]
        assert drawn.expected[i] == pytest.approx(sum(p))
        assert drawn.variance[i] == pytest.approx(sum(x * (1 - x) for x in p))


def test_exposures_that_follow_popularity_fail() -> None:
    rng = np.random.default_rng(5)
    drawn = Drawn(candidates(rng, 400, 100, 10), np.full(400, 10))
    assert drawn.p(drawn.counts(rng, appeal=0.0))[2] > 0.001
    assert drawn.p(drawn.counts(rng, appeal=-0.3 * np.log(np.arange(100) + 1)))[0] < 1e-6


def test_one_item_shown_twice_as_often_is_found_though_all_together_look_fine() -> None:
    rng = np.random.default_rng(6)
    drawn = Drawn(np.ones((1000, 500), np.bool_), np.full(1000, 30))
    observed = drawn.counts(rng, appeal=np.where(np.arange(500) == 123, math.log(2), 0.0))
    of_all, of_one, together = drawn.p(observed)
    assert of_one < 1e-4 < of_all
    assert together == pytest.approx(2 * of_one)
    assert np.argmax(deviance(observed.astype(float), drawn.expected, drawn.events.astype(float))) == 123


def test_more_even_than_chance_passes() -> None:
    drawn = Drawn(np.ones((50, 25), np.bool_), np.full(50, 5))
    assert drawn.p(np.full(25, 10))[2] == 1.0


def test_tails_of_a_count() -> None:
    o = np.arange(41)
    want = np.minimum(1, 2 * np.minimum(binom.sf(o - 1, 40, 0.3), binom.cdf(o, 40, 0.3)))
    np.testing.assert_allclose(two_sided(o, 12.0, 40), want, rtol=1e-9)
    assert float(two_sided(49, 25.0, 10**9)) == pytest.approx(2 / 70_633, rel=1e-3)
    rng = np.random.default_rng(1)  # events of different chances: the binomial's tail is the wider one
    chance = np.r_[np.full(5, 0.9), np.full(5, 0.1)]
    count = (rng.random((100_000, 10)) < chance).sum(axis=1)
    for at in (8, 9):
        assert 2 * (count >= at).mean() <= float(two_sided(at, 5.0, 10))


def test_deviance_orders_counts_as_their_tails_do() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        events, mean = rng.integers(50, 500, 300), rng.uniform(0.05, 20, 300)
        observed = rng.binomial(events, mean / events)
        p = two_sided(observed, mean, events)
        first = np.argsort(-deviance(observed.astype(float), mean, events.astype(float)))[:5]
        assert p[first].min() < 1.5 * p.min()
    assert deviance(np.array([0.0, 5.0, 10.0]), np.full(3, 5.0), np.full(3, 10.0)).tolist() == pytest.approx(
        [20 * math.log(2), 0, 20 * math.log(2)]
    )


def test_overlap_against_the_hypergeometric_and_by_simulation() -> None:
    rng = np.random.default_rng(8)
    exposed, logged = np.array([1, 4, 10, 30, 3]), np.array([5, 0, 12, 8, 30])
    found = overlap(exposed, logged, 30)
    for u in range(5):
        with np.errstate(divide="ignore"):  # of the kurtosis, which scipy takes as well
            mean, variance, skewness = hypergeom.stats(30, logged[u], exposed[u], moments="mvs")
        assert (found.mean[u], found.variance[u]) == pytest.approx((mean, variance))
        assert found.third[u] == pytest.approx(0 if variance == 0 else skewness * variance**1.5)
    exposed, logged = rng.integers(1, 20, 200), rng.integers(0, 40, 200)
    chance = Overlap(*(float(term.sum()) for term in overlap(exposed, logged, 200)))
    p = [overlap_p(int(rng.hypergeometric(logged, 200 - logged, exposed).sum()), chance)[1] for _ in range(2000)]
    for level in (0.01, 0.05, 0.2):
        assert abs(np.mean(np.array(p) < level) - level) < 4 * math.sqrt(level / 2000) + 0.01  # counts have steps
    z, too_few = overlap_p(0, chance)
    assert z < 0
    assert too_few < 1e-6


def test_without_a_draw_there_is_no_test() -> None:
    assert all(math.isnan(x) for x in overlap_p(0, Overlap(0.0, 0.0, 0.0)))
    one_user = Drawn(np.ones((1, 9), np.bool_), np.array([3]))
    assert math.isnan(one_user.p(one_user.counts(np.random.default_rng(1)))[0])
    everything = draws(np.array([7, 7]), np.array([7, 7]))
    assert everything.variance.tolist() == everything.c.tolist() == [0, 0]
    one_item = draws(np.array([1, 1]), np.array([1, 1]))
    assert math.isnan(chi_square(0.0, Draws(*(float(term.sum()) for term in one_item)), 0.0, 0.0).p)
    assert math.isnan(both(math.nan, math.nan, 0))
    assert both(math.nan, 0.001, 10) == 0.01
    assert rounded(math.nan) is None
    assert rounded(0.123456789) == 0.123457


def test_an_item_that_is_nobodys_candidate_does_not_count() -> None:
    rng = np.random.default_rng(9)
    open_to = np.ones((100, 30), np.bool_)
    open_to[:, :3] = False
    drawn, same = Drawn(open_to, np.full(100, 6)), Drawn(open_to[:, 3:], np.full(100, 6))
    observed = drawn.counts(rng)
    assert observed[:3].sum() == 0
    np.testing.assert_allclose(drawn.p(observed), same.p(observed[3:]), rtol=1e-12)
