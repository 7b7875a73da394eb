"""An estimator defines which labelled pairs count and their weights. A metric gives each user a numerator and a
denominator. The estimate is the ratio of their sums.

    estimate = sum_u numerator_u / sum_u denominator_u        users with denominator 0 are left out

Sums merge across partitions, so the ratio is taken once, at the end (statistics/ratio.py). A mean over users has
denominators 1 and 0. An unknown numerator is NaN; it makes the estimate undefined, because leaving such users out would
favour the model.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.statistics.few_hits import UNKNOWN_RANGE, Range

if TYPE_CHECKING:
    from eval_engine.estimators.labelled import Labelled
    from eval_engine.estimators.metrics.kernel import ByClass, OverClasses, ScaledSum
    from eval_engine.estimators.user_batch import UserBatch

Doubles = npt.NDArray[np.float64]
SHARES = {
    "macro",
    "micro",
    "pooled",
    "weighted",
    "pairs",
    "raw",
    "recommended",
}  # means in which the parts of a user's denominator are the numerator's
Role = Literal["truth", "naive", "estimate"]


UserWeight = Callable[["UserBatch", "Labelled", "Ints | slice", str], Doubles]
"""The weight of each user of a view, from batch, view, user numbers in the batch, and users that the metric counts."""


class Terms(NamedTuple):
    """Each user's numerator and denominator of an estimate, both float64 (n_users,)."""

    numerator: Doubles
    denominator: Doubles


class Words(NamedTuple):
    """Descriptions of the users that are counted and of those that are left out."""

    counted: str
    left_out: str


class Estimator(NamedTuple):
    """A rule that turns labelled pairs into estimates of metrics.

    role: `truth` is computed from complete labels; `naive` is a commonly reported value that does not estimate the
    metric over all candidates; `estimate` estimates it. estimates: the estimator over complete labels whose value is
    estimated.

    Every metric that has one of `means` is estimated, by the first of them that it has; from a sample of the labels
    only metrics that do not need all labels are estimated. `only` restricts the metrics.
    """

    name: str  # in tables
    label: str  # short enough for a column header
    role: Role
    estimates: str | None
    needs: frozenset[str]  # label sets (random, heldout, truth), top, propensity, and columns of items (item.price)
    labels: Mapping[str, str] = {}  # other labels, by metric
    means: tuple[str, ...] = ()  # macro: over users with a positive; mean: over all users; metrics/kernel.py has more
    pairs: "Callable[[UserBatch], Labelled] | None" = None  # which pairs count
    weight: "Callable[[UserBatch], Doubles] | None" = None  # of each pair of its label set: 1 / p, clipped, 0 or 1
    user_weight: "UserWeight | None" = None  # of each user
    sampled: bool = False  # the pairs are a sample of the candidates
    words: Mapping[str, Words] = {}  # by the users that a metric counts: labelled, positive, both, several
    over: str = ""  # description of what is ranked
    caveat: str = ""  # end of the estimand sentence
    only: frozenset[str] | None = None  # names of metrics
    without: Mapping[str, str] = {}  # metrics that it does not define, and the reason
    if_logged: Mapping[str, "Estimator"] = {}  # by metric: what replaces it where propensities are logged
    share: "Callable[[UserBatch, Labelled], Doubles] | None" = None  # each positive's weight in the estimate
    clipped: "Callable[[UserBatch], Bools] | None" = None  # of each pair of its label set: its weight was clipped
    no_interval: str = ""  # reason, where the value has no standard error
    stratum: "Callable[[UserBatch, Labelled], Ints] | None" = None  # (n_users, 3): exposures, candidates, positives
    combine: "Callable[..., Any] | None" = None  # statistics of strata -> value and errors of each model
    uncombined: str = ""  # reason, where users have no stratum
    undefined: str = ""  # reason, where combine gives no value
    unknown_in: "Callable[[UserBatch], bool] | None" = (
        None  # whether no user's value can be known: of all users or none
    )
    unknown: str = ""  # why not
    whole_lists: frozenset[str] = (
        frozenset()
    )  # metrics that any order of a list of k items or fewer gives the same value

    def label_of(self, metric: str) -> str:
        """The label of the estimator for a metric of this name."""
        return self.labels.get(metric.partition("(")[0], self.label)

    def view(self, batch: "UserBatch") -> "Labelled":
        """The pairs that count, with their weights."""
        assert self.pairs is not None, f"{self.name} counts no labelled pairs"
        pairs = self.pairs(batch)
        return pairs if self.weight is None else batch.weighted(self.name, pairs, self.weight)


