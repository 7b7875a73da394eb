"""p-values adjusted for their number: one family, in which p_(1) <= .. <= p_(n).

    Holm                 p~_(k) = max_{l <= k} min(1, (n - l + 1) p_(l))
                         bounds the chance of one false discovery or more [Holm 1979]
    Benjamini-Hochberg   p~_(k) = min_{l >= k} min(1, n p_(l) / l)
                         bounds the share of discoveries that are false [Benjamini, Hochberg 1995]

Holm holds whatever the dependence; Benjamini-Hochberg if the tests are independent or positively dependent. NaN stays
NaN and is not counted in n.
"""

import numpy as np

from eval_engine.kernels.arrays import Bools, Floats


def holm(p: Floats) -> Floats:
    """Adjusted p-values that hold the family-wise error rate."""
    p, known = _family(p)
    some = p[known]
    order = np.argsort(some, kind="stable")
    steps = np.maximum.accumulate(some[order] * np.arange(some.size, 0, -1))
    some[order] = np.minimum(steps, 1.0)
    p[known] = some
    return p


def benjamini_hochberg(p: Floats) -> Floats:
    """Adjusted p-values that hold the false discovery rate."""
    p, known = _family(p)
    some = p[known]
    order = np.argsort(-some, kind="stable")
    steps = np.minimum.accumulate(
        some[order] / (np.arange(some.size, 0, -1) / some.size)
    )  # scipy.stats has this function, but importing it takes a worker one second
    some[order] = np.minimum(steps, 1.0)
    p[known] = some
    return p


def _family(p: Floats) -> tuple[Floats, Bools]:
    """A copy of the p-values, and a mask of those that are not NaN."""
    p = np.array(p, np.float64)
    if p.ndim != 1:
        raise ValueError(f"a list of p-values is expected, found shape {p.shape}")
    for n in np.flatnonzero((p < 0) | (p > 1))[:1]:
        raise ValueError(f"p-value {n} is {p[n]}: it must be between 0 and 1, or NaN")
    return p, ~np.isnan(p)
