"""Propensities from the logits of items and users, as logistic regression (logistic.py) stores them."""

import numpy as np
import numpy.typing as npt


def of_logits(item: npt.ArrayLike, user: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The propensity of pairs from the logits of their items and users.

    >>> of_logits([-2.0, 0.0], [2.0, -1000.0]).tolist()
    [0.5, 0.0]
    """
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-(np.asarray(item, float) + np.asarray(user, float))))
