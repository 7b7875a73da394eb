"""Rows of the table `estimator_agreement`: how far each estimator agrees with a reference over the run's models
(statistics/agreement.py).

The reference of a metric at a cutoff is the first estimator over complete labels that has values, else the first from
random exposure. An estimator of another quantity over complete labels (`estimates` of the registry: pooled SNIPS is an
estimate of full_micro) has a second row, against that. With neither, every pair of estimators is compared.

Replicates over users have the same Poisson weights of user buckets for all models and estimators. An estimator that is
combined from strata has 32 buckets and linearised errors; what it is compared with is then added up to 32 buckets too.
Each estimator covers its own users: held-out pairs and random exposures need not be of the same ones. A row has the
number of users with pairs in the label sets of each side, and of both.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from eval_engine.estimators.estimator import Estimator
from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.evaluation.label_set_users import UsersBySets, users_with
from eval_engine.evaluation.reversals import RANDOM
from eval_engine.kernels.arrays import Floats
from eval_engine.statistics.agreement import agreement, error_against, intervals, jackknife, kendall, kendall_difference
from eval_engine.statistics.agreement import pearson as pearson_of
from eval_engine.statistics.bootstrap import bootstrap, poisson_weights, weighted_sums
from eval_engine.statistics.bucket_sums import N_BUCKETS, N_COARSE
from eval_engine.statistics.steiger import steiger
from eval_engine.tables import ESTIMATOR_AGREEMENT

BASELINES = ("holdout", "traditional")  # what is commonly reported
SHARED = "both rest on the random exposures: they share errors, which makes the agreement look better than it is"
NO_REFERENCE = "no complete labels and no random exposures: neither of the two is known to be right"
LABEL_SETS = frozenset({"random", "heldout", "truth"})
Rows = list[dict[str, Any]]


class Valued(NamedTuple):
    """One estimator's values of the models, and the sums by bucket that replicates are made from."""

    estimator: Estimator
    models: tuple[str, ...]
    values: Floats  # (n_models,)
    a: Floats  # (n_models, n_buckets); NaN where a model's value is unknown
    b: Floats
    errors: Floats | None = None  # (n_models, N_COARSE): of an estimator that is combined from strata


class Bootstrap(NamedTuple):
    """Settings of the replicates and intervals."""

    confidence: float
    replicates: int
    seed: int


def agreement_rows(
    metric: str, k: int, valued: Sequence[Valued], asking: Bootstrap, users: UsersBySets | None = None
) -> Rows:
    """The rows of one metric at one cutoff, without run_id, from every estimator of the run that has it. users: number
    of users by their label sets.
    """
    judging = [one for one in valued if LABEL_SETS & one.estimator.needs and len(one.models) > 1]
    models = tuple(sorted({model for one in judging for model in one.models}))
    by_name = {one.estimator.name: _aligned(one, models) for one in judging}
    baseline = next((by_name[name] for name in BASELINES if name in by_name), None)
    compared = list(_compared(by_name))
    drawn = _replicates(compared, asking)
    rows: Rows = []
    for one, reference in compared:
        n_buckets = _n_buckets(one, reference)
        both = drawn[one.estimator.name, n_buckets], drawn[reference.estimator.name, n_buckets]
        against = baseline if baseline not in (None, one, reference) else None
        rows.append(
            dict.fromkeys(name for name in ESTIMATOR_AGREEMENT.names if name != "run_id")
            | {"metric": metric, "k": k, "confidence": asking.confidence}
            | _row(one, reference, both, asking.confidence)
            | _users(one.estimator, reference.estimator, users or {})
            | (_against_baseline(one, reference, against) if against else {})
        )
    return rows


def _compared(by_name: dict[str, Valued]) -> Iterator[tuple[Valued, Valued]]:
    """Each estimator with its references."""
    order = [*ESTIMATORS, *sorted(set(by_name) - set(ESTIMATORS))]
    ordered = sorted(by_name.values(), key=lambda one: order.index(one.estimator.name))
    others = [one for one in ordered if one.estimator.role != "truth"]
    truth = next((one for one in ordered if one.estimator.role == "truth" and _has_values(one)), None)
    random = next((by_name[name] for name in RANDOM if name in by_name and _has_values(by_name[name])), None)
    reference = truth or random
    if reference is None:
        yield from ((second, first) for first, second in combinations(others, 2))
        return
    for one in others:
        if one is not reference:
            yield one, reference
        own = by_name.get(one.estimator.estimates or "")
        if own is not None and own is not reference and _has_values(own):
            yield one, own


def _has_values(one: Valued) -> bool:
    return bool((~np.isnan(one.values)).sum() > 1)


def _aligned(one: Valued, models: tuple[str, ...]) -> Valued:
    """The same with a row for each of these models; NaN where the estimator has none."""
    place = [one.models.index(model) if model in one.models else -1 for model in models]
    missing = np.array(place) < 0

    def rows(x: Floats, nothing: float) -> Floats:
        taken = x[place].astype(np.float64)
        taken[missing] = nothing
        return taken

    errors = None if one.errors is None else rows(one.errors, math.nan)
    return Valued(one.estimator, models, rows(one.values, math.nan), rows(one.a, math.nan), rows(one.b, 0.0), errors)


