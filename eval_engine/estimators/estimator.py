"""An estimator gives each user a numerator and a denominator; the estimate is the ratio of their sums.

    estimate = sum_u numerator_u / sum_u denominator_u        users with denominator 0 are left out

Sums merge across partitions, so the ratio is taken once, at the end (statistics/ratio.py). A mean over users has denominators 1 and 0.
A numerator that cannot be known is NaN; it makes the estimate undefined, since leaving such users out would favour whom they are about.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]


class Terms(NamedTuple):
    """What each user adds to an estimate, float64 (n_users,) both."""

    numerator: Doubles
    denominator: Doubles


class Estimator(NamedTuple):
    """A named way from labelled pairs to terms of one metric, and what its estimate is an estimate of.

    source says whose labelled pairs go in: the randomly exposed ones, those of the complete truth, or both, which means the truth and,
    as a last argument, the number of random exposures of each user.
    """

    name: str
    metric: str
    source: Literal["random", "truth", "both"]
    terms: Callable[..., Terms]  # (labelled, k, ties) -> Terms
    estimand: str
    left_out: str  # whom the denominators leave out, in words
    unknown: str = (
        "their positives are beyond the end of a partial list, where ranks cannot be known"  # why a numerator is NaN
    )

    def __str__(self) -> str:
        return f"{self.name} {self.metric}"


def mean_over(users: npt.NDArray[np.bool_], ratio: Doubles) -> Terms:
    """The terms of a plain mean of a per-user quantity over some users."""
    return Terms(np.where(users, ratio, 0.0), users.astype(np.float64))


def divided(a: Doubles, b: Doubles) -> Doubles:
    """a / b, NaN where b is 0."""
    result: Doubles = np.divide(a, b, out=np.full(a.size, np.nan), where=b > 0)
    return result
