"""P-RSP and P-REO: from the sums of the classes of popularity to the variation over classes
(estimators/metrics/parity.py).

    e_g = (G - 1) / G (mean over g of T_(g) - T_(g))       T_(g): the value without bucket g of users

so that G / (G - 1) sum_g e_g^2 is the jackknife variance over the G buckets. A class that has support only in one
bucket leaves the error undefined.

**No hit is not certainty.** A class with support and without a hit has ratio 0 in every T_(g), which the jackknife
takes for certain. It may have up to 3.7 hits, of size 1 at most: the upper end of 95 % for a Poisson number of which
none was seen. The most that UNSEEN hits would move the value by is the half-width of a normal error that is added. Of
many users it is nothing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from eval_engine.estimators.metrics.kernel import OverClasses
from eval_engine.estimators.metrics.parity import CLASSES
from eval_engine.evaluation.spec import POPULARITY
from eval_engine.evaluation.strata import Linear, Sums
from eval_engine.statistics.bucket_sums import N_COARSE
from eval_engine.statistics.paired import Paired

SLICES = tuple(f"{POPULARITY}={name}" for name in CLASSES)


UNSEEN = (0.5, 1.0, 2.0, -math.log(0.025))


class Variation(NamedTuple):
    """The values of models, and the number of classes with support."""

    linear: Linear
    n_classes: int

    @property
    def remark(self) -> str:
        """The number of classes, and the largest value that so many allow."""
        classes = "1 class" if self.n_classes == 1 else f"{self.n_classes} classes"
        return f"std over mean of {classes} of popularity, at most {math.sqrt(max(self.n_classes - 1, 0)):.3f}"


def over_classes(value: OverClasses, models: Sequence[str], sums: Mapping[str, Sums]) -> Variation:
    """The variation over classes. sums: by slice and model."""
    a, b = np.zeros((2, len(models), len(CLASSES), N_COARSE))
    for g, name in enumerate(SLICES):
        for m, model in enumerate(models):
            if model in sums.get(name, {}):
                numerators, denominators, unknown = sums[name][model]
                a[m, g], b[m, g] = np.where(unknown, np.nan, numerators), denominators
    totals = a.sum(axis=2), b.sum(axis=2)
    values = value(*totals)
    used = (b > 0).any(axis=(0, 1))
    n = int(used.sum())
    support = (totals[1] > 0)[:, :, None]
    without = [np.moveaxis(total[:, :, None] - part, 2, 1)[:, used] for total, part in zip(totals, (a, b), strict=True)]
    left = value(*without)  # (n_models, n)
    lost = (support & (totals[1][:, :, None] - b <= 0))[:, :, used].any(axis=1)
    left = np.where(lost, np.nan, left)
    errors = np.zeros((len(models), N_COARSE))
    if n:
        errors[:, used] = (n - 1) / n * (left.mean(axis=1, keepdims=True) - left)
    unseen = (totals[1] > 0) & (totals[0] == 0)
    moved = np.zeros(totals[0].shape)
    for g in np.flatnonzero(unseen.any(axis=0)).tolist():
        for hits in UNSEEN:
            more = totals[0].copy()
            more[:, g] += np.minimum(hits, totals[1][:, g])
            moved[:, g] = np.maximum(moved[:, g], np.abs(value(more, totals[1]) - values))
    bias = np.sqrt((np.where(unseen, moved, 0.0) ** 2).sum(axis=1)) / ndtri(0.975)
    return Variation(Linear(Paired(values, errors, n), bias), int((totals[1] > 0).any(axis=0).sum()))
