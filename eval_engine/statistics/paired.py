"""Ratios of several models over the same buckets of users, and the covariance of their errors.

    R_m   = sum_g A_mg / sum_g B_mg                   A, B: numerators and denominators, summed over users of bucket g
    e_mg  = (A_mg - R_m B_mg) / sum_g B_mg            what bucket g adds to R_m, linearised (delta method);
                                                      sum_g e_mg = 0
    cov   = G / (G - 1) * E E^T                       G buckets that contribute: b > 0 for some defined model

A bucket is a hash of the user, so buckets are independent, and variation that two models share cancels: comparison.py.

Undefined is NaN: a model without denominators, or with a numerator that is NaN, has neither value nor errors, and does
not affect other models; with fewer than two buckets nothing has a standard error. A numerator over denominator 0 is
left out, as in ratio.py.
"""

import math
from typing import NamedTuple

import numpy as np

from eval_engine.kernels.arrays import Floats


class Paired(NamedTuple):
    """The ratios of models, and the linearised error of each bucket."""

    values: Floats  # (n_models,)
    errors: Floats  # (n_models, n_buckets)
    n_units: int  # buckets that contribute

    @property
    def covariance(self) -> Floats:
        """Covariance of the values, shape (n_models, n_models)."""
        return _inflation(self.n_units) * (self.errors @ self.errors.T)


def paired(a: Floats, b: Floats) -> Paired:
    """The ratios and errors of these sums, each of shape (n_models, n_buckets)."""
    a, b = bucket_sums(a, b)
    return paired_groups(a[None], b[None])[0]


def paired_groups(a: Floats, b: Floats) -> list[Paired]:
    """The same of several groups of models, (n_groups, n_models, n_buckets)."""
    shape, rows = a.shape, (a.shape[0] * a.shape[1], a.shape[2])
    a, b = (x.reshape(shape) for x in bucket_sums(a.reshape(rows), b.reshape(rows)))
    total = b.sum(axis=2)
    defined = (total > 0) & ~np.isnan(a).any(axis=2)
    total = np.where(defined, total, np.nan)
    values = a.sum(axis=2) / total
    errors = (a - values[:, :, None] * b) / total[:, :, None]
    units = ((b > 0) & defined[:, :, None]).any(axis=1).sum(axis=1)
    return [Paired(*one) for one in zip(values, errors, units.tolist(), strict=True)]


def bucket_sums(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Numerators and denominators of (n_models, n_buckets), checked; a numerator over denominator 0 is 0, or NaN if it
    is.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(
            f"a numerator and a denominator per model and bucket are expected, found shapes {a.shape} and {b.shape}"
        )
    for m, g in np.argwhere(np.isinf(a) | ~np.isfinite(b) | (b < 0))[:1]:
        raise ValueError(
            f"bucket {g} of model {m} has numerator {a[m, g]} and denominator {b[m, g]}: neither may be infinite, nor "
            "the denominator NaN or negative"
        )
    return np.where((b > 0) | np.isnan(a), a, 0.0), b


def _inflation(n_units: int) -> float:
    return n_units / (n_units - 1) if n_units > 1 else math.nan
