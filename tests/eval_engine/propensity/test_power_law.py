"""The power-law fit against the package powerlaw, against mpmath where the package loses precision, and the exact one
against a search of the likelihood itself.
"""

import warnings
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eval_engine
from eval_engine.errors import DataError
from eval_engine.propensity.power_law import fit_power_law, power_law
from eval_engine.propensity.power_legacy import power_legacy

COUNTS = st.lists(st.integers(0, 60), min_size=3, max_size=25).filter(lambda n: len({x for x in n if x}) >= 2)


def made_counts(seed: int, alpha: float, largest: int, n_items: int = 2_000) -> np.ndarray:
    """Counts of a discrete power law above 12 or so, and flatter below it."""
    rng = np.random.default_rng(seed)
    tail = np.floor(12 * (1 - rng.random(n_items)) ** (-1 / (alpha - 1)))
    body = rng.integers(0, 14, n_items // 2)
    return np.minimum(np.concatenate([tail, body]), largest).astype(np.int64)


def by_package(counts: np.ndarray) -> Any:
    import powerlaw

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return powerlaw.Fit(counts[counts > 0], discrete=True, estimate_discrete=True, verbose=False)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [1.7, 2.4, 3.5])
def test_equals_the_package(seed: int, alpha: float) -> None:
    counts = made_counts(seed, alpha, 10_000)
    ours, theirs = power_law(counts), by_package(counts)
    assert ours.xmin == theirs.xmin
    assert ours.alpha == pytest.approx(theirs.alpha, rel=1e-6)
    assert ours.ks == pytest.approx(theirs.D, rel=1e-6)


def zeta(s: Any, q: int) -> Any:
    """zeta(s, q) by 30 terms, and 12 of the series of Euler and Maclaurin: mpmath's own loses digits for s near q."""
    a, s = mpmath.mpf(q + 30), mpmath.mpf(s)
    rest = a / (s - 1) + mpmath.mpf(1) / 2
    for j in range(1, 13):
        rest += mpmath.bernoulli(2 * j) / mpmath.factorial(2 * j) * mpmath.rf(s, 2 * j - 1) / a ** (2 * j - 1)
    return mpmath.fsum(mpmath.mpf(q + k) ** -s for k in range(30)) + a**-s * rest


def by_loops(counts: list[int]) -> dict[int, tuple[float, float]]:
    """KS and alpha of the closed form for each xmin, by loops over the formula; zeta by its series."""
    values = sorted({x for x in counts if x > 0})
    tried = {}
    for xmin in values[:-1]:
        tail = [x for x in counts if x >= xmin]
        alpha = 1 + len(tail) / mpmath.fsum(mpmath.log(x / (xmin - mpmath.mpf(1) / 2)) for x in tail)
        at_xmin = zeta(alpha, xmin)
        gaps = [abs(sum(y < x for y in tail) / len(tail) - 1 + zeta(alpha, x) / at_xmin) for x in values if x >= xmin]
        tried[xmin] = float(max(gaps)), float(alpha)
    return tried


@settings(max_examples=30, deadline=None)
@given(COUNTS)
def test_equals_loops_over_the_formula(counts: list[int]) -> None:
    tried, law = by_loops(counts), power_law(counts)
    assert (law.ks, law.alpha) == pytest.approx(tried[law.xmin], rel=1e-9)
    assert all(ks > law.ks - 1e-12 for ks, _ in tried.values())  # it is the least
    assert all(ks > law.ks - 1e-15 for xmin, (ks, _) in tried.items() if xmin < law.xmin)  # and the first of equals
    assert law.n_tail == sum(x >= law.xmin for x in counts)


@pytest.mark.parametrize(
    "counts",
    [
        [1_000_000 + k for k in (0, 0, 0, 0, 1, 1, 2, 3, 5, 40)] + [3, 9, 20, 500, 8_000, 2_000_000_000],
        [1_000_000] * 900 + [1_000_001] * 2,  # alpha near 2 xmin
        [10**k for k in range(12)] + [7 * 10**k for k in range(9)],
    ],
)
def test_large_counts_equal_sums_of_60_digits(counts: list[int]) -> None:
    """Counts of millions and more, where the zeta of doubles is 0."""
    with mpmath.workdps(60):
        tried = by_loops(counts)
    law = power_law(counts)
    assert law.xmin == min(tried, key=lambda xmin: tried[xmin])
    assert (law.ks, law.alpha) == pytest.approx(tried[law.xmin], rel=1e-8)


