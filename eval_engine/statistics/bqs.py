"""BQS, the balanced quality score: what a debiasing method gains for rare items, less what it costs overall [bqs] eq.
12.

    BQS = sigmoid(Phi(d) + Phi(d_L))        d = Q(debiased) - Q(baseline), d_L the same of rare items
    Phi(x) = x for x >= 0, else x - (a x)^2

Q is a quality between 0 and 1, such as the hit rate, and a says how much a loss is punished: 10 for hit rate and
recall, 2 for nDCG. A baseline against itself has 0.5; the largest value is sigmoid(2) = 0.881. Phi punishes losses, so
noise lowers BQS: without any effect, and with standard error 0.05 of d_L, it is 0.471 on average.
"""

from typing import overload

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@overload
def bqs(
    quality: float, baseline_quality: float, low_quality: float, baseline_low_quality: float, a: float
) -> float: ...


@overload
def bqs(
    quality: Floats, baseline_quality: Floats, low_quality: Floats, baseline_low_quality: Floats, a: float
) -> Floats: ...


def bqs(
    quality: float | Floats,
    baseline_quality: float | Floats,
    low_quality: float | Floats,
    baseline_low_quality: float | Floats,
    a: float,
) -> float | Floats:
    """The score, of numbers or of arrays of one shape; NaN where a quality is NaN.

    >>> round(bqs(0.1951, 0.2551, 0.02, 0.0, a=10), 3), bqs(0.3, 0.3, 0.1, 0.1, a=2)
    (0.401, 0.5)
    """
    if not a >= 0:
        raise ValueError(f"a must be 0 or more, found {a}")
    d, low = np.subtract(quality, baseline_quality), np.subtract(low_quality, baseline_low_quality)
    found: Floats = np.asarray(1 / (1 + np.exp(-(punished(d, a) + punished(low, a)))))
    return found if found.ndim else float(found)


def punished(x: npt.ArrayLike, a: float) -> Floats:
    """Phi."""
    given = np.asarray(x, np.float64)
    return np.where(given < 0, given - (a * given) ** 2, given)
