"""The zeta function against sums of 40 digits, over the whole range that counts can ask for.

mpmath's own zeta(s, q) is no oracle for s near q: at s = 901, q = 9999 its relative error is 1e-9, with 40 digits.
"""

import mpmath
import numpy as np
import pytest

from eval_engine.propensity.zeta import scaled_log_zeta

TERMS = 500


def by_terms(s: float, q: float) -> float:
    """ln(q^s zeta(s, q)): 500 terms, and 12 of the series of Euler and Maclaurin for the rest."""
    with mpmath.workdps(40):
        s, q = mpmath.mpf(s), mpmath.mpf(q)
        a = q + TERMS
        rest = a / (s - 1) + mpmath.mpf(1) / 2
        for j in range(1, 13):
            rest += mpmath.bernoulli(2 * j) / mpmath.factorial(2 * j) * mpmath.rf(s, 2 * j - 1) / a ** (2 * j - 1)
        return float(mpmath.log(mpmath.fsum((q / (q + k)) ** s for k in range(TERMS)) + (q / a) ** s * rest))


@pytest.mark.parametrize("q", [1.0, 2.0, 7.0, 31.0, 100.0, 9_999.0, 1e6, 1e9])
def test_equals_a_sum_of_many_digits(q: float) -> None:
    for s in (1.0001, 1.5, 2.5, 14.0, *(1 + ratio * min(q, 3_000.0) for ratio in (0.01, 0.3, 1.0, 2.0, 5.0, 30.0))):
        np.testing.assert_allclose(scaled_log_zeta(s, q), by_terms(s, q), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("s", "q"), [(1.5, 1.0), (2.0, 1.0), (3.7, 12.0)])
def test_equals_mpmath_where_that_is_exact(s: float, q: float) -> None:
    assert scaled_log_zeta(s, q) - s * np.log(q) == pytest.approx(float(mpmath.log(mpmath.zeta(s, q))), rel=1e-13)


def test_arrays_of_both_regimes_equal_their_scalars() -> None:
    s, q = np.array([1.2, 3.0, 40.0, 900.0]), np.array([1.0, 500.0, 3.0, 1e6])
    one_by_one = [float(scaled_log_zeta(a, b)) for a, b in zip(s, q, strict=True)]
    np.testing.assert_allclose(scaled_log_zeta(s, q), one_by_one, rtol=1e-15)
