"""P-RSP and P-REO at k: how unequally classes of popularity are recommended, and how unequally their held-out positives
are found. 0: all classes alike.

    std over classes / mean over classes of      (ddof 0)

                P-RSP: is a class recommended             P-REO: are its positives found
    pooled      sum_u |L_u & I_g| / sum_u |I_g \\ I_u|     sum_u hits_ug / sum_u |I_g & T_u|       [Zhu 2020]
    by user     sum_u (|L_u & I_g| / |I_g \\ I_u|)         sum_u (hits_ug / |I_g & T_u|)           [bqs] eqs 8 to 11

I_u: the user's training pairs; T_u: the held-out positives; hits: the chance of each to be in the top k. A user whose
denominator is 0 is skipped; a class without support is left out; where the mean is 0 the value is NaN. Of G classes the
largest value is sqrt(G - 1). The forms by user are sums over users, not means: a class whose positives more users have
gets more, so that even a perfect model is not at 0.
"""

import math
from collections.abc import Callable

import numpy as np

from eval_engine.estimators.estimator import Doubles, Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import ByClass, Kernel, MetricKernel, OverClasses
from eval_engine.estimators.metrics.top_k import POPULARITY, top_total
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.gain import gain_of_each
from eval_engine.kernels.user_totals import user_totals

CLASSES = ("low", "middle", "high")
ClassOf = Callable[[str], Ints]


def recommended_by_class(batch: UserBatch, view: Labelled, class_of: ClassOf, k: int, ties: str) -> Terms:
    """The items of each class in the list, and the items of the class that the user was not trained on."""
    assert batch.list_items is not None
    hits = view.within_classes(k, class_of("top"), len(CLASSES))
    some = view.n_labelled > 0
    return Terms(np.where(some, hits, 0.0), np.where(some, batch.list_items.available, 0.0))


def found_by_class(batch: UserBatch, view: Labelled, class_of: ClassOf, k: int, ties: str) -> Terms:
    """The held-out positives of each class that are in the top k, and all of them."""
    held, own = batch.complete("heldout"), class_of("heldout")
    chance = gain_of_each("hits", held.above, held.tied, k, ties)
    classes = [own == g for g in range(len(CLASSES))]
    hits = np.stack([user_totals(held.offsets, np.where(one, chance, 0.0)) for one in classes])
    return Terms(hits, np.stack([user_totals(held.offsets, one) for one in classes]))


def by_user(terms: ByClass) -> ByClass:
    """The ratio of each user and class, and 1 where it has a denominator."""

    def ratios(batch: UserBatch, view: Labelled, class_of: ClassOf, k: int, ties: str) -> Terms:
        a, b = terms(batch, view, class_of, k, ties)
        return Terms(np.divide(a, b, out=np.zeros(a.shape), where=b > 0), (b > 0).astype(np.float64))

    return ratios


def variation(of: Doubles, support: Doubles) -> Doubles:
    """std / mean over the classes (last axis) with support; NaN where their mean is 0 or no class has any."""
    has = support > 0
    n = has.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(has, of, 0.0).sum(axis=-1) / n
        deviation = np.where(has, of - mean[..., None], 0.0)
        found: Doubles = np.sqrt((deviation**2).sum(axis=-1) / n) / mean
    return np.where((n > 0) & (mean > 0), found, np.nan)


def pooled_variation(a: Doubles, b: Doubles) -> Doubles:
    """Of the ratios of sums."""
    return variation(np.divide(a, b, out=np.zeros(a.shape), where=b > 0), b)


def summed_variation(a: Doubles, b: Doubles) -> Doubles:
    """Of the sums of ratios."""
    return variation(a, b)


def nothing(labelled: Labelled, k: int, ties: str) -> Terms:
    """Not used: the metric has terms by class only."""
    n = top_total(labelled, k)
    return Terms(np.zeros(n.size), np.zeros(n.size))


def largest(k: int) -> float:
    """The value where one class has everything."""
    return math.sqrt(len(CLASSES) - 1)


def _metric(name: str, terms: ByClass, over: OverClasses, quantity: str, needs: frozenset[str]) -> MetricKernel:
    kernel = Kernel(nothing, "labelled", quantity, needs=needs, by_class=terms, over_classes=over, top=largest)
    return MetricKernel(name, at_k=True, means={"recommended": kernel}, ordered=False, compared_as=None)


RECOMMENDED = "the share of the items of a class that are recommended"
FOUND = "the share of the held-out positives of a class that are in the top k"
BOTH = POPULARITY | {"heldout"}
P_RSP = _metric("p_rsp", recommended_by_class, pooled_variation, RECOMMENDED, POPULARITY)
P_RSP_BY_USER = _metric("p_rsp_by_user", by_user(recommended_by_class), summed_variation, RECOMMENDED, POPULARITY)
P_REO = _metric("p_reo", found_by_class, pooled_variation, FOUND, BOTH)
P_REO_BY_USER = _metric("p_reo_by_user", by_user(found_by_class), summed_variation, FOUND, BOTH)
