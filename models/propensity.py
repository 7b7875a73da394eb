"""The probability that an item was shown, estimated from its number of logged pairs.

    p_i = max(floor, (n_i / max_j n_j) ** power)        [simpson] eq. 7 with power = (gamma + 1) / 2, scaled to max 1

An item that was never logged has p_i = floor. power = 0: p_i = 1 for all.
"""

import numpy as np
import numpy.typing as npt

from models.spec.losses import PopularityPropensity

Floats = npt.NDArray[np.float64]


def item_propensity(counts: npt.NDArray[np.int64], spec: PopularityPropensity) -> Floats:
    """p_i of each item, shape (n_items,)."""
    return np.maximum(spec.floor, (counts / max(counts.max(), 1)) ** spec.power)


def inverse_weights(propensity: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """1 / p_i, scaled so that the mean over logged pairs is 1: the learning rate keeps its scale."""
    weights = 1 / propensity
    return weights * (counts.sum() / (counts @ weights))
