"""Rows of the table `estimates`: values with intervals (from second moments over users where they are known, from the
estimator's combination where it has strata) and a Poisson bootstrap over buckets.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.evaluation.result_groups import InferenceSettings, ModelSums, ResultGroup, Rows, known
from eval_engine.statistics.bootstrap import (
    bootstrap,
    chance_best,
    normal_draws,
    poisson_weights,
    standard_error,
    weighted_sums,
)
from eval_engine.statistics.bootstrap import interval as percentiles
from eval_engine.statistics.few_hits import interval
from eval_engine.statistics.ratio import SCALE, RatioSums, effective_users, estimate
from eval_engine.tables import ESTIMATES

Doubles = npt.NDArray[np.floating[Any]]
EXACT = "exact for the users of the run, so it has no interval"
NOT_DEFINED = "not defined: "  # begins the reason of a metric that an estimator does not have


def estimate_rows(groups: list[ResultGroup], asking: InferenceSettings) -> Rows:
    """The rows of groups with the same numbers of models and buckets, without metrics of top lists."""
    n_models = len(groups[0].models)
    if asking.replicates:
        replicates = _replicates(groups, asking)
        errors = standard_error(replicates)
        lows, highs = percentiles(replicates, asking.confidence)
        best = np.array([chance_best(one) for one in replicates])
    else:
        errors = lows = highs = best = np.full((len(groups), n_models), np.nan)
    rows: Rows = []
    for n, group in enumerate(groups):
        about = group.about
        for m, model in enumerate(group.models):
            numbers, ties, reason = _value(group, m, asking)
            bootstrapped = (errors[n, m], lows[n, m], highs[n, m], best[n, m])
            if about.estimator.no_interval:
                numbers, bootstrapped = [numbers[0], *[math.nan] * 3], (math.nan,) * 4
                reason = reason or about.estimator.no_interval
            rows.append(
                _described_row(group, model, about.estimand, reason)
                | _spread_columns(group, asking)
                | _draws_columns(group, m)
                | _named(("value", "standard_error", "low", "high"), numbers)
                | _named(("ties_low", "ties_high"), ties)
                | _named(("bootstrap_error", "bootstrap_low", "bootstrap_high", "chance_best"), bootstrapped)
                | {"confidence": asking.confidence}
            )
    return rows


def _spread_columns(group: ResultGroup, asking: InferenceSettings) -> dict[str, Any]:
    """How the weight is spread over pairs, and why the estimate is unreliable; NULL for estimators without weights."""
    if group.spread is None:
        return {}
    if group.about.estimator.weight is None and group.combined is None:
        return {"n_pairs": group.spread.n}
    effective, reasons = group.spread.effective, [group.caveat] if group.caveat else []
    if effective < asking.least_effective:
        reasons.insert(
            0,
            f"the effective sample size is {effective:,.1f} of {group.spread.n:,} pairs, below "
            f"{asking.least_effective:g}",
        )
    shares = {"largest_weight_share": group.spread.largest_share, "clipped_share": group.spread.clipped_share}
    if group.about.estimator.clipped is None:
        shares["clipped_share"] = math.nan
    return {
        "n_pairs": group.spread.n,
        "effective_pairs": known(effective),
        **{name: known(share) for name, share in shares.items()},
        "unreliable": "; ".join(reasons) or None,
    }


def _draws_columns(group: ResultGroup, m: int) -> dict[str, Any]:
    """The draws of a test set."""
    if group.draws_sd is None:
        return {}
    return {"draws": group.draws, "draws_sd": known(float(group.draws_sd[m])), "n_pairs": group.n_pairs}


def _described_row(group: ResultGroup, model: ModelSums, estimand: str, reason: str | None) -> dict[str, Any]:
    """The descriptive columns of a row of estimates; its numbers are NULL until they are filled in."""
    estimator, metric, k, part = group.key
    return dict.fromkeys(name for name in ESTIMATES.names if name != "run_id") | {
        "model": model.name,
        "estimator": estimator,
        "metric": metric,
        "k": k,
        "slice": part,
        "n_users": model.sums.n_users,
        "n_left_out": model.sums.n_left_out,
        "n_unknown": model.sums.n_unknown,
        "left_out": group.about.left_out,
        "estimand": estimand,
        "numerator": None if group.combined is not None or group.about.lists else model.sums.a / SCALE,
        "denominator": None if group.combined is not None or group.about.lists else model.sums.b / SCALE,
        "reason": reason,
    }


def _named(names: Sequence[str], numbers: Sequence[float]) -> dict[str, float | None]:
    return {name: known(x) for name, x in zip(names, numbers, strict=True)}


def _value(
    group: ResultGroup, m: int, asking: InferenceSettings
) -> tuple[list[float], tuple[float, float], str | None]:
    """Value, standard error and interval of a model, its bounds under ties, and the reason if one is undefined."""
    model, about = group.models[m], group.about
    if about.estimator.combine is None:
        found = estimate(model.sums, asking.confidence, about.range(group.key[2]))
        reason = f"{NOT_DEFINED}{about.undefined}" if about.undefined else None
        reason = reason or _reason(model.sums, about.left_out, about.unknown)
        return [found.value, found.standard_error, found.low, found.high], model.ties, reason
    no_bounds = (math.nan, math.nan)
    if group.combined is None:
        return [math.nan] * 4, no_bounds, about.estimator.uncombined
    value, error = float(group.values.values[m]), float(group.combined.standard_errors()[m])
    degrees, users = group.combined.degrees()[m], effective_users(model.sums)
    fewer = getattr(group.combined, "users", None)
    users = users if fewer is None else min(users, float(fewer[m]))
    low, high = interval(value, error, users, degrees, asking.confidence, about.range(group.key[2]))
    reason = _reason(model.sums, about.left_out, about.unknown)
    if reason is None and math.isnan(value):
        reason = about.estimator.undefined
    return [value, error, float(low), float(high)], no_bounds, reason


def _reason(sums: RatioSums, left_out: str, unknown: str) -> str | None:
    """The reason why a value or its interval is undefined."""
    if not sums.n_users:
        return f"no user can be used: all {sums.n_left_out:,} are {left_out}"
    if sums.n_unknown:
        return f"of {sums.n_unknown:,} of {sums.n_users:,} users it cannot be known: {unknown}"
    return "one user has no standard error" if sums.n_users == 1 else None


def _replicates(groups: list[ResultGroup], asking: InferenceSettings) -> Doubles:
    """The Poisson bootstrap of every group's models, (n_groups, n_models, replicates)."""
    n_models, n_units = groups[0].values.errors.shape
    found = np.empty((len(groups), n_models, asking.replicates))
    plain = [n for n, group in enumerate(groups) if group.about.estimator.combine is None]
    if plain:
        a, b = (np.concatenate([[getattr(m, name) for m in groups[n].models] for n in plain]) for name in ("a", "b"))
        unknown = np.array([m.sums.n_unknown > 0 for n in plain for m in groups[n].models])
        ratios = bootstrap(np.where(unknown[:, None], np.nan, a), b, asking.replicates, asking.seed)
        found[plain] = ratios.reshape(len(plain), n_models, -1)
    combined = sorted(set(range(len(groups))) - set(plain))
    if combined:  # from the linearised errors of their units
        weights = poisson_weights(asking.seed, np.arange(asking.replicates), n_units)
        for n in combined:
            found[n] = groups[n].values.values[:, None] + weighted_sums(groups[n].values.errors, weights.T - 1)
            if (bias := getattr(groups[n].combined, "bias", None)) is not None:
                names = [model.name for model in groups[n].models]
                found[n] += bias[:, None] * normal_draws(names, asking.replicates, asking.seed)
    return found


def list_rows(group: ResultGroup, table: pa.Table, asking: InferenceSettings) -> Rows:
    """The rows of a metric of top lists: exact, so without errors."""
    name, metric, k, _ = group.key
    kernel = group.about.lists
    assert kernel is not None
    rows: Rows = []
    chosen = table.filter(
        pc.and_(pc.and_(pc.equal(table["estimator"], name), pc.equal(table["metric"], metric)), pc.equal(table["k"], k))
    )
    for model in group.models:
        counts: dict[int, int] = {}
        for entries in chosen.filter(pc.equal(chosen["model"], model.name)).column("items").to_pylist():
            for times, items in entries or ():
                counts[times] = counts.get(times, 0) + items
        times, items = np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64)
        value = kernel.value(times, items, asking.n_items) if asking.n_items else math.nan
        if math.isnan(value):
            reason = f"no user can be used: all {model.sums.n_left_out:,} are {group.about.left_out}"
        else:
            reason = EXACT
        numbers = {"value": known(value), "confidence": asking.confidence}
        rows.append(_described_row(group, model, kernel.estimand, reason) | numbers)
    return rows
