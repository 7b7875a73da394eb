"""An estimator gives each user a numerator and a denominator; the estimate is the ratio of their sums.

    estimate = sum_u numerator_u / sum_u denominator_u        users with denominator 0 are left out

Sums merge across partitions, so the ratio is taken once, at the end (statistics/ratio.py). A mean over users has denominators 1 and 0.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt


class Terms(NamedTuple):
    """What each user adds to an estimate, float64 (n_users,) both."""

    numerator: npt.NDArray[np.float64]
    denominator: npt.NDArray[np.float64]


class Estimator(NamedTuple):
    """A named way from rank facts to terms, and what its estimate is an estimate of.

    source says whose rank facts go in: those of the randomly exposed pairs, those of the complete truth, or both, which means
    rank facts of the truth and, as a last argument, the number of random exposures of each user.
    """

    name: str
    source: Literal["random", "truth", "both"]
    terms: Callable[..., Terms]  # (facts, positive, k, ties) -> Terms
    estimand: str

    def __str__(self) -> str:
        return self.name


def mean_over(users: npt.NDArray[np.bool_], ratio: npt.NDArray[np.float64]) -> Terms:
    """The terms of a plain mean of a per-user ratio over some users."""
    return Terms(np.where(users, ratio, 0.0), users.astype(np.float64))
