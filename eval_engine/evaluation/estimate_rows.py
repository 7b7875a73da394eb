"""Rows of the table `estimates`: values with intervals (from second moments over users where they are known, from the
estimator's combination where it has strata) and a Poisson bootstrap over buckets.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.evaluation.result_groups import InferenceSettings, ModelSums, ResultGroup, Rows, known, nullable
from eval_engine.statistics.bootstrap import (
    bootstrap,
    chance_best,
    normal_draws,
    poisson_weights,
    standard_error,
    weighted_sums,
)
from eval_engine.statistics.bootstrap import interval as percentiles
from eval_engine.statistics.few_hits import Range, interval
from eval_engine.statistics.ratio import SCALE, RatioSums, effective_users, ratio
from eval_engine.tables import ESTIMATES

Doubles = npt.NDArray[np.floating[Any]]
EXACT = "exact for the users of the run, so it has no interval"
NO_BOUNDS = (math.nan, math.nan)
TOO_FEW = "too few users for a standard error: without one of their buckets the value is not defined"
NOT_DEFINED = "not defined: "  # begins the reason of a metric that an estimator does not have


def estimate_rows(groups: list[ResultGroup], asking: InferenceSettings) -> Rows:
    """The rows of groups with the same numbers of models and buckets, without metrics of top lists."""
    n_models = len(groups[0].models)
    if asking.replicates:
        replicates = _replicates(groups, asking)
        errors = standard_error(replicates)
        lows, highs = percentiles(replicates, asking.confidence)
        best = chance_best(replicates)
    else:
        errors = lows = highs = best = np.full((len(groups), n_models), np.nan)
    bootstrapped = [nullable(x) for x in (errors, lows, highs, best)]
    values = _values(groups, asking)
    rows: Rows = []
    for n, group in enumerate(groups):
        about, shared = group.about, _shared_columns(group, asking)
        exact = bool(about.estimator.no_interval)
        for m, model in enumerate(group.models):
            own = values[n * n_models + m]
            row = shared | _sums_columns(group, model)
            row["reason"] = own.reason or (about.estimator.no_interval or None)
            row["value"], row["ties_low"], row["ties_high"] = known(own.value), *map(known, own.ties)
            if not exact:
                row["standard_error"], row["low"], row["high"] = map(known, (own.standard_error, own.low, own.high))
                row["bootstrap_error"], row["bootstrap_low"], row["bootstrap_high"], row["chance_best"] = (
                    x[n * n_models + m] for x in bootstrapped
                )
            if group.draws_sd is not None:
                row["draws_sd"] = known(float(group.draws_sd[m]))
            rows.append(row)
    return rows


def _shared_columns(group: ResultGroup, asking: InferenceSettings) -> dict[str, Any]:
    """The columns that are the same for all models of a group; the others are NULL until they are filled in."""
    estimator, metric, k, part = group.key
    shared = dict.fromkeys(name for name in ESTIMATES.names if name != "run_id") | {
        "estimator": estimator,
        "metric": metric,
        "k": k,
        "slice": part,
        "left_out": group.about.left_out,
        "estimand": group.about.estimand,
        "confidence": asking.confidence,
    }
    if group.draws_sd is not None:
        shared |= {"draws": group.draws, "n_pairs": group.n_pairs}
    return shared | _spread_columns(group, asking)


def _sums_columns(group: ResultGroup, model: ModelSums) -> dict[str, Any]:
    """The model and its sums."""
    has_sums = group.combined is None and not group.about.lists
    return {
        "model": model.name,
        "n_users": model.sums.n_users,
        "n_left_out": model.sums.n_left_out,
        "n_unknown": model.sums.n_unknown,
        "numerator": model.sums.a / SCALE if has_sums else None,
        "denominator": model.sums.b / SCALE if has_sums else None,
    }


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


class _Value(NamedTuple):
    """A model's value with its standard error and interval, its bounds under ties, and the reason if one is
    undefined.
    """

    value: float
    standard_error: float
    ties: tuple[float, float]
    reason: str | None
    low: float
    high: float


def _values(groups: list[ResultGroup], asking: InferenceSettings) -> list[_Value]:
    """The values of all models of all groups. Intervals of equal ranges are computed together."""
    found: list[tuple[float, float, tuple[float, float], str | None]] = []
    spreads: list[tuple[float, float, float, float]] = []  # value, error, effective number of users, degrees of freedom
    ranges: dict[Range, list[int]] = {}
    for group in groups:
        of = ranges.setdefault(group.about.range(group.key[2]), [])
        of.extend(range(len(found), len(found) + len(group.models)))
        plain = group.about.estimator.combine is None
        for model, numbers in zip(group.models, _numbers(group), strict=True):
            value, error, _, _ = numbers
            found.append(
                (value, error, model.ties if plain else NO_BOUNDS, _reason_of(group, model.sums, value, error))
            )
            spreads.append(numbers)
    columns = np.array(spreads, np.float64).reshape(-1, 4).T
    low, high = np.empty(len(found)), np.empty(len(found))
    for one, own in ranges.items():
        value, error, users, degrees = columns[:, own]
        low[own], high[own] = interval(value, error, users, degrees, asking.confidence, one)
    return [_Value(*given, *ends) for given, *ends in zip(found, low.tolist(), high.tolist(), strict=True)]


def _numbers(group: ResultGroup) -> list[tuple[float, float, float, float]]:
    """Of each model: value and standard error, the effective number of users, and degrees of freedom."""
    sums = [model.sums for model in group.models]
    if group.about.estimator.combine is None:
        return [(*ratio(own), effective_users(own), own.n_users - 1) for own in sums]
    if group.combined is None:
        return [(math.nan,) * 4] * len(sums)
    fewer = getattr(group.combined, "users", None)
    users = [effective_users(own) for own in sums]
    users = users if fewer is None else [min(pair) for pair in zip(users, fewer.tolist(), strict=True)]
    columns = (x.tolist() for x in (group.values.values, group.combined.standard_errors()))
    return list(zip(*columns, users, group.combined.degrees().tolist(), strict=True))


def _reason_of(group: ResultGroup, sums: RatioSums, value: float, error: float) -> str | None:
    """The reason why a model's value or its interval is undefined."""
    about = group.about
    if about.estimator.combine is None and about.undefined:
        return f"{NOT_DEFINED}{about.undefined}"
    if about.estimator.combine is not None and group.combined is None:
        return about.estimator.uncombined
    reason = _reason(sums, about.left_out, about.unknown)
    if reason is not None or about.estimator.combine is None:
        return reason
    if math.isnan(value):
        return about.estimator.undefined
    return TOO_FEW if math.isnan(error) else None


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
        own = {"estimand": kernel.estimand, "reason": reason, "value": known(value)}
        rows.append(_shared_columns(group, asking) | _sums_columns(group, model) | own)
    return rows
