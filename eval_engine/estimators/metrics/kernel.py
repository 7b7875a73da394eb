"""What a metric is: a name, its parameters, and a kernel for each kind of mean over users that it has.

    macro   the mean over users with a positive (or with both kinds)
    mean    the mean over all labelled users; one without a positive counts 0
    micro   of all pairs of all users together
    recommended   of top lists: each item of a list counts as a positive at its place (estimators/lists.py)
    pairs   of held-out positives, all users together
    raw     of all pairs of all users together, unweighted

Of weighted pairs (ips.py), where c is the gain of a positive:

    pooled     sum_u sum_i w c / sum_u sum_i w          micro where a metric has no kernel of its own
    weighted   the mean over users of sum_i w c / sum_i w, likewise macro
    counted    the mean over users of sum_i w c / n_u

A kernel takes labelled pairs, a cutoff, a tie policy and the metric's parameters by name, and gives each user's terms.
It does not depend on the estimator: of e_u exposed items, drawn uniformly from the user's N_u candidates, n_u are
positives; their gain is scaled up by w = N_u / e_u or, where pairs have weights w_i, by w_i in every sum (1 / exposure
probability: Horvitz-Thompson; ratios: Hajek). With complete labels w = 1.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eval_engine.estimators.estimator import Doubles, Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.kernels.arrays import Ints
from eval_engine.metric import Parameter

if TYPE_CHECKING:
    from eval_engine.estimators.user_batch import UserBatch

PARTIAL = "their positives are beyond the end of a partial list, where ranks cannot be known"
Users = Literal["labelled", "positive", "both", "several"]
ByClass = Callable[["UserBatch", Labelled, Callable[[str], Ints], int, str], Terms]
"""(batch, view, classes of the positives of a label set, k, ties) -> terms (n_classes, n_users) of CLASSES: low,
middle, high; a class is a number from 0, or -1 for others.
"""
OverClasses = Callable[[Doubles, Doubles], Doubles]
"""Numerators and denominators (..., n_classes) -> the value, NaN where it is not defined."""


class ScaledSum(NamedTuple):
    """A numerator min(sum * up / down, most): the sum over a user's positives (Labelled.summed) times factors of the
    user. None: no such factor.
    """

    what: str  # hits, discount, inverse, power(p), precisions
    up: Doubles | None = None
    down: Doubles | None = None  # where it is 0, the numerator is 0
    most: Doubles | None = None


class Kernel(NamedTuple):
    """A metric as one kind of mean over users."""

    terms: Callable[..., Terms]  # (labelled, k, ties, parameters) -> Terms
    # with denominator > 0: with a label; a positive; both kinds; a positive, and if sampled two labels or more
    users: Users
    quantity: str  # description of the quantity of a user
    complete_only: bool = False  # not estimable from a sample of the labels
    # Denominators only, where they do not depend on the cutoff and a user without a positive in the top k has numerator
    # 0: then only users with one are visited
    denominator: Callable[[Labelled], Doubles] | None = None
    sampled: str = ""  # description of the effect of sampling
    unknown: str = PARTIAL  # why a numerator is NaN
    scaled: Callable[..., ScaledSum] | None = None  # (labelled, k, parameters): the numerators of sum_kernel
    needs: frozenset[str] = frozenset()  # besides what the estimator needs: popularity, heldout
    # Of a metric that compares classes of popularity: the terms by class, and the value from the sums of classes
    by_class: "ByClass | None" = None
    over_classes: "OverClasses | None" = None
    top: Callable[[int], float] | None = None  # the largest value at k; the least is 0. None: not known
    pairs: bool = False  # of a sample, the numerator grows with pairs of positives


def sum_kernel(
    scaled: Callable[..., ScaledSum],
    denominator: Callable[[Labelled], Doubles],
    users: Users,
    quantity: str,
    **more: Any,
) -> Kernel:
    """A metric whose numerator is a scaled sum: evaluation adds it up without an array of terms for each cutoff."""
    return Kernel(partial(_terms, scaled, denominator), users, quantity, denominator=denominator, scaled=scaled, **more)


def _terms(
    scaled: Callable[..., ScaledSum],
    denominator: Callable[[Labelled], Doubles],
    labelled: Labelled,
    k: int,
    ties: str,
    **parameters: float,
) -> Terms:
    """The terms of a scaled sum."""
    what, up, down, most = scaled(labelled, k, **parameters)
    a, b = labelled.summed(what, k, ties), denominator(labelled)
    a = a if up is None else a * up
    a = a if down is None else np.divide(a, down, out=np.zeros(a.size), where=down > 0)
    a = a if most is None else np.minimum(a, most)
    return Terms(np.where(b > 0, a, 0.0), b)


def one(k: int) -> float:
    """The largest value of a share."""
    return 1.0


def of_known_size(gain: str, most: Callable[[int], float], labelled: Labelled, k: int, ties: str) -> Terms:
    """The gain of positives over that of all exposures, times `most` of k: the metric of a list of positives only."""
    a, b = labelled.scale * labelled.gained(gain, k, ties), labelled.gained_by_all(gain, k, "expected") / most(k)
    unknown = np.isnan(b)
    return Terms(np.where(unknown, np.nan, a), np.where(unknown, 1.0, b))


def with_label(labelled: Labelled) -> Doubles:
    """1 for each user with a label, else 0."""
    return (labelled.n_labelled > 0).astype(np.float64)


def weight_of_positives(labelled: Labelled) -> Doubles:
    """w n_u of each user."""
    return labelled.total * labelled.scale


def with_positive(labelled: Labelled) -> Doubles:
    """1 for each user with a labelled positive, else 0."""
    return (labelled.n_positive > 0).astype(np.float64)


class ListKernel(NamedTuple):
    """A metric of all users' top lists together, from how often items were recommended."""

    value: Callable[[Ints, Ints, int], float]  # (times, items with so many, items of the catalogue) -> value
    estimand: str


class MetricKernel(NamedTuple):
    """A metric."""

    name: str
    at_k: bool
    means: Mapping[str, Kernel] = {}
    lists: ListKernel | None = None
    parameters: Mapping[str, Parameter] = {}
    ordered: bool = True  # more is better: models are compared
    compared_as: str | None = (
        ""  # another metric with the same order of models on a user; "": itself; None: users are not compared
    )