def log_likelihood(tail: np.ndarray, alpha: float, xmin: int) -> float:
    return float(-tail.size * mpmath.log(zeta(alpha, xmin)) - alpha * mpmath.fsum(mpmath.log(int(x)) for x in tail))


@pytest.mark.parametrize("counts", [made_counts(3, 2.2, 4_000, 300), np.array([1, 1, 1, 1, 2]), np.array([5, 9] * 9)])
def test_the_exact_fit_has_the_largest_likelihood(counts: np.ndarray) -> None:
    law = power_law(counts, method="exact")
    tail = counts[counts >= law.xmin]
    assert law.n_tail == tail.size
    with mpmath.workdps(30):
        low, high = 1.000001, 60.0
        for _ in range(45):  # by thirds: the likelihood is concave in alpha
            a, b = low + (high - low) / 3, high - (high - low) / 3
            if log_likelihood(tail, a, law.xmin) < log_likelihood(tail, b, law.xmin):
                low = a
            else:
                high = b
    assert law.alpha == pytest.approx((low + high) / 2, rel=1e-6)


def test_a_drawn_law_is_recovered_by_the_exact_fit() -> None:
    rng = np.random.default_rng(1)
    counts = rng.zipf(2.3, 40_000)
    law = power_law(counts, method="exact")
    assert law.alpha == pytest.approx(2.3, abs=0.03)
    assert law.xmin <= 3


def test_giving_up_early_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    laws = [power_law(made_counts(seed, 2.0, 10_000)) for seed in range(4)]
    monkeypatch.setattr("eval_engine.propensity.power_law.COARSE", 10**9)
    assert laws == [power_law(made_counts(seed, 2.0, 10_000)) for seed in range(4)]


def test_distinct_counts_and_numbers_say_the_same() -> None:
    counts = made_counts(9, 2.1, 5_000)
    values, numbers = np.unique(counts, return_counts=True)
    assert fit_power_law(values, numbers) == power_law(counts) == eval_engine.power_law(counts)


def test_propensities_are_scaled_and_undefined_for_items_never_logged() -> None:
    law = power_law(made_counts(2, 2.0, 1_000))
    n = np.array([0, 1, 10, law.largest])
    np.testing.assert_allclose(
        law.propensity(n), [np.nan, *((n[1:] / law.largest) ** ((law.alpha + 1) / 2))], rtol=1e-12
    )
    np.testing.assert_allclose(law.propensity(n, gamma=1.0)[1:], n[1:] / law.largest, rtol=1e-12)
    legacy = power_legacy(n, 1.5, 10, 1_000)
    np.testing.assert_allclose(legacy, [np.nan, 1000**-1.5, 10 * 1000**-1.5, 1.0], rtol=1e-12)
    np.testing.assert_allclose(power_legacy([3, 10], 1.5, 10, 10), [0.3, 1.0], rtol=1e-12)  # no count above xmin


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([], "0 different counts above 0"),
        ([0, 0, 7, 7], "1 different counts above 0, but a power law is fitted to two or more. Give gamma"),
        ([1, -2], "-2 is below 0"),
        ([1.5, 2], "1.5 is not a whole number"),
        ([1.0, float("nan")], "nan is not a whole number"),
    ],
)
def test_bad_counts_are_named(counts: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        power_law(counts)


def test_a_propensity_of_zero_is_an_error() -> None:
    law = power_law([1_000] * 90 + [1_001])
    with pytest.raises(DataError, match=r"items with 1 logged pairs get a propensity of 0 with gamma = \d+"):
        law.propensity([1, 1_001])


def test_an_unknown_method_is_an_error() -> None:
    with pytest.raises(ValueError, match="method 'zipf' is not known: closed_form, exact"):
        power_law([1, 2, 3], method="zipf")  # type: ignore[arg-type]