class MetricTerms(NamedTuple):
    """A metric under an estimator: its terms, and a sentence that says what their ratio estimates."""

    estimator: Estimator
    metric: str  # without parameters
    mean: str
    users: str  # labelled, positive, both, several
    terms: "Callable[..., Terms]"  # (labelled, k, ties, parameters) -> Terms
    estimand: str
    left_out: str  # description of users with denominator 0
    unknown: str  # why a numerator is NaN
    denominator: "Callable[[Labelled], Doubles] | None"  # where it does not depend on the cutoff: metrics/kernel.py
    scaled: "Callable[..., ScaledSum] | None" = None  # numerators that are scaled sums: metrics/kernel.py
    needs: frozenset[str] = frozenset()  # besides what the estimator needs
    by_class: "ByClass | None" = None  # of a metric that compares classes of popularity: metrics/kernel.py
    over_classes: "OverClasses | None" = None
    top: Callable[[int], float] | None = None  # the largest value at a cutoff, where it is known
    pairs: bool = False  # of a sample, numerators grow with pairs of positives
    longer: bool = False  # users whose lists are no longer than the cutoff are left out

    def range(self, k: int) -> Range:
        """The values that it can take, which its interval is cut to."""
        if self.top is None:
            return UNKNOWN_RANGE
        if self.over_classes:
            return Range(self.top(k), counted=False)
        top, pairs = self.top(k), self.pairs and self.estimator.sampled
        share = self.mean in SHARES or not (self.estimator.sampled or self.estimator.weight)
        # of one user the weights are shares; average precision falls with the rank as a weight does
        heavy = ("propensity" in self.estimator.needs and self.mean != "weighted") or self.pairs
        return Range(top, share and top == 1.0 and not pairs, pairs, heavy)

    def __str__(self) -> str:
        return f"{self.estimator.name} {self.metric}"

    def is_unknown(self, batch: "UserBatch") -> bool:
        """Whether the value of no user can be known: each counts as one of unknown numerator."""
        rule = self.estimator.unknown_in
        return self.terms is undefined_terms or (rule is not None and rule(batch))

    def of(
        self, batch: "UserBatch", labelled: "Labelled", users: "Ints | slice", k: int, ties: str, **parameters: float
    ) -> Terms:
        """The terms of the users of a view, some of the batch."""
        a, b = (undefined_terms if self.is_unknown(batch) else self.terms)(labelled, k, ties, **parameters)
        if self.is_unknown(batch):
            return Terms(a, b)
        if self.longer:
            counted = labelled.candidates > k
            a, b = np.where(counted, a, 0.0), np.where(counted, b, 0.0)
        own = self.weights(batch, labelled, users)
        if own is None:
            return Terms(a, b)
        weight = np.where(b > 0, own, 0.0)
        return Terms(np.where(weight > 0, weight * a, 0.0), weight * b)

    def denominators(self, batch: "UserBatch", labelled: "Labelled", users: "Ints | slice") -> Doubles:
        """The denominators of the users of a view, where they do not depend on the cutoff."""
        assert self.denominator is not None
        b, weight = self.denominator(labelled), self.weights(batch, labelled, users)
        return b if weight is None else np.where(b > 0, weight, 0.0) * b

    def weights(self, batch: "UserBatch", labelled: "Labelled", users: "Ints | slice") -> Doubles | None:
        """The weights of the users of a view; None: 1."""
        own = self.estimator.user_weight
        return None if own is None else own(batch, labelled, users, self.users)


def longer_lists(own: MetricTerms) -> MetricTerms:
    """The same without the users whose lists are no longer than the cutoff: any order gives them the same value."""
    left_out = f"{own.left_out}, or with no more of them than the cutoff, so that any order gives the same value"
    return own._replace(denominator=None, scaled=None, left_out=left_out, longer=True)


def undefined_terms(labelled: "Labelled", k: int, ties: str, **parameters: float) -> Terms:
    """Unknown for every user with a positive: the metric is not defined under this estimator."""
    some = labelled.n_positive > 0
    return Terms(np.where(some, np.nan, 0.0), some.astype(np.float64))


def mean_over(users: npt.NDArray[np.bool_], ratio: Doubles) -> Terms:
    """The terms of a plain mean of a per-user quantity over some users."""
    return Terms(np.where(users, ratio, 0.0), users.astype(np.float64))


def divided(a: Doubles, b: Doubles) -> Doubles:
    """a / b, NaN where b is 0."""
    result: Doubles = np.divide(a, b, out=np.full(a.size, np.nan), where=b > 0)
    return result
