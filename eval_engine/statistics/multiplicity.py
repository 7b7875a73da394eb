"""p-values adjusted for their number: one family, in which p_(1) <= .. <= p_(n).

    Holm                 p~_(k) = max_{l <= k} min(1, (n - l + 1) p_(l))
                         bounds the chance of one false discovery or more [Holm 1979]
    Benjamini-Hochberg   p~_(k) = min_{l >= k} min(1, n p_(l) / l)
                         bounds the share of discoveries that are false [Benjamini, Hochberg 1995]

Holm holds whatever the dependence; Benjamini-Hochberg if the tests are independent or positively dependent. NaN stays
NaN and is not counted in n.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Floats


def holm(p: Floats) -> Floats:
    """Adjusted p-values that hold the family-wise error rate; of several families, (n_families, n)."""
    p = _checked(p)
    order = np.argsort(p, axis=-1, kind="stable")  # NaN last
    rest = (~np.isnan(p)).sum(axis=-1, keepdims=True) - np.arange(p.shape[-1])
    steps = np.maximum.accumulate(np.take_along_axis(p, order, -1) * rest, axis=-1)
    return _back(np.minimum(steps, 1.0), order, p)


def benjamini_hochberg(p: Floats) -> Floats:
    """Adjusted p-values that hold the false discovery rate; of several families, (n_families, n)."""
    p = _checked(p)
    known = (~np.isnan(p)).sum(axis=-1, keepdims=True)
    order = np.argsort(-p, axis=-1, kind="stable")
    place = np.maximum(known - np.arange(p.shape[-1]), 1) / np.maximum(known, 1)
    # scipy.stats has this function, but importing it takes a worker one second
    steps = np.minimum.accumulate(np.take_along_axis(p, order, -1) / place, axis=-1)
    return _back(np.minimum(steps, 1.0), order, p)


def _checked(p: Floats) -> Floats:
    p = np.asarray(p, np.float64)
    if p.ndim not in (1, 2):
        raise ValueError(f"a list of p-values, or one for each family, is expected, found shape {p.shape}")
    for place in np.argwhere((p < 0) | (p > 1))[:1]:
        raise ValueError(
            f"p-value {', '.join(map(str, place))} is {p[tuple(place)]}: it must be between 0 and 1, or NaN"
        )
    return p


def _back(adjusted: Floats, order: npt.NDArray[np.int64], p: Floats) -> Floats:
    """In the order of the p-values that were sorted; NaN where they are."""
    found = np.empty(p.shape)
    np.put_along_axis(found, order, adjusted, -1)
    return np.where(np.isnan(p), np.nan, found)
