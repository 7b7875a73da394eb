"""From statistics to estimates and comparisons: numpy on sums by bucket, one group of models at a time, in a Spark worker or anywhere else.

For each estimator, metric and cutoff the rows of all models come together: estimates with their intervals (user by user where second moments are known, by
jackknife for balanced URE), a Poisson bootstrap over buckets, and every pair of models, paired by bucket. Sums of several runs may be given as one: add their rows.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from eval_engine.estimators.by_metric import ESTIMATORS
from eval_engine.estimators.by_metric import estimator as estimator_of
from eval_engine.estimators.estimator import Estimator
from eval_engine.statistics.balanced import Strata, balanced
from eval_engine.statistics.bootstrap import bootstrap, chance_best, interval, poisson_weights, standard_error
from eval_engine.statistics.bucket_sums import COUNTS, N_BUCKETS, SUMS
from eval_engine.statistics.comparison import Comparison, compare
from eval_engine.statistics.paired import Paired, paired
from eval_engine.statistics.ratio import SCALE, RatioSums, estimate
from eval_engine.tables import COMPARISONS, ESTIMATES, split

Doubles = npt.NDArray[np.floating[Any]]
UNITS = 32  # groups of buckets that the jackknife leaves out
MOST_PARTITIONS = 16  # of some dozens of groups
BALANCED = "The mean recall over all candidates of the users who have a positive among them, whether the random exposures show one or not."


class InferenceSettings(NamedTuple):
    """How certain, and against what."""

    confidence: float
    margin: float  # of equivalence, relative
    power: float  # for users_needed
    replicates: int  # of the bootstrap
    seed: int


class _Model(NamedTuple):
    """All buckets of one model."""

    name: str
    sums: RatioSums
    ties: tuple[float, float]  # the value with ties broken against and for the model
    a: Doubles  # (N_BUCKETS,)
    b: Doubles
    wins: dict[str, int]
    strata: dict[tuple[int, int, int], Doubles]  # (3, UNITS): users, sums of m / n, sums of squares


def estimates_and_comparisons(
    statistics: DataFrame, asking: InferenceSettings, estimators: Sequence[Estimator] = ESTIMATORS
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of both tables, but for run_id, of rows of the statistics table."""
    columns = {
        table: ", ".join(c.removesuffix(" NOT NULL") for c in split(table.ddl) if not c.startswith("run_id"))
        for table in (ESTIMATES, COMPARISONS)
    }
    structs = {table: f"ARRAY<STRUCT<{ddl}>>" for table, ddl in columns.items()}

    def run(table: pa.Table) -> pa.Table:
        estimates, comparisons = of_group(table, asking, estimators)
        return _nested(estimates, comparisons)

    n_partitions = min(MOST_PARTITIONS, int(statistics.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1))
    keys = ("estimator", "metric", "k")
    grouped = (
        statistics.repartition(n_partitions, *keys)
        .groupBy(*keys)
        .applyInArrow(run, f"estimates {structs[ESTIMATES]}, comparisons {structs[COMPARISONS]}")
    )
    found = grouped.collect()
    estimates = sorted(tuple(row) for group in found for row in group["estimates"])
    comparisons = sorted(tuple(row) for group in found for row in group["comparisons"])
    return estimates, comparisons


