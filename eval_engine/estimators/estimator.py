"""An estimator says which labelled pairs count, with what weight; a metric gives each user a numerator and a denominator; the estimate is the ratio of their sums.

    estimate = sum_u numerator_u / sum_u denominator_u        users with denominator 0 are left out

Sums merge across partitions, so the ratio is taken once, at the end (statistics/ratio.py). A mean over users has denominators 1 and 0.
A numerator that cannot be known is NaN; it makes the estimate undefined, because leaving such users out would favour the model.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints

if TYPE_CHECKING:
    from eval_engine.estimators.labelled import Labelled
    from eval_engine.estimators.user_batch import UserBatch

Doubles = npt.NDArray[np.float64]
Role = Literal["truth", "naive", "estimate"]


UserWeight = Callable[["UserBatch", "Labelled", "Ints | slice", str], Doubles]
"""Of the users of a view: the batch, the view, their numbers in the batch, and which users the metric counts."""


class Terms(NamedTuple):
    """What each user adds to an estimate, float64 (n_users,) both."""

    numerator: Doubles
    denominator: Doubles


class Words(NamedTuple):
    """Users in words: those that are counted, and those that are not."""

    counted: str
    left_out: str


class Estimator(NamedTuple):
    """A way from labelled pairs to estimates of metrics.

    role: truth is known from complete labels, naive is what others report and no estimate of the metric over all candidates,
    estimate is an estimate of it. estimates: the estimator over complete labels whose value it is an estimate of.

    Every metric that has one of `means` is estimated, by the first of them that it has; a sample of the labels serves metrics that need not
    know them all. `only` restricts the metrics.
    """

    name: str  # in tables
    label: str  # in words, short enough for the head of a column
    role: Role
    estimates: str | None
    needs: frozenset[str]  # label sets (random, heldout, truth), top, and columns of items (item.propensity)
    labels: Mapping[str, str] = {}  # other words, by metric
    means: tuple[str, ...] = ()  # macro: over users with a positive; mean: over all users; micro: of all pairs
    pairs: "Callable[[UserBatch], Labelled] | None" = None  # which pairs count
    weight: "Callable[[UserBatch], Doubles] | None" = None  # of each pair of its label set: 1 / p, clipped, 0 or 1
    user_weight: "UserWeight | None" = None  # of each user
    sampled: bool = False  # the pairs are a sample of the candidates
    words: Mapping[str, Words] = {}  # of the users that a metric counts: labelled, positive, both, several
    over: str = ""  # what is ranked, in words
    caveat: str = ""  # closes the sentence of what it estimates
    only: frozenset[str] | None = None  # names of metrics
    stratum: "Callable[[UserBatch, Labelled], Ints] | None" = None  # (n_users, 3): exposures, candidates, positives
    combine: "Callable[[Any], Any] | None" = None  # statistics of strata -> value and errors of each model
    uncombined: str = ""  # why, where users have no stratum
    undefined: str = ""  # why, where combine says nothing

    def label_of(self, metric: str) -> str:
        """The label beside a metric of this name."""
        return self.labels.get(metric.partition("(")[0], self.label)

    def view(self, batch: "UserBatch") -> "Labelled":
        """The pairs that count, with their weights."""
        assert self.pairs is not None, f"{self.name} counts no labelled pairs"
        pairs = self.pairs(batch)
        return pairs if self.weight is None else pairs.weighted(self.weight(batch))


class MetricTerms(NamedTuple):
    """A metric under an estimator: its terms, and in words what their ratio is an estimate of."""

    estimator: Estimator
    metric: str  # without parameters
    mean: str
    users: str  # labelled, positive, both, several
    terms: "Callable[..., Terms]"  # (labelled, k, ties, parameters) -> Terms
    estimand: str
    left_out: str  # users with denominator 0, in words
    unknown: str  # why a numerator is NaN
    denominator: "Callable[[Labelled], Doubles] | None"  # alone, where no cutoff changes it: metrics/kernel.py

    def __str__(self) -> str:
        return f"{self.estimator.name} {self.metric}"

    def of(
        self, batch: "UserBatch", labelled: "Labelled", users: "Ints | slice", k: int, ties: str, **parameters: float
    ) -> Terms:
        """The terms of a view of some users of the batch."""
        a, b = self.terms(labelled, k, ties, **parameters)
        if self.estimator.user_weight is None:
            return Terms(a, b)
        weight = np.where(b > 0, self.estimator.user_weight(batch, labelled, users, self.users), 0.0)
        return Terms(np.where(weight > 0, weight * a, 0.0), weight * b)

    def denominators(self, batch: "UserBatch", labelled: "Labelled", users: "Ints | slice") -> Doubles:
        """The denominators of a view of some users of the batch, where no cutoff changes them."""
        assert self.denominator is not None
        b = self.denominator(labelled)
        if self.estimator.user_weight is None:
            return b
        return np.where(b > 0, self.estimator.user_weight(batch, labelled, users, self.users), 0.0) * b


def mean_over(users: npt.NDArray[np.bool_], ratio: Doubles) -> Terms:
    """The terms of a plain mean of a per-user quantity over some users."""
    return Terms(np.where(users, ratio, 0.0), users.astype(np.float64))


def divided(a: Doubles, b: Doubles) -> Doubles:
    """a / b, NaN where b is 0."""
    result: Doubles = np.divide(a, b, out=np.full(a.size, np.nan), where=b > 0)
    return result
