"""Means of the logged values.

    global_average    s_i = m,  m = mean of all logged values
    average_rating    s_i = (sum_{u: (u, i) logged} r_ui + damping * m) / (n_i + damping)

n_i is the number of the item's logged pairs. An item without logged pairs has m, whatever the damping. Without any
logged pair the mean is undefined: a DataError.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.errors import DataError
from models.logged import Logged

Floats = npt.NDArray[np.float64]


def global_average(logged: Logged) -> Floats:
    """The mean of all logged values, once per item, shape (n_items,)."""
    return np.full(logged.n_items, _mean(logged))


def average_rating(logged: Logged, damping: float) -> Floats:
    """The damped mean of each item's values, shape (n_items,)."""
    mean = _mean(logged)
    sums = np.bincount(logged.items, weights=logged.values, minlength=logged.n_items) + damping * mean
    sizes = logged.item_counts() + damping
    return np.divide(sums, sizes, out=np.full(logged.n_items, mean), where=logged.item_counts() > 0)


def _mean(logged: Logged) -> float:
    """The mean of all logged values."""
    if not len(logged.values):
        raise DataError(
            f"feedback: 0 logged pairs of {logged.n_items:,} items, so the mean value is undefined. "
            "Check the feedback, or use kind: random."
        )
    return float(logged.values.mean())
