"""Logged feedback with weights: held-out positives, each weighted by 1 / propensity [simpson] 3, [Yang 2018].

    c: gain of a positive from its place, w = 1 / p, S_u: the user's held-out positives

    snips        sum_u sum_i w c / sum_u sum_i w       consistent for the pooled metric over all positives if p is right
    snips_user   mean over users of sum_i w c / sum_i w      equals holdout for users with one positive
    clipped      snips with max(p, floor), p scaled to at most 1: less variance, more bias
    ips          mean over users of sum_i w c / |S_u|, p scaled to at most 1: as published; it estimates nothing,
                 because its weights do not add up to 1

Precision needs weights that add up to the number of pairs, which only logged propensities have. With them snips and
clipped have it as a Horvitz-Thompson mean,

    precision    mean over users with a held-out pair of sum_i w q_k(i) / k

A user without a held-out pair is not counted: where that is likely, the mean is too high. A user's MAP, MRR, hit rate
and R-precision are no sums over positives, so weights do not define them.
"""

import numpy as np

from eval_engine.estimators.estimator import Doubles, Estimator, Words
from eval_engine.estimators.holdout import WORDS, held_out
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.user_batch import UserBatch
from eval_engine.kernels.arrays import Bools

NEEDS = frozenset({"heldout", "propensity"})
NO_SUM = "it is no sum over positives, so that weights of pairs do not define it"
WITHOUT = dict.fromkeys(("map", "mrr", "hit_rate", "r_precision"), NO_SUM) | {
    "precision": "the weights must add up to the number of pairs, and those of estimated propensities do not"
}
SCALED = "the weights must add up to the number of pairs, and here they are scaled for each user"
WITH_PAIR = Words("users with a held-out pair", "users without a held-out pair")
OVER = "from held-out pairs weighted by 1 / propensity"


def inverse(batch: UserBatch) -> Doubles:
    """1 / p of each held-out pair."""
    return 1 / batch.propensity("heldout")


def inverse_scaled(batch: UserBatch) -> Doubles:
    """1 / p of each held-out pair, p scaled to at most 1."""
    return 1 / batch.propensity("heldout", scaled=True)


def inverse_clipped(batch: UserBatch) -> Doubles:
    """1 / max(p, floor) of each held-out pair, p scaled to at most 1."""
    assert batch.propensities is not None
    return 1 / np.maximum(batch.propensity("heldout", scaled=True), batch.propensities.floor)


def below_floor(batch: UserBatch) -> Bools:
    """Whether the scaled propensity of each held-out pair is below the floor."""
    assert batch.propensities is not None
    below: Bools = batch.propensity("heldout", scaled=True) < batch.propensities.floor
    return below


def of_all(batch: UserBatch, labelled: Labelled) -> Doubles:
    """Each positive's weight: its own."""
    return np.ones(labelled.above.size) if labelled.weight is None else labelled.weight


def of_user(batch: UserBatch, labelled: Labelled) -> Doubles:
    """Each positive's weight: its share of the user's weights."""
    return of_all(batch, labelled) / np.repeat(labelled.total, np.diff(labelled.offsets))


def of_count(batch: UserBatch, labelled: Labelled) -> Doubles:
    """Each positive's weight: its own over the user's number of positives."""
    return of_all(batch, labelled) / np.repeat(labelled.n_positive, np.diff(labelled.offsets))


def with_precision(estimator: Estimator) -> Estimator:
    """The same, with precision where propensities are logged: a mean over users of weighted hits over k."""
    mean = estimator._replace(
        estimates=estimator.estimates and "full_mean",
        means=("mean",),
        words=WORDS | {"labelled": WITH_PAIR},
        without={},
    )
    return estimator._replace(if_logged={"precision": mean})


_SNIPS = Estimator(
    "snips",
    "SNIPS",
    "estimate",
    "full_micro",
    NEEDS,
    means=("pooled", "micro"),
    pairs=held_out,
    weight=inverse,
    words=WORDS,
    over=OVER,
    caveat="consistent if the propensities are right",
    without=WITHOUT,
    share=of_all,
)
SNIPS = with_precision(_SNIPS)
SNIPS_USER = _SNIPS._replace(
    name="snips_user",
    label="SNIPS per user",
    role="naive",
    estimates=None,
    means=("weighted", "macro"),
    caveat="users with few held-out positives keep the bias of the log",
    without=WITHOUT | {"precision": SCALED},
    share=of_user,
)
CLIPPED = with_precision(
    _SNIPS._replace(
        name="clipped",
        label="clipped SNIPS",
        weight=inverse_clipped,
        caveat="too close to held-out pairs where propensities are below the floor",
        clipped=below_floor,
    )
)
IPS = _SNIPS._replace(
    name="ips",
    label="IPS",
    role="naive",
    estimates=None,
    means=("counted",),
    weight=inverse_scaled,
    caveat="as published: its weights do not add up to 1, so that it estimates nothing",
    without=WITHOUT
    | {"precision": SCALED}
    | dict.fromkeys(("ndcg", "auc"), "as published it is defined for sums over positives"),
    share=of_count,
    no_interval="IPS estimates nothing, so that an interval would have no meaning",
)
