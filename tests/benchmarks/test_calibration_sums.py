"""Sums of drawn users against loops over the same users, and comparisons from them against those of all buckets."""

import numpy as np
import pytest

from benchmarks.calibration_grid import SCENARIOS, compared, pair_of
from benchmarks.calibration_sums import (
    BUCKETS,
    UNITS,
    base_of,
    draw_sums,
    drawn,
    factor_of,
    stratum_sums,
    unit_sums,
)
from eval_engine.statistics.comparison import compare_groups, hit_size

USERS, DRAWS, SEED = 40, 3, 7


@pytest.fixture(scope="module")
def population():
    rng = np.random.default_rng(0)
    b = (rng.random((500, 3)) < 0.7).astype(float)
    return rng.random((500, 3)) * b * (rng.random((500, 3)) < 0.5), b


def users_of(draw, population):
    return [drawn(np.uint64(base_of(SEED, draw)), i, population) for i in range(USERS)]


def models(a, users, scenario):
    rows = np.array([row for row, _, _ in users])
    factors = np.array([factor_of(uniform, *scenario) for _, _, uniform in users])
    return a[rows], a[rows] * factors[:, None]


def test_moments_and_comparisons_are_those_of_loops(population):
    a, b = population
    moments, pairs = draw_sums(a, b, USERS, DRAWS, SEED, SCENARIOS)
    for draw in range(DRAWS):
        users = users_of(draw, len(a))
        x, y = models(a, users, SCENARIOS[0])[0], b[[row for row, _, _ in users]]
        want = [(y > 0), (x > 0), x, y, x * x, x * y, y * y]
        np.testing.assert_allclose(moments[draw, :7], [one.sum(axis=0) for one in want], rtol=1e-12)
        bucket = np.array([g for _, g, _ in users])
        assert (moments[draw, 7] == [len(set(bucket[y[:, c] > 0])) for c in range(3)]).all()
        for s, scenario in enumerate(SCENARIOS):
            _, other = models(a, users, scenario)
            for c in range(3):
                sums = [
                    np.bincount(bucket, one[:, c], minlength=BUCKETS).astype(float) for one in (x, other, y)
                ]  # fmt: skip
                total = sums[2].sum()
                values = np.array([sums[0].sum(), sums[1].sum()]) / total
                errors = np.array([(sums[m] - values[m] * sums[2]) / total for m in range(2)])
                both = np.array([[x[:, c].sum(), other[:, c].sum()]])
                squares = np.array([[(x[:, c] ** 2).sum(), (other[:, c] ** 2).sum()]])
                direct = compare_groups(
                    values[None], errors[None], np.array([(sums[2] > 0).sum()]), np.array([(y[:, c] > 0).sum()]),
                    confidence=0.95, margin=0.01, power=0.8, hits=hit_size(both, np.full((1, 2), total), squares),
                )  # fmt: skip
                found = pair_of(moments[[draw], :, c], pairs[[draw], s, :, c])
                for name in ("p", "p_no_worse_first", "p_no_worse_second", "users_needed", "users_equivalent"):
                    got, wanted = getattr(found, name)[0, 0], getattr(direct, name)[0, 0]
                    assert got == pytest.approx(wanted, rel=1e-6, abs=1e-12, nan_ok=True)


def test_models_that_no_user_tells_apart_have_no_error_of_their_difference():
    found = compared(
        np.full((1, 2), 0.3), np.array([[0.01, 0.0, 0.0]]), np.array([50.0]), np.array([90.0]), np.ones((1, 2))
    )
    assert found.standard_error[0, 0] == 0
    assert found.p[0, 0] == 1


def test_sums_by_unit_and_stratum(population):
    a, _ = population
    sums, more, some, squares = unit_sums(a, USERS, DRAWS, SEED, SCENARIOS)
    stratum = (np.arange(len(a)) % 4).astype(np.int64)
    for draw in range(DRAWS):
        users = users_of(draw, len(a))
        counts, of_strata, squared = stratum_sums(stratum, a[:, 0].copy(), 4, USERS, draw, SEED, SCENARIOS)
        unit, own = np.array([g % UNITS for _, g, _ in users]), stratum[[row for row, _, _ in users]]
        place = unit * 4 + own
        assert (counts.ravel() == np.bincount(place, minlength=UNITS * 4)).all()
        for s, scenario in enumerate(SCENARIOS):
            x, other = models(a, users, scenario)
            for c in range(3):
                by_unit = [np.bincount(unit, one[:, c], minlength=UNITS) for one in (x, other - x)]
                np.testing.assert_allclose(sums[draw, c], by_unit[0], atol=1e-12)
                np.testing.assert_allclose(more[draw, s, c], by_unit[1], atol=1e-12)
            np.testing.assert_allclose(some[draw], (x > 0).sum(axis=0))
            np.testing.assert_allclose(squares[draw, [0, 1 + s]], [(x**2).sum(axis=0), (other**2).sum(axis=0)])
            want = [np.bincount(place, w[:, 0], minlength=UNITS * 4) for w in (other, other**2)]
            np.testing.assert_allclose([of_strata[1 + s].ravel(), squared[1 + s].ravel()], want, atol=1e-12)


def test_worse_models_have_their_ratio_on_average():
    uniform = (np.arange(100_000) + 0.5) / 100_000
    for ratio, wins in SCENARIOS:
        factors = np.array([factor_of(u, ratio, wins) for u in uniform])
        assert factors.mean() == pytest.approx(ratio, abs=1e-4)
        assert (factors == 2).mean() == pytest.approx(wins, abs=1e-4)