def _nested(estimates: list[tuple[Any, ...]], comparisons: list[tuple[Any, ...]]) -> pa.Table:
    kinds = {"STRING": pa.string(), "INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
    columns = {}
    for name, table, rows in (("estimates", ESTIMATES, estimates), ("comparisons", COMPARISONS, comparisons)):
        fields = [(c.split()[0], kinds[c.split()[1]]) for c in split(table.ddl) if not c.startswith("run_id")]
        dicts = [dict(zip([f for f, _ in fields], row, strict=True)) for row in rows]
        columns[name] = pa.array([dicts], pa.list_(pa.struct(fields)))
    return pa.table(columns)


def of_group(
    table: pa.Table, asking: InferenceSettings, estimators: Sequence[Estimator] = ESTIMATORS
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of estimates and of comparisons, but for run_id, of one estimator, metric and cutoff."""
    name, metric, k = (table.column(column)[0].as_py() for column in ("estimator", "metric", "k"))
    own = estimator_of(name, metric, estimators)
    models = _models(table)
    a, b = np.array([m.a for m in models]), np.array([m.b for m in models])
    unknown = np.array([m.sums.n_unknown for m in models]) > 0
    a = np.where(unknown[:, None], np.nan, a)
    together = paired(a, b)
    replicates = (
        bootstrap(a, b, asking.replicates, asking.seed) if asking.replicates else np.full((len(models), 2), np.nan)
    )
    estimates = []
    for n, model in enumerate(models):
        found = estimate(model.sums, asking.confidence)
        numbers = [found.value, found.standard_error, found.low, found.high]
        reason = _reason(model.sums, own.left_out, own.unknown)
        estimates.append(
            _estimate_row(
                model, name, metric, k, numbers, model.ties, replicates, n, own.left_out, own.estimand, reason, asking
            )
        )
    comparisons = _comparison_rows(models, name, metric, k, together, asking)
    if any(m.strata for m in models):
        more, pairs = _balanced_rows(models, metric, k, own.left_out, asking)
        estimates, comparisons = estimates + more, comparisons + pairs
    elif (name, metric) == ("ure_macro", "recall"):
        reason = "exposure probabilities are uneven: the chance to show a positive, which balanced URE needs, is known for even drawing only"
        nothing = np.full((len(models), 2), np.nan)
        estimates += [
            _estimate_row(
                m,
                "ure_balanced",
                metric,
                k,
                [math.nan] * 4,
                (math.nan,) * 2,
                nothing,
                n,
                own.left_out,
                BALANCED,
                reason,
                asking,
            )
            for n, m in enumerate(models)
        ]
    return estimates, comparisons


def _models(table: pa.Table) -> list[_Model]:
    """The rows by model, in an order that does not depend on how they came."""
    names, which = np.unique(np.array(table.column("model").to_pylist(), object), return_inverse=True)
    stratum = table.column("stratum").combine_chunks()
    kinds = [
        stratum.field(name).fill_null(-1).to_numpy(zero_copy_only=False)
        for name in ("exposures", "candidates", "positives")
    ]
    rows = table.drop_columns(["stratum"]).append_column("known", stratum.is_valid())
    order = np.lexsort((*kinds[::-1], table.column("bucket").to_numpy(), which))
    rows, which, kinds = rows.take(order), which[order], [kind[order] for kind in kinds]
    starts = [*np.searchsorted(which, np.arange(names.size)), which.size]
    return [
        _model(name, rows.slice(a, b - a), [k[a:b] for k in kinds])
        for name, (a, b) in zip(names, pairwise(starts), strict=True)
    ]


def _model(name: str, rows: pa.Table, kinds: list[Any]) -> _Model:
    bucket = rows.column("bucket").to_numpy()
    counts = {column: int(pc.sum(rows.column(column)).as_py()) for column in COUNTS}
    exact = {column: int(pc.sum(rows.column(column)).as_py() * SCALE) for column in SUMS}
    total = RatioSums(**counts, **{column: exact[column] for column in ("a", "b", "aa", "ab", "bb")})
    a, b, aa = (rows.column(column).cast(pa.float64()).to_numpy() for column in ("a", "b", "aa"))
    wins: dict[str, int] = {}
    for entries in rows.column("wins").to_pylist():
        for rival, count in entries or ():
            wins[rival] = wins.get(rival, 0) + count
    strata: dict[tuple[int, int, int], Doubles] = {}
    if rows.column("known").to_numpy().all():  # not where exposure was uneven, be it of some days only
        users = (pc.add(rows.column("n_users"), rows.column("n_left_out"))).to_numpy()
        keys, which = np.unique(np.stack(kinds), axis=1, return_inverse=True)
        row = which.reshape(-1) * UNITS + bucket % UNITS
        sums = np.array(
            [np.bincount(row, x, minlength=keys.shape[1] * UNITS).reshape(-1, UNITS) for x in (users, a, aa)]
        )
        strata = {(int(e), int(c), int(p)): sums[:, n] for n, (e, c, p) in enumerate(keys.T)}
    ties = (
        (exact["a_low"] / total.b, exact["a_high"] / total.b)
        if total.b and not total.n_unknown
        else (math.nan, math.nan)
    )
    by_bucket = [np.bincount(bucket, x, minlength=N_BUCKETS).astype(np.float64) for x in (a, b)]
    return _Model(name, total, ties, by_bucket[0], by_bucket[1], wins, strata)


def _reason(sums: RatioSums, left_out: str, unknown: str) -> str | None:
    """Why there is no value, or no interval."""
    if sums.n_users == 0:
        return f"no user can be used: all are {left_out}" if sums.n_left_out else "there are no users"
    if sums.n_unknown:
        return f"of {sums.n_unknown:,} of {sums.n_users:,} users it cannot be known: {unknown}"
    return "one user has no standard error" if sums.n_users == 1 else None


def _estimate_row(
    model: _Model,
    name: str,
    metric: str,
    k: int,
    numbers: list[float],
    ties: tuple[float, float],
    replicates: Doubles,
    n: int,
    left_out: str,
    estimand: str,
    reason: str | None,
    asking: InferenceSettings,
) -> tuple[Any, ...]:
    low, high = interval(replicates[n], asking.confidence)
    told = [
        *numbers,
        asking.confidence,
        *ties,
        float(standard_error(replicates[n])),
        float(low),
        float(high),
        float(chance_best(replicates)[n]),
    ]
    counts = model.sums.n_users, model.sums.n_left_out, model.sums.n_unknown
    return (model.name, name, metric, k, *map(_known, told), *counts, left_out, estimand, reason)


def _known(x: float) -> float | None:
    return None if math.isnan(x) else x


def _comparison_rows(
    models: list[_Model], name: str, metric: str, k: int, together: Paired, asking: InferenceSettings
) -> list[tuple[Any, ...]]:
    n_users = max((m.sums.n_users for m in models), default=0)
    found = []
    for pair in compare(together, n_users, asking.confidence, asking.margin, asking.power):
        first, second = models[pair.first], models[pair.second]
        wins_of_pair = _wins_of_pair(first, second)
        numbers = [
            pair.difference,
            pair.standard_error,
            pair.low,
            pair.high,
            asking.confidence,
            pair.p,
            pair.p_holm,
            pair.p_fdr,
        ]
        no_worse = [asking.margin, pair.p_no_worse_first, pair.p_no_worse_second]
        verdict = _verdict(pair, 1 - asking.confidence)
        found.append(
            (
                name,
                metric,
                k,
                first.name,
                second.name,
                *map(_known, numbers),
                *wins_of_pair,
                *map(_known, no_worse),
                verdict,
                pair.users_needed,
                asking.power,
            )
        )
    return found


def _wins_of_pair(first: _Model, second: _Model) -> tuple[int | None, int | None, int | None]:
    """Wins, ties and losses among users with an exposed positive."""
    if second.name not in first.wins or first.name not in second.wins:
        return None, None, None
    wins, losses = first.wins[second.name], second.wins[first.name]
    return wins, max(min(first.sums.n_users, second.sums.n_users) - wins - losses, 0), losses


def _verdict(pair: Comparison, level: float) -> str:
    """What is decided: a difference beyond the family's error rate, else that neither is worse by more than the margin."""
    if pair.p_holm < level:
        return "a better" if pair.difference > 0 else "b better"
    return "equivalent" if pair.p_no_worse_first < level and pair.p_no_worse_second < level else "not decided"


def _balanced_rows(
    models: list[_Model], metric: str, k: int, left_out: str, asking: InferenceSettings
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Balanced URE, from the strata of ure_macro."""
    kinds = sorted({key for m in models for key in m.strata})
    nothing = np.zeros((3, UNITS))
    table = np.array([[m.strata.get(key, nothing) for key in kinds] for m in models])  # models, strata, 3, units
    exposures, candidates, positives = (np.array(column) for column in zip(*kinds, strict=True))
    unknown = np.array([m.sums.n_unknown > 0 for m in models])
    users = table[:, :, 0].max(axis=0).T  # the same for every model that ranked them all
    strata = Strata(
        exposures,
        candidates,
        positives,
        users,
        *(np.where(unknown[:, None, None], 0.0, table[:, :, n].transpose(0, 2, 1)) for n in (1, 2)),
    )
    found = balanced(strata)
    together = Paired(
        np.where(unknown, np.nan, found.models.values),
        np.where(unknown[:, None], np.nan, found.models.errors),
        found.models.n_units,
    )
    errors, widths = found.standard_errors(), found.half_widths(asking.confidence)
    replicates = _replicates(together, asking)
    rows = []
    for n, m in enumerate(models):
        value, error, width = float(together.values[n]), float(errors[n]), float(widths[n])
        reason = _reason(
            m.sums, left_out, "their positives are beyond the end of a partial list, where ranks cannot be known"
        )
        if reason is None and math.isnan(value):
            reason = "users have one random exposure each: how many positives they have cannot be told from it"
        numbers = [value, error, value - width, value + width]
        rows.append(
            _estimate_row(
                m,
                "ure_balanced",
                metric,
                k,
                numbers,
                (math.nan, math.nan),
                replicates,
                n,
                left_out,
                BALANCED,
                reason,
                asking,
            )
        )
    return rows, _comparison_rows(models, "ure_balanced", metric, k, together, asking)


def _replicates(together: Paired, asking: InferenceSettings) -> Doubles:
    """The Poisson bootstrap of values by the linearised errors of their units, (n_models, replicates)."""
    if not asking.replicates:
        return np.full((len(together.values), 2), np.nan)
    weights = poisson_weights(asking.seed, np.arange(asking.replicates), together.errors.shape[1])
    return together.values[:, None] + together.errors @ (weights.T - 1)
