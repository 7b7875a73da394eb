"""P-RSP and P-REO: from the sums of the classes of popularity to the variation over classes (estimators/metrics/parity.py).

    e_g = (G - 1) / G (mean over g of T_(g) - T_(g))       T_(g): the value without bucket g of users

so that G / (G - 1) sum_g e_g^2 is the jackknife variance over the G buckets. A class that has support only in one bucket
leaves the error undefined.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from eval_engine.estimators.metrics.kernel import OverClasses
from eval_engine.estimators.metrics.parity import CLASSES
from eval_engine.evaluation.spec import POPULARITY
from eval_engine.evaluation.strata import Linear, Sums
from eval_engine.statistics.bucket_sums import N_COARSE
from eval_engine.statistics.paired import Paired

SLICES = tuple(f"{POPULARITY}={name}" for name in CLASSES)


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
    return Variation(Linear(Paired(values, errors, n)), int((totals[1] > 0).any(axis=0).sum()))
