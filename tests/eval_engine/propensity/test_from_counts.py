"""Propensities of counts, their weights, and their calibration, from a histogram of items."""

import numpy as np
import pytest

from eval_engine.errors import DataError
from eval_engine.propensity.calibration import calibration
from eval_engine.propensity.from_counts import fit_counts
from eval_engine.propensity.item_counts import Histogram
from eval_engine.propensity.power_law import power_law
from eval_engine.propensity.settings import Power, PowerLegacy


def items_with(
    counts: list[int], n_items: list[int], positives: list[int], random: list[int], heldout: list[int] | None = None
) -> Histogram:
    """Items by count; all held-out pairs are positives unless given."""
    n = np.array(heldout or positives)
    none, zero = np.full(len(counts), np.nan), np.zeros(len(counts), np.int64)
    return Histogram(
        np.array(counts),
        np.arange(len(counts)) + int(counts[0] > 0),  # a group for each count
        np.array(counts),
        np.array(counts),
        np.array(n_items),
        n,
        np.array(positives),
        none,
        none,
        none,
        none,
        zero,
        np.array(random),
        np.array(random, float),
        np.minimum(n, n_items),
        tuple("i7" if k else None for k in n),
    )


def test_fitted_or_given() -> None:
    items = items_with([0, 1, 3, 9], [5, 20, 4, 1], [0, 3, 3, 3], [0, 0, 0, 0])
    law = power_law([1] * 20 + [3] * 4 + [9])
    assert fit_counts(items, Power(method="power")).parameters == {
        "alpha": law.alpha,
        "xmin": law.xmin,
        "ks": law.ks,
        "n_tail": law.n_tail,
        "gamma": law.alpha,
    }
    given = fit_counts(items, Power(method="power", gamma=1.0))
    np.testing.assert_allclose(given.propensity(items.counts, items.heldout), [np.nan, 1 / 9, 3 / 9, 1])
    np.testing.assert_allclose(given.weights(items), [[0, 27, 9, 3], [0, 243, 27, 3]])
    legacy = fit_counts(items, PowerLegacy(method="power_legacy", alpha=2.0, xmin=3))
    np.testing.assert_allclose(legacy.propensity(items.counts, items.heldout), [np.nan, 1 / 81, 3 / 81, 1])


def test_items_that_were_never_counted() -> None:
    items = items_with([0, 2, 4], [5, 20, 4], [3, 3, 3], [0, 0, 0])
    with pytest.raises(DataError, match=r"3 items with 3 held-out pairs have no training pair \(first: item_id=i7\)"):
        fit_counts(items, Power(method="power", gamma=1.0, counts="train"))
    once = fit_counts(items, Power(method="power", gamma=1.0, counts="train", unseen="once"))
    np.testing.assert_allclose(once.propensity(items.counts, items.heldout), [0.25, 0.5, 1.0])
    np.testing.assert_allclose(once.propensity(np.array([0]), np.array([0])), [np.nan])
    with pytest.raises(DataError, match="no pair of it is counted"):
        fit_counts(items_with([0], [5], [0], [0]), Power(method="power", gamma=1.0))


def test_right_propensities_bring_the_shares_of_random_exposure() -> None:
    """Items are logged in proportion to their count, positives are the same everywhere: p ~ count is right."""
    counts, n_items = [1, 2, 5, 10, 100], [100, 100, 100, 100, 100]
    positives = [10 * n for n in counts]  # of 100 items each, as many as they were logged
    items = items_with(counts, n_items, positives, random=[40, 40, 40, 40, 40])
    right = calibration(items, *fit_counts(items, Power(method="power", gamma=1.0)).weights(items))
    assert right.distance_weighted == pytest.approx(0.0, abs=1e-12)
    assert right.distance_heldout == pytest.approx(sum(abs(n / sum(counts) - 0.2) for n in counts) / 2)
    wrong = calibration(items, *fit_counts(items, Power(method="power", gamma=4.0)).weights(items))
    assert wrong.distance_weighted is not None
    assert wrong.distance_weighted > 0.1


def test_noise_is_what_true_propensities_give_by_chance() -> None:
    """Many draws of held-out and random positives of five groups of items, p known."""
    rng = np.random.default_rng(7)
    p, positives = np.array([0.01, 0.03, 0.1, 0.3, 0.9]), np.array([4000, 3000, 2000, 600, 200])
    distances, noises = [], []
    for _ in range(300):
        held, random = rng.binomial(positives, p), rng.binomial(positives, 0.05)
        items = items_with([1, 2, 3, 4, 5], [9] * 5, held.tolist(), random.tolist())
        result = calibration(items, held / p, held / p**2)
        distances.append(result.distance_weighted)
        noises.append(result.distance_noise)
    assert np.mean(noises) == pytest.approx(np.mean(distances), rel=0.1)


def test_items_never_logged_are_group_0_and_out_of_reach() -> None:
    items = items_with([0, 1, 2], [10, 5, 5], [0, 4, 4], random=[30, 10, 10])
    result = calibration(items, np.array([0.0, 8.0, 4.0]), np.array([0.0, 16.0, 4.0]))
    first = result.groups[0]
    assert (first.group, first.n_items, first.random_share) == (0, 10, 0.6)
    assert sum(row.weighted_share or 0 for row in result.groups) == pytest.approx(1)
    assert result.distance_weighted is not None
    assert result.distance_weighted >= 0.6


def test_without_random_exposure_there_is_nothing_to_hold_against() -> None:
    items = items_with([1, 2], [5, 5], [4, 4], random=[0, 0])
    result = calibration(items, np.array([8.0, 4.0]), np.array([16.0, 4.0]))
    assert (result.distance_heldout, result.distance_weighted, result.distance_noise) == (None, None, None)
    assert [row.random_share for row in result.groups] == [None, None]
