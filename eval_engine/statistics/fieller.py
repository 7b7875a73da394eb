"""An interval of the ratio of two estimates, by Fieller [1954].

    r = A / B,    {r : (A - r B)^2 <= c^2 (var A - 2 r cov + r^2 var B)}

It holds A - r B against c times its standard error, at each r: so an interval that lies above 0.99 is the same
statement as "A is not below 0.99 B". c is the quantile of the confidence, or that of a confidence sequence. Where B is
not above 0 by c standard errors, the set has no ends, and neither is known (NaN).
"""

import math
from typing import NamedTuple


class Moments(NamedTuple):
    """Two estimates, their variances and their covariance; 0 for estimates from different users."""

    a: float
    b: float
    variance_a: float
    variance_b: float
    covariance: float = 0.0


def ratio_interval(of: Moments, c: float) -> tuple[float, float]:
    """The ends of the interval of a / b; NaN where they are not known.

    >>> low, high = ratio_interval(Moments(1.1, 1.0, 0.01**2, 0.01**2), 1.96)
    >>> round(low, 4), round(high, 4)
    (1.0713, 1.1296)
    """
    square = c * c
    leading = of.b**2 - square * of.variance_b
    if not (leading > 0 and of.b > 0):
        return math.nan, math.nan
    middle = of.a * of.b - square * of.covariance
    spread = middle**2 - leading * (of.a**2 - square * of.variance_a)
    if math.isnan(spread):
        return math.nan, math.nan
    width = math.sqrt(max(spread, 0.0))  # below 0 only by rounding, or by a covariance that no variances have
    return (middle - width) / leading, (middle + width) / leading
