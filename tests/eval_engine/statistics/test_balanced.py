"""Balanced URE: its laws against scipy, its weights against the definition, and the bias that it removes in a world whose truth is known."""

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, norm, t

from eval_engine.statistics import balanced as module
from eval_engine.statistics.balanced import Balanced, Strata, balanced, lump_of, lumps, two_digits
from eval_engine.statistics.paired import Paired

UNITS = 16


def strata(n, recall, e, candidates, models=1):
    """Sums by (e, N, n) of users assign_tasks out to units in turn; recall (models, users)."""
    e, candidates = np.broadcast_to(e, n.shape), np.broadcast_to(candidates, n.shape)
    kinds, which = np.unique(np.stack([two_digits(e), two_digits(candidates), lump_of(n)]), axis=1, return_inverse=True)
    row = np.arange(n.size) % UNITS * kinds.shape[1] + which.reshape(-1)

    def add(weight=None):
        return np.bincount(row, weight, minlength=UNITS * kinds.shape[1]).reshape(UNITS, -1).astype(float)

    seen = np.where(n > 0, np.atleast_2d(recall), 0.0)
    return Strata(*kinds, add(), np.array([add(r) for r in seen]), np.array([add(r**2) for r in seen]))


def world(rng, users, e, candidates=120):
    """Users with few positives have the higher recall; n positives shown, m of them in the top."""
    total = np.minimum(rng.poisson(rng.gamma(1.5, 6.0, users)), candidates)
    top = rng.binomial(np.minimum(total, 10), np.clip(0.9 - 0.2 * np.log1p(total), 0.05, 1))
    n = rng.hypergeometric(total, candidates - total, e)
    m = np.zeros(users)
    some = n > 0
    m[some] = rng.hypergeometric(top[some], (total - top)[some], n[some])
    has = total > 0
    return n, np.divide(m, n, out=np.zeros(users), where=some), float((top[has] / total[has]).mean())


@pytest.mark.parametrize("e", [5, 10, 20])
def test_it_removes_the_bias_of_macro(e):
    rng = np.random.default_rng(e)
    truths, macros, found, held = [], [], [], []
    for _ in range(12):
        n, recall, truth = world(rng, 40_000, e)
        result = balanced(strata(n, recall, e, 120))
        truths.append(truth)
        macros.append(recall[n > 0].mean())
        found.append(result.models.values[0])
        held.append(abs(found[-1] - truth) < result.half_widths(0.95)[0])
    bias, left = np.mean(macros) - np.mean(truths), np.mean(found) - np.mean(truths)
    assert abs(left) < 0.3 * abs(bias)
    assert sum(held) >= 10


def test_macro_where_there_is_nothing_to_correct():
    """All users are alike: any weights give the same, and differences of models keep their sign."""
    rng = np.random.default_rng(1)
    n = rng.hypergeometric(30, 90, 10, 20_000)
    recall = np.array([np.divide(rng.binomial(n, p), n, out=np.zeros(n.size), where=n > 0) for p in (0.3, 0.4)])
    result = balanced(strata(n, recall, 10, 120))
    macro = recall[:, n > 0].mean(axis=1)
    errors = np.sqrt(np.diag(result.models.covariance) + result.bias**2)
    assert (np.abs(result.models.values - macro) < 3 * errors).all()
    assert result.models.values[1] > result.models.values[0]


def test_everything_exposed_is_the_truth():
    rng = np.random.default_rng(2)
    n = rng.poisson(3, 3000)
    recall = np.divide(rng.binomial(n, 0.4), n, out=np.zeros(n.size), where=n > 0)
    result = balanced(strata(n, recall, 40, 40))
    assert result.models.values[0] == pytest.approx(recall[n > 0].mean(), abs=0.002)


def test_mixed_exposures_and_candidates():
    """Users with different e and N share one law."""
    rng = np.random.default_rng(3)
    parts = [world(rng, 15_000, e, candidates) for e, candidates in ((5, 120), (12, 150))]
    n, recall = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    e, candidates = np.repeat([5, 12], 15_000), np.repeat([120, 150], 15_000)
    result = balanced(strata(n, recall, e, candidates))
    truth, macro = np.mean([p[2] for p in parts]), recall[n > 0].mean()
    assert abs(result.models.values[0] - truth) < 0.4 * abs(macro - truth)


