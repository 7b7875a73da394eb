"""Propensities from popularity as the published tables of [simpson] have them, which is not its eq. 7:

    power_legacy    p_i ~ n_i^alpha for n_i > xmin,  n_i for n_i <= xmin

scaled so that the largest propensity is 1; alpha and xmin of the fit (power_law.py), or given. An item that was never
logged has no propensity: NaN.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.propensity.power_law import Doubles, as_propensity, whole_counts


def power_legacy(n: npt.ArrayLike, alpha: float, xmin: int, largest: int) -> Doubles:
    """n^alpha above xmin, n up to it, scaled to 1 at the largest count.

    >>> power_legacy([0, 2, 4, 8], 2.0, 4, largest=8).round(5).tolist()
    [nan, 0.03125, 0.0625, 1.0]
    """
    counts = whole_counts(n)
    log_n, log_largest = np.log(np.maximum(counts, 1)), np.log(largest)
    top = log_largest * (alpha if largest > xmin else 1)
    return as_propensity(counts, log_n * np.where(counts > xmin, alpha, 1) - top, f"alpha = {alpha:g}")
