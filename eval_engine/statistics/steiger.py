"""The difference of two dependent correlations: do y and z agree equally well with x, over the same n models?

    t   = (r_xy - r_xz) sqrt((n - 1)(1 + r_yz) / (2 (n - 1)/(n - 3) |R| + ((r_xy + r_xz)/2)^2 (1 - r_yz)^3))
    |R| = 1 - r_xy^2 - r_xz^2 - r_yz^2 + 2 r_xy r_xz r_yz          n - 3 degrees of freedom

Williams' T2, which [Steiger 1980] recommends. p is two-sided; p_one_sided = P(T > |t|), half of it, is what the code
of [simpson] reports. The test is made for Pearson's correlation. Applied to Kendall's tau it is far too conservative:
below 0.3 % of true null hypotheses are rejected at a nominal 5 %. agreement.py has a jackknife over models for tau.

Undefined is NaN: fewer than 4 models, or t = 0 / 0 (y = -z). y = z, or equal correlations, have t = 0 and p = 1.
"""

import math
from typing import NamedTuple

from scipy.special import stdtr

ROUNDING = 1e-9  # of |R|, which is 0 or more for correlations of one sample


class Steiger(NamedTuple):
    """A test of r_xy = r_xz."""

    t: float  # above 0: x agrees better with y than with z
    p: float  # two-sided
    p_one_sided: float
    degrees: int


def steiger(r_xy: float, r_xz: float, r_yz: float, n: int) -> Steiger:
    """The test for correlations of x with y, x with z, and y with z over n models.

    >>> test = steiger(0.4, 0.5, 0.1, 103)
    >>> f"{test.t:.2f} {test.p:.2f}"
    '-0.89 0.37'
    """
    for name, r in (("r_xy", r_xy), ("r_xz", r_xz), ("r_yz", r_yz)):
        if not (math.isnan(r) or -1 - ROUNDING <= r <= 1 + ROUNDING):
            raise ValueError(f"{name} is {r}: a correlation is between -1 and 1")
    determinant = 1 - r_xy**2 - r_xz**2 - r_yz**2 + 2 * r_xy * r_xz * r_yz
    if determinant < -ROUNDING:
        raise ValueError(
            f"no three variables have the correlations r_xy={r_xy}, r_xz={r_xz}, r_yz={r_yz} in one sample: their "
            f"determinant is {determinant:.3g}, below 0. Give correlations over the same models."
        )
    degrees = max(n - 3, 0)
    if n < 4 or math.isnan(determinant):
        return Steiger(math.nan, math.nan, math.nan, degrees)
    mean = (r_xy + r_xz) / 2
    below = 2 * (n - 1) / (n - 3) * max(determinant, 0.0) + mean**2 * (1 - r_yz) ** 3
    above = (n - 1) * max(1 + r_yz, 0.0)
    difference = r_xy - r_xz
    if difference == 0:
        t = 0.0
    elif below > 0:
        t = difference * math.sqrt(above / below)
    else:
        t = math.nan if above == 0 else math.copysign(math.inf, difference)
    tail = float(stdtr(degrees, -abs(t)))
    return Steiger(t, 2 * tail, tail, degrees)