def test_unit_order_does_not_matter_and_errors_add_up_to_nothing():
    n, recall, _ = world(np.random.default_rng(4), 4000, 10)
    made = strata(n, recall, 10, 120)
    turned = made._replace(users=made.users[::-1], sums=made.sums[:, ::-1], squares=made.squares[:, ::-1])
    one, other = balanced(made), balanced(turned)
    assert one.models.values == pytest.approx(other.models.values, rel=1e-9)
    assert np.allclose(one.models.errors[:, ::-1], other.models.errors, atol=1e-12)
    assert abs(one.models.errors.sum()) < 1e-9


def test_nothing_can_be_said():
    nothing = strata(np.zeros(50, np.int64), np.zeros(50), 5, 100)
    assert np.isnan(balanced(nothing).models.values).all()
    once = strata(np.ones(50, np.int64), np.full(50, 0.5), 1, 100)
    assert np.isnan(balanced(once).models.values).all()
    alone = strata(np.array([2]), np.array([0.5]), 5, 100)
    result = balanced(alone)
    assert result.models.values == pytest.approx([0.5])
    assert np.isnan(result.models.covariance).all()


def test_a_model_that_finds_nothing_is_zero_not_nan():
    n, recall, _ = world(np.random.default_rng(5), 3000, 10)
    result = balanced(strata(n, np.array([recall, np.zeros(n.size)]), 10, 120))
    assert result.models.values[1] == 0
    assert result.models.values[0] > 0


def test_laws_are_scipys():
    items = np.arange(0, 61)
    for e in (1, 7, 60):
        for n in range(e + 1):
            assert module._hypergeometric(n, 60, items, e) == pytest.approx(hypergeom.pmf(n, 60, items, e), abs=1e-12)
    n = np.arange(-1, 61.0)[:, None]
    rates = np.array([1e-4, 0.1, 0.95])
    assert module._binomial(n, 60, rates) == pytest.approx(binom.cdf(n, 60, rates), abs=1e-12)


def test_lumps():
    assert (lump_of(np.arange(17)) == np.arange(17)).all()
    starts = lumps()
    assert (np.diff(starts) > 0).all()
    assert lump_of(starts[20]) == starts[20]
    assert lump_of(starts[20] - 1) == starts[19]
    assert (two_digits(np.arange(1, 100)) == np.arange(1, 100)).all()


def test_intervals_have_the_degrees_of_freedom_of_what_they_are_made_of():
    errors = np.array([[0.1, -0.1, 0.2, 0.0]] * 3)
    found = Balanced(Paired(np.array([0.5] * 3), errors, 4), np.array([0.0, 100.0, np.nan]))
    sampling = np.sqrt(found.models.covariance[0, 0])
    assert found.standard_errors()[:2] == pytest.approx([sampling, np.hypot(sampling, 100.0)])
    assert found.half_widths(0.95)[:2] == pytest.approx([t.ppf(0.975, 3) * sampling, norm.ppf(0.975) * 100.0], rel=1e-4)
    assert np.isnan(found.half_widths(0.95)[2])
    alone = Balanced(Paired(np.array([0.5]), np.zeros((1, 1)), 1), np.array([0.1]))
    assert np.isnan(alone.half_widths(0.95)).all()  # one unit has no error


def test_with_few_exposures_the_interval_owns_up_to_the_bias_that_is_left():
    rng = np.random.default_rng(6)
    held, off, bias = [], [], []
    for _ in range(40):
        n, recall, truth = world(rng, 1500, 3)
        result = balanced(strata(n, recall, 3, 120))
        off.append(result.models.values[0] - truth)
        held.append(abs(off[-1]) < result.half_widths(0.95)[0])
        bias.append(result.bias[0])
    assert np.mean(held) >= 0.75  # recall falls from 0.7 to 0.1 with N+; without its slope 0.4
    assert abs(np.mean(off)) < 1.5 * np.mean(bias)


def test_weights_come_from_the_exposures_alone():
    """A model's estimate and its errors are the same alone and beside models with quite another recall."""
    n, recall, _ = world(np.random.default_rng(7), 4000, 10)
    beside = np.array([recall, (recall > 0) * 1.0, recall * 0.01])
    alone, together = balanced(strata(n, recall, 10, 120)), balanced(strata(n, beside, 10, 120))
    assert together.models.values[0] == pytest.approx(alone.models.values[0], rel=1e-12)
    assert np.allclose(together.models.errors[0], alone.models.errors[0], atol=1e-14)
    assert together.bias[0] == pytest.approx(alone.bias[0], rel=1e-12)
