"""Agreement between two sets of model values over a panel of models.

    pearson     correlation of the values: do the distances between models agree?
    kendall     tau-b = (C - D) / sqrt((P - T_x)(P - T_y)): does the order agree?
                C, D: pairs in the same and in opposite order, P: all pairs, T: pairs tied in one
    n_flipped   D: pairs of models that the two sets put in strictly opposite order

Models without a value in one of the two (NaN) are left out. Undefined, with a reason: fewer than 3 models, or all
models with the same value.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import kendalltau, pearsonr

from eval_engine.kernels.arrays import Floats

FEWEST = 3  # two models always agree perfectly, or not at all


class Agreement(NamedTuple):
    """Agreement between two sets of values of the same models."""

    n_models: int  # with a value in both
    n_flipped: int
    pearson: float
    kendall: float
    reason: str | None  # why there is no correlation


def agreement(x: Floats, y: Floats) -> Agreement:
    """The agreement between x and y, each with one value per model."""
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    n = x.size
    flipped = int((np.sign(x[:, None] - x) * np.sign(y[:, None] - y) < 0).sum()) // 2
    reason = None
    if n < FEWEST:
        reason = (
            f"{n} {'model has' if n == 1 else 'models have'} both values, "
            f"but a correlation says something of {FEWEST} or more"
        )
    elif (x == x[0]).all() or (y == y[0]).all():
        reason = "all models have the same value in one of the two"
    if reason:
        return Agreement(n, flipped, math.nan, math.nan, reason)
    pearson = float(pearsonr(x, y).statistic)
    return Agreement(n, flipped, min(max(pearson, -1.0), 1.0), float(kendalltau(x, y).statistic), None)