def _n_buckets(one: Valued, reference: Valued) -> int:
    return N_COARSE if one.errors is not None or reference.errors is not None else N_BUCKETS


def _replicates(compared: Sequence[tuple[Valued, Valued]], asking: Bootstrap) -> dict[tuple[str, int], Floats]:
    """Replicates of the values, (n_models, replicates), by estimator and number of buckets; one bootstrap for all
    estimators with as many.
    """
    sides = {(side.estimator.name, _n_buckets(*pair)): side for pair in compared for side in pair}
    if asking.replicates == 0:
        return {key: np.empty((len(side.models), 0)) for key, side in sides.items()}
    found: dict[tuple[str, int], Floats] = {}
    for n_buckets in (N_BUCKETS, N_COARSE):
        plain = {key: side for key, side in sides.items() if key[1] == n_buckets and side.errors is None}
        if plain:
            a, b = (
                np.concatenate([x.reshape(len(x), -1, n_buckets).sum(axis=1) for x in own])
                for own in ([side.a for side in plain.values()], [side.b for side in plain.values()])
            )
            ratios = bootstrap(a, b, asking.replicates, asking.seed)
            found |= zip(plain, np.split(ratios, len(plain)), strict=True)
    weights = poisson_weights(asking.seed, np.arange(asking.replicates), N_COARSE).T - 1
    for key, side in sides.items():
        if side.errors is not None:
            found[key] = side.values[:, None] + weighted_sums(side.errors, weights)
    return found


def _row(one: Valued, reference: Valued, drawn: tuple[Floats, Floats], confidence: float) -> dict[str, Any]:
    """The agreement of an estimator with a reference."""
    found = agreement(one.values, reference.values)
    row: dict[str, Any] = {
        "estimator": one.estimator.name,
        "reference": reference.estimator.name,
        "n_models": found.n_models,
        "n_flipped": found.n_flipped,
        "n_tied": found.n_tied,
        "kendall": _known(found.kendall),
        "pearson": _known(found.pearson),
        "reason": found.reason,
        "remark": _remark(one.estimator, reference.estimator),
    }
    if found.reason:
        return row
    both = ~np.isnan(one.values) & ~np.isnan(reference.values)
    x, y = one.values[both], reference.values[both]
    stars = (drawn[0][both], drawn[1][both])
    kendall_error, pearson_error = jackknife(x, y)
    over_users, error = intervals(x, y, stars, confidence), error_against(x, y, stars)
    numbers = {
        "kendall_error": kendall_error,
        "pearson_error": pearson_error,
        "kendall_low": over_users.kendall[0],
        "kendall_high": over_users.kendall[1],
        "pearson_low": over_users.pearson[0],
        "pearson_high": over_users.pearson[1],
        "noise": over_users.noise,
        "bias_squared": error.bias_squared,
        "error_spread": error.error_spread,
    }
    return row | {name: _known(x) for name, x in numbers.items()} | {"interval_reason": over_users.reason}


def _users(one: Estimator, reference: Estimator, users: UsersBySets) -> dict[str, int | None]:
    """The number of users on each side, and on both; NULL for a run with one label set."""
    sides = one.needs & LABEL_SETS, reference.needs & LABEL_SETS
    names = ("n_users", "n_reference_users", "n_shared_users")
    return {name: users_with(users, sets) for name, sets in zip(names, (*sides, sides[0] | sides[1]), strict=True)}


def _remark(one: Estimator, reference: Estimator) -> str | None:
    if "random" in one.needs and "random" in reference.needs and reference.role != "truth":
        return SHARED
    return NO_REFERENCE if reference.role != "truth" and "random" not in reference.needs else None


def _against_baseline(one: Valued, reference: Valued, baseline: Valued) -> dict[str, Any]:
    """Whether the estimator agrees better with the reference than the baseline does, over models with all three."""
    known = ~np.isnan(np.stack([reference.values, one.values, baseline.values])).any(axis=0)
    x, y, z = reference.values[known], one.values[known], baseline.values[known]
    if any(agreement(*pair).reason for pair in ((x, y), (x, z), (y, z))):
        return {"baseline": baseline.estimator.name}
    of_tau = kendall_difference(x, y, z)
    r = [float(pearson_of(*pair)) for pair in ((x, y), (x, z), (y, z))]
    of_pearson = steiger(r[0], r[1], r[2], x.size)
    taus = [float(kendall(*pair)) for pair in ((x, y), (x, z), (y, z))]
    of_kendall = steiger(taus[0], taus[1], taus[2], x.size)
    numbers = {
        "kendall_difference": of_tau.value,
        "kendall_difference_p": of_tau.p,
        "pearson_difference": r[0] - r[1],
        "steiger_t": of_pearson.t,
        "steiger_p": of_pearson.p,
        "steiger_p_one_sided": of_pearson.p_one_sided,
        "steiger_kendall_p": of_kendall.p,
        "steiger_kendall_p_one_sided": of_kendall.p_one_sided,
    }
    return {"baseline": baseline.estimator.name} | {name: _known(x) for name, x in numbers.items()}


def _known(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None
