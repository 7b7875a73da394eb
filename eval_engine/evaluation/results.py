"""From statistics to estimates, comparisons, reversals and agreement: numpy on sums by bucket, vectorised over groups
of models, in a Spark worker or any other process.

A group is an estimator, metric, cutoff and slice; the rows of all its models are processed together. The results are
estimates with intervals (from second moments over users where they are known, from the estimator's combination where it
has strata), a Poisson bootstrap over buckets, and every pair of models, paired by bucket. To evaluate several runs as
one, add their rows.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.estimators.estimator import Estimator, MetricTerms
from eval_engine.estimators.holdout import HOLDOUT
from eval_engine.estimators.lists import NO_LIST
from eval_engine.estimators.metrics.kernel import PARTIAL, ListKernel, OverClasses
from eval_engine.estimators.registry import ESTIMATORS, METRICS, formula
from eval_engine.estimators.test_set import COMBINED, TEST_SET
from eval_engine.evaluation.agreement_rows import Bootstrap, Valued, agreement_rows
from eval_engine.evaluation.bqs_rows import Bootstrap as Bqs
from eval_engine.evaluation.bqs_rows import Quality, bqs_rows, coarse
from eval_engine.evaluation.bqs_settings import BqsRule
from eval_engine.evaluation.class_variation import over_classes
from eval_engine.evaluation.pair_weights import NO_PAIRS, PAIRS, WEIGHT, Spread, spreads_of
from eval_engine.evaluation.reversals import reversal_rows
from eval_engine.evaluation.spec import ALL, EvaluationSpec
from eval_engine.evaluation.strata import Spreads, strata_in, stratified
from eval_engine.evaluation.test_set_slices import combined_set, sets_in
from eval_engine.lake.arrow_schema import row_schema
from eval_engine.metric import Metric
from eval_engine.statistics.balanced import Strata
from eval_engine.statistics.bootstrap import (
    bootstrap,
    chance_best,
    normal_draws,
    poisson_weights,
    standard_error,
    weighted_sums,
)
from eval_engine.statistics.bootstrap import interval as percentiles
from eval_engine.statistics.bucket_sums import COUNTS, N_BUCKETS, N_COARSE, SUMS
from eval_engine.statistics.comparison import compare_groups, hit_size
from eval_engine.statistics.few_hits import UNKNOWN_RANGE, Range, interval
from eval_engine.statistics.paired import Paired, paired
from eval_engine.statistics.ratio import SCALE, RatioSums, effective_users, estimate
from eval_engine.tables import BQS, COMPARISONS, ESTIMATES, ESTIMATOR_AGREEMENT, REVERSALS, Table

Doubles = npt.NDArray[np.floating[Any]]
MOST_PARTITIONS = 16  # of a few dozen groups
NUMBERS_AT_ONCE = 1 << 22  # replicates or errors held in memory at once
EXACT = "exact for the users of the run, so it has no interval"
NOT_DEFINED = "not defined: "  # begins the reason of a metric that an estimator does not have
SPREAD_COLUMNS = ["model", "estimator", "metric", "slice", "bucket", "n_users", "n_unknown", "a", "aa", "a_high"]
KEYS = ("estimator", "metric", "k", "slice")
Rows = list[dict[str, Any]]


class InferenceSettings(NamedTuple):
    """Settings of intervals, tests and the bootstrap."""

    confidence: float
    margin: float  # of equivalence, relative
    power: float  # for users_needed
    replicates: int  # of the bootstrap
    seed: int
    n_items: int = 0  # of the catalogue; for metrics of top lists
    least_effective: float = 0.0  # effective sample size, in pairs: an estimate with a smaller one is unreliable
    slice_items: Mapping[str, int] = {}  # number of items of each slice of items or pairs
    users_by_sets: Mapping[frozenset[str], int] = {}  # number of users by the label sets in which they have pairs
    bqs: BqsRule | None = None


class Results(NamedTuple):
    """Rows of the tables, without run_id."""

    estimates: Rows
    comparisons: Rows
    reversals: Rows
    agreement: Rows
    bqs: Rows = []  # noqa: RUF012


RESULT_TABLES = (ESTIMATES, COMPARISONS, REVERSALS, ESTIMATOR_AGREEMENT, BQS)  # in the order of Results


class Described(NamedTuple):
    """Descriptions of an estimator and a metric, besides the numbers."""

    estimator: Estimator
    estimand: str
    left_out: str
    unknown: str
    lists: ListKernel | None = None
    undefined: str = ""  # why the metric has no value under this estimator
    ordered: bool = True  # more is better: models are compared
    over_classes: OverClasses | None = None  # of a metric that compares classes of popularity
    formula: MetricTerms | None = None

    def range(self, k: int) -> Range:
        """The values that the metric can take."""
        if self.formula is None:
            return UNKNOWN_RANGE
        found = self.formula.range(k)
        combined = self.estimator.combine is not None and "propensity" in self.estimator.needs
        return found._replace(heavy=True) if combined else found


class _Model(NamedTuple):
    """All buckets of one model in a group."""

    name: str
    sums: RatioSums
    ties: tuple[float, float]  # the value with ties broken against and for the model
    a: Doubles  # (n_buckets,)
    b: Doubles


class _Group(NamedTuple):
    """An estimator, metric, cutoff and slice."""

    key: tuple[str, str, int, str]
    about: Described
    models: list[_Model]
    values: Paired  # of the models
    strata: tuple[npt.NDArray[np.int64], Doubles] | None  # (n_strata, 3); (n_models, n_strata, 3, N_COARSE)
    combined: Any = None  # the estimator's combination of its strata: values and errors
    spread: Spread | None = None  # of weights over pairs
    caveat: str = ""  # what else makes it unreliable
    draws: int | None = None  # of a test set
    draws_sd: Doubles | None = None  # (n_models,): over draws
    n_pairs: int | None = None  # of a test set: positives of a draw, on average


def described(spec: EvaluationSpec) -> dict[tuple[str, str], Described]:
    """The descriptions of every estimator and metric of a spec, by their names."""
    found = {(one.estimator.name, metric.base): _of_formula(one) for one, metric in spec.asked()}
    for estimator, kernel, metric in spec.lists():
        found[estimator.name, metric.base] = Described(estimator, kernel.estimand, NO_LIST, PARTIAL, kernel)
    return found


def _of_formula(one: MetricTerms) -> Described:
    undefined = one.estimator.without.get(one.metric, "")
    ordered = one.metric not in METRICS or METRICS[one.metric].ordered
    about = Described(one.estimator, one.estimand, one.left_out, one.unknown, None, undefined, ordered)
    return about._replace(over_classes=one.over_classes, formula=one)


def results_by_workers(
    statistics: DataFrame,
    asking: InferenceSettings,
    about: Mapping[tuple[str, str], Described] | None = None,
    with_weights: bool = False,
) -> Results:
    """The rows of all tables, from rows of the statistics table: one Spark job, and one more if there are weights of
    pairs.
    """
    types = (f"{table.name} ARRAY<STRUCT<{table.row_ddl()}>>" for table in RESULT_TABLES)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch for batch in batches if batch.num_rows]
        if rows:
            yield _nested(results_of(pa.Table.from_batches(rows), asking, about, spreads))

    n_partitions = min(MOST_PARTITIONS, int(statistics.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1))
    spreads: Spreads = {}
    if with_weights:
        beside = statistics.where(F.col("metric").isin(WEIGHT, PAIRS)).select(*SPREAD_COLUMNS)
        spreads = spreads_of(row.asDict() for row in beside.collect())
    # Arrow's Java writes a NULL map in time that grows with those before it
    for name, kind in (("wins", "map<string, bigint>"), ("items", "map<bigint, bigint>")):
        statistics = statistics.withColumn(name, F.expr(f"coalesce({name}, cast(map() AS {kind}))"))
    # wins, combined estimates and agreement need rows of several estimators: groups of a metric stay together
    grouped = statistics.repartition(n_partitions, "metric", "k").mapInArrow(run, ", ".join(types))
    parts = grouped.collect()
    return Results(
        *(in_order(table, [row.asDict() for part in parts for row in part[table.name]]) for table in RESULT_TABLES)
    )


def in_order(table: Table, rows: Rows) -> Rows:
    """Rows of one run by their key, NULL first."""
    return sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in table.key if name != "run_id"])


def _nested(results: Results) -> pa.RecordBatch:
    columns = {
        table.name: pa.array([rows], pa.list_(pa.struct(list(row_schema(table)))))
        for table, rows in zip(RESULT_TABLES, results, strict=True)
    }
    return pa.RecordBatch.from_pydict(columns)


def results_of(
    table: pa.Table,
    asking: InferenceSettings,
    about: Mapping[tuple[str, str], Described] | None = None,
    spreads: Spreads | None = None,
) -> Results:
    """The rows of all tables, from all statistics rows of some metrics. spreads: of weights over pairs, if the rows do
    not have them.
    """
    estimates: Rows = []
    comparisons: Rows = []
    wins = _wins(table)
    beside = pc.is_in(table.column("metric"), pa.array([WEIGHT, PAIRS]))
    spreads = spreads_of(table.filter(beside).select(SPREAD_COLUMNS).to_pylist()) if spreads is None else spreads
    table = table.filter(pc.invert(beside))
    ready = list(_groups(table, asking, about or {}))
    of_draws = [group for group in ready if group.key[0] == TEST_SET.name]
    ready = [group for group in ready if group.key[0] != TEST_SET.name]
    ready = [_with_spread(group, spreads) for group in ready] + _stratified_groups(ready, spreads)
    ready += _test_set_groups(of_draws, spreads)
    ready += _class_groups(ready)
    for group in (one for one in ready if one.about.lists):
        estimates += _list_rows(group, table, asking)
    rest = [one for one in ready if not one.about.lists]
    rest.sort(key=lambda one: (one.values.errors.shape, one.key))
    for (n_models, n_units), same in groupby(rest, key=lambda one: one.values.errors.shape):
        groups = list(same)
        each = max(1, n_models * max(asking.replicates, n_models * n_units))
        at_once = max(1, NUMBERS_AT_ONCE // each)
        for start in range(0, len(groups), at_once):
            some = groups[start : start + at_once]
            estimates += _estimate_rows(some, asking)
            defined = [
                group
                for group in some
                if group.about.ordered
                and (group.about.estimator.combine is None or group.combined is not None)
                and not group.about.estimator.no_interval
            ]
            comparisons += _comparison_rows(defined, wins, asking) if defined else []
    reversals = reversal_rows(estimates, comparisons, asking.confidence, asking.slice_items)
    rows = (estimates, comparisons, reversals, _agreement_rows(rest, asking), _bqs_rows(rest, asking))
    return Results(*(in_order(table, own) for table, own in zip(RESULT_TABLES, rows, strict=True)))


def _agreement_rows(groups: list[_Group], asking: InferenceSettings) -> Rows:
    """The agreement of estimators over the models, metric by metric."""
    by_metric: dict[tuple[str, int], list[Valued]] = {}
    for group in (one for one in groups if one.key[3] == ALL):
        values = group.values
        unknown = np.array([m.sums.n_unknown > 0 for m in group.models])
        a, b = (np.array([getattr(m, name) for m in group.models]) for name in ("a", "b"))
        errors = None if group.about.estimator.combine is None else values.errors
        names = tuple(m.name for m in group.models)
        valued = Valued(group.about.estimator, names, values.values, np.where(unknown[:, None], np.nan, a), b, errors)
        by_metric.setdefault((group.key[1], group.key[2]), []).append(valued)
    settings = Bootstrap(asking.confidence, asking.replicates, asking.seed)
    return [
        row
        for (metric, k), own in by_metric.items()
        for row in agreement_rows(metric, k, own, settings, asking.users_by_sets)
    ]


def _bqs_rows(groups: list[_Group], asking: InferenceSettings) -> Rows:
    """The balanced quality scores of the pairs that are asked for; ANOVA needs those of all metrics (with_anova)."""
    if asking.bqs is None:
        return []
    whole, parts = {}, {}
    for group in groups:
        if group.about.estimator.combine is not None or group.key[1:3] not in asking.bqs.metrics:
            continue
        cell, part = group.key[:3], group.key[3]
        values = {m.name: float(x) for m, x in zip(group.models, group.values.values, strict=True)}
        quality = Quality(
            values, {m.name: coarse(m.a) for m in group.models}, {m.name: coarse(m.b) for m in group.models}
        )
        if part == ALL:
            whole[cell] = quality
        else:
            parts[cell, part] = quality
    return bqs_rows(asking.bqs, whole, parts, Bqs(asking.confidence, asking.replicates, asking.seed))


def _with_spread(group: _Group, spreads: Spreads) -> _Group:
    """The group with the spread of its weights over pairs, if its estimator has weights."""
    of_all = spreads.get((group.models[0].name, group.key[0], WEIGHT, ALL, 0))
    nothing = None if of_all is None else NO_PAIRS
    return group._replace(spread=spreads.get((group.models[0].name, group.key[0], WEIGHT, group.key[3], 0), nothing))


def _stratified_groups(groups: list[_Group], spreads: Spreads) -> list[_Group]:
    """The groups of estimators that combine strata of propensity, from the slices of holdout."""
    strata = strata_in(sorted({group.key[3] for group in groups}))
    cells: dict[tuple[str, int], dict[str, _Group]] = {}
    for group in groups if strata else ():
        if group.key[0] == HOLDOUT.name:
            cells.setdefault(group.key[1:3], {})[group.key[3]] = group
    found = []
    for (metric, k), slices in sorted(cells.items()):
        whole = slices[ALL]
        names = [model.name for model in whole.models]
        sums = {name: {m.name: (m.a, m.b, m.sums.n_unknown > 0) for m in one.models} for name, one in slices.items()}
        for (kind, n), own in strata.items():
            for one in stratified(kind, n, names, own, sums, spreads):
                estimand = f"{whole.about.estimand.rstrip('.')}; by stratum of propensity: {one.estimator.caveat}."
                about = whole.about._replace(estimator=one.estimator._replace(name=one.name), estimand=estimand)
                models = [model._replace(a=np.zeros(N_COARSE), b=np.zeros(N_COARSE)) for model in whole.models]
                caveat = f"strata with {one.left_out:.1%} of the weight have no positive" if one.left_out > 0 else ""
                found.append(
                    _Group(
                        (one.name, metric, k, ALL),
                        about,
                        models,
                        one.linear.models,
                        None,
                        one.linear,
                        one.spread,
                        caveat,
                    )
                )
    return found


def _class_groups(groups: list[_Group]) -> list[_Group]:
    """The groups of metrics that compare classes of popularity, from the slices of classes."""
    cells: dict[tuple[str, str, int], dict[str, _Group]] = {}
    for group in groups:
        if group.about.over_classes is not None:
            cells.setdefault(group.key[:3], {})[group.key[3]] = group
    found = []
    for (name, metric, k), slices in sorted(cells.items()):
        whole = max(slices.values(), key=lambda group: max(model.sums.n_users for model in group.models))
        sums = {part: {m.name: (m.a, m.b, m.sums.n_unknown > 0) for m in one.models} for part, one in slices.items()}
        assert whole.about.over_classes is not None
        one = over_classes(whole.about.over_classes, [model.name for model in whole.models], sums)
        estimator = whole.about.estimator._replace(combine=over_classes, undefined="no class has a positive mean")
        about = whole.about._replace(
            estimator=estimator, estimand=f"{whole.about.estimand.rstrip('.')}: {one.remark}.", over_classes=None
        )
        models = [model._replace(a=np.zeros(N_COARSE), b=np.zeros(N_COARSE)) for model in whole.models]
        found.append(_Group((name, metric, k, ALL), about, models, one.linear.models, None, one.linear))
    return found


def _test_set_groups(groups: list[_Group], spreads: Spreads) -> list[_Group]:
    """The groups of test sets, each over its draws, from the slices of draws."""
    sets = sets_in(sorted({group.key[3] for group in groups}))
    cells: dict[tuple[str, int], dict[str, _Group]] = {}
    for group in groups if sets else ():
        cells.setdefault(group.key[1:3], {})[group.key[3]] = group
    found = []
    for (metric, k), slices in sorted(cells.items()):
        sums = {name: {m.name: (m.a, m.b, m.sums.n_unknown > 0) for m in one.models} for name, one in slices.items()}
        for name, draws in sets.items():
            whole = slices[draws[0]]
            one = combined_set(name, draws, [model.name for model in whole.models], sums)
            about = whole.about._replace(estimator=COMBINED._replace(name=one.name))
            models = []
            for m, model in enumerate(whole.models):
                each = [slices[draw].models[m].sums for draw in draws]
                users, left_out = (
                    round(sum(getattr(x, c) for x in each) / len(each)) for c in ("n_users", "n_left_out")
                )
                counts = {"n_users": users, "n_left_out": left_out, "n_unknown": max(x.n_unknown for x in each)}
                models.append(
                    model._replace(a=np.zeros(N_COARSE), b=np.zeros(N_COARSE), sums=model.sums._replace(**counts))
                )
            pairs = [spreads.get((models[0].name, TEST_SET.name, WEIGHT, draw, 0), NO_PAIRS).n for draw in draws]
            found.append(
                _Group(
                    (one.name, metric, k, ALL),
                    about,
                    models,
                    one.linear.models,
                    None,
                    one.linear,
                    draws=len(draws),
                    draws_sd=one.sd,
                    n_pairs=round(sum(pairs) / len(pairs)),
                )
            )
    return found


def described_as(estimator: str, metric: str, about: Mapping[tuple[str, str], Described]) -> Described:
    """The description: from the caller, else from the registry."""
    base = Metric(metric, 0).base
    if (estimator, base) in about:
        return about[estimator, base]
    if base in METRICS and METRICS[base].lists and estimator in ESTIMATORS:
        kernel = METRICS[base].lists
        assert kernel is not None
        return Described(ESTIMATORS[estimator], kernel.estimand, NO_LIST, PARTIAL, kernel)
    return _of_formula(formula(estimator, base))


def _groups(table: pa.Table, asking: InferenceSettings, about: Mapping[tuple[str, str], Described]) -> Iterator[_Group]:
    """The rows by group and model, in an order that does not depend on the input order."""
    slices = (
        table.column("slice").combine_chunks()
        if "slice" in table.column_names
        else pa.nulls(table.num_rows, pa.string())
    )
    table = (
        table.set_column(table.column_names.index("slice"), "slice", slices.fill_null(ALL))
        if "slice" in table.column_names
        else table.append_column("slice", slices.fill_null(ALL))
    )
    names, which = _numbered(table, (*KEYS, "model"))
    totals = _totals(table, which, len(names))
    a, b, aa = (table.column(column).cast(pa.float64()).fill_null(0.0).to_numpy() for column in ("a", "b", "aa"))
    bucket = table.column("bucket").to_numpy().astype(np.int64)
    stratum = table.column("stratum").combine_chunks()
    valid = stratum.is_valid().to_numpy(zero_copy_only=False)
    kinds = np.stack(
        [
            stratum.field(name).fill_null(-1).to_numpy(zero_copy_only=False)
            for name in ("exposures", "candidates", "positives")
        ],
        axis=1,
    ).astype(np.int64)
    users = pc.add(table.column("n_users"), table.column("n_left_out")).to_numpy()
    order = np.lexsort((*kinds.T[::-1], bucket, which))
    starts = np.searchsorted(which[order], np.arange(len(names) + 1))
    for key, members in groupby(range(len(names)), key=lambda n: names[n][:4]):
        numbers = list(members)
        own = described_as(key[0], key[1], about)
        stratified = own.estimator.stratum is not None
        n_buckets = N_COARSE if stratified or key[3] != ALL else N_BUCKETS
        models = []
        for n in numbers:
            rows = order[starts[n] : starts[n + 1]]
            by_bucket = [np.bincount(bucket[rows], x[rows], minlength=n_buckets).astype(np.float64) for x in (a, b)]
            sums, ties = totals[n]
            models.append(_Model(names[n][4], sums, ties, by_bucket[0], by_bucket[1]))
        if not stratified:
            yield _Group(key, own, models, _paired(models), None)
            continue
        rows = order[starts[numbers[0]] : starts[numbers[-1] + 1]]
        model_of = np.repeat(np.arange(len(numbers)), np.diff(starts[[*numbers, numbers[-1] + 1]]))
        strata = None
        if valid[rows].all():  # not where exposure was not uniform, even on some days only
            columns = [x[rows] for x in (users, a, aa)]
            strata = _strata(kinds[rows], model_of, bucket[rows] % N_COARSE, columns, len(numbers))
        yield _combined(_Group(key, own, models, _paired(models), strata))


def _numbered(table: pa.Table, columns: Sequence[str]) -> tuple[list[tuple[Any, ...]], npt.NDArray[np.int64]]:
    """The different combinations of some columns in order, and the number of each row's."""
    code = np.zeros(table.num_rows, np.int64)
    values: list[list[Any]] = []
    for name in columns:
        encoded = table.column(name).combine_chunks().dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        own = sorted(distinct)
        place = np.array([own.index(value) for value in distinct], np.int64)
        code = code * len(own) + place[encoded.indices.to_numpy(zero_copy_only=False)]
        values.append(own)
    codes, which = np.unique(code, return_inverse=True)
    places: list[npt.NDArray[np.int64]] = []
    for own in reversed(values):
        codes, rest = np.divmod(codes, len(own))
        places.insert(0, rest)
    parts = [[own[n] for n in rest.tolist()] for own, rest in zip(values, places, strict=True)]
    return list(zip(*parts, strict=True)), which.reshape(-1)


def _totals(table: pa.Table, which: npt.NDArray[np.int64], n: int) -> list[tuple[RatioSums, tuple[float, float]]]:
    """The exact sums of each group and model, and its value with ties broken against and for the model."""
    numbers = table.select([*COUNTS, *SUMS]).append_column("which", pa.array(which))
    summed = numbers.group_by("which").aggregate([(name, "sum") for name in (*COUNTS, *SUMS)]).sort_by("which")
    columns = {name: summed.column(f"{name}_sum").to_pylist() for name in (*COUNTS, *SUMS)}
    found = []
    for row in range(n):
        counts = {name: int(columns[name][row]) for name in COUNTS}
        exact = {name: None if columns[name][row] is None else int(columns[name][row] * SCALE) for name in SUMS}
        sums = RatioSums(**counts, **{name: exact[name] or 0 for name in ("a", "b", "aa", "ab", "bb")})
        low, high = exact["a_low"], exact["a_high"]
        known = sums.b and not sums.n_unknown and low is not None and high is not None
        found.append((sums, (low / sums.b, high / sums.b) if known else (math.nan, math.nan)))  # type: ignore[operator]
    return found


def _paired(models: list[_Model]) -> Paired:
    a, b = np.array([m.a for m in models]), np.array([m.b for m in models])
    unknown = np.array([m.sums.n_unknown for m in models]) > 0
    return paired(np.where(unknown[:, None], np.nan, a), b)


def _strata(
    kinds: npt.NDArray[np.int64],
    model: npt.NDArray[np.int64],
    unit: npt.NDArray[np.int64],
    columns: list[Any],
    n_models: int,
) -> tuple[npt.NDArray[np.int64], Doubles]:
    """The strata of a group, and the users, sums and sums of squares of each, (n_models, n_strata, 3, N_COARSE)."""
    distinct, which = np.unique(kinds, axis=0, return_inverse=True)
    row = (model * len(distinct) + which.reshape(-1)) * N_COARSE + unit
    size = n_models * len(distinct) * N_COARSE
    sums = [np.bincount(row, x, minlength=size).reshape(n_models, len(distinct), N_COARSE) for x in columns]
    return distinct, np.stack(sums, axis=2)


def _combined(group: _Group) -> _Group:
    """The group with the values that its estimator combines from the strata; undefined where users have no strata."""
    n_models = len(group.models)
    nothing = Paired(np.full(n_models, np.nan), np.full((n_models, N_COARSE), np.nan), 0)
    if group.strata is None:
        return group._replace(values=nothing)
    kinds, table = group.strata
    unknown = np.array([m.sums.n_unknown > 0 for m in group.models])
    users = table[:, :, 0].max(axis=0).T  # the same for every model that ranked them all
    sums, squares = (np.where(unknown[:, None, None], 0.0, table[:, :, n].transpose(0, 2, 1)) for n in (1, 2))
    combine = group.about.estimator.combine
    assert combine is not None
    exposures, candidates, positives = kinds.T
    found = combine(Strata(exposures, candidates, positives, users, sums, squares))
    values = Paired(
        np.where(unknown, np.nan, found.models.values),
        np.where(unknown[:, None], np.nan, found.models.errors),
        found.models.n_units,
    )
    return group._replace(values=values, combined=found)


def _estimate_rows(groups: list[_Group], asking: InferenceSettings) -> Rows:
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


def _spread_columns(group: _Group, asking: InferenceSettings) -> dict[str, Any]:
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
        "effective_pairs": _known(effective),
        **{name: _known(share) for name, share in shares.items()},
        "unreliable": "; ".join(reasons) or None,
    }


def _draws_columns(group: _Group, m: int) -> dict[str, Any]:
    """The draws of a test set."""
    if group.draws_sd is None:
        return {}
    return {"draws": group.draws, "draws_sd": _known(float(group.draws_sd[m])), "n_pairs": group.n_pairs}


def _described_row(group: _Group, model: _Model, estimand: str, reason: str | None) -> dict[str, Any]:
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
    return {name: _known(x) for name, x in zip(names, numbers, strict=True)}


def _value(group: _Group, m: int, asking: InferenceSettings) -> tuple[list[float], tuple[float, float], str | None]:
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
    elif reason is None and math.isnan(error):
        reason = "too few users for a standard error: without one of their buckets the value is not defined"
    return [value, error, float(low), float(high)], no_bounds, reason


def _reason(sums: RatioSums, left_out: str, unknown: str) -> str | None:
    """The reason why a value or its interval is undefined."""
    if not sums.n_users:
        return f"no user can be used: all {sums.n_left_out:,} are {left_out}"
    if sums.n_unknown:
        return f"of {sums.n_unknown:,} of {sums.n_users:,} users it cannot be known: {unknown}"
    return "one user has no standard error" if sums.n_users == 1 else None


def _replicates(groups: list[_Group], asking: InferenceSettings) -> Doubles:
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


def _list_rows(group: _Group, table: pa.Table, asking: InferenceSettings) -> Rows:
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
        numbers = {"value": _known(value), "confidence": asking.confidence}
        rows.append(_described_row(group, model, kernel.estimand, reason) | numbers)
    return rows


def _known(x: float) -> float | None:
    return float(x) if x == x else None  # NaN is not equal to itself


Wins = dict[tuple[str, int], dict[tuple[str, str], int]]


def _wins(table: pa.Table) -> Wins:
    """The number of users for whom each model beats each other model, by metric and cutoff: the same for every
    estimator from random exposure.
    """
    has = table.filter(table.column("wins").is_valid())
    parts = []
    for batch in has.to_batches():
        entries = batch.column("wins")
        ends = entries.offsets.to_numpy()
        own = slice(ends[0], ends[-1]) if ends.size else slice(0)
        flat = batch.select(["estimator", "metric", "k", "model"]).take(np.repeat(np.arange(len(batch)), np.diff(ends)))
        parts.append(
            pa.table(flat.columns, flat.schema.names)
            .append_column("rival", entries.keys[own])
            .append_column("n", entries.items[own])
        )
    if not parts:
        return {}
    flat = pa.concat_tables(parts)
    summed = flat.group_by(["estimator", "metric", "k", "model", "rival"]).aggregate([("n", "sum")])
    wins: Wins = {}
    seen: dict[tuple[str, int], str] = {}
    for row in summed.sort_by("estimator").to_pylist():
        cell = row["metric"], row["k"]
        if seen.setdefault(cell, row["estimator"]) == row["estimator"]:
            wins.setdefault(cell, {})[row["model"], row["rival"]] = row["n_sum"]
    return wins


def _comparison_rows(groups: list[_Group], wins: Wins, asking: InferenceSettings) -> Rows:
    n_users = np.array([max(m.sums.n_users for m in group.models) for group in groups])
    pairs = compare_groups(
        np.array([group.values.values for group in groups]),
        np.array([group.values.errors for group in groups]),
        np.array([group.values.n_units for group in groups]),
        n_users,
        confidence=asking.confidence,
        margin=asking.margin,
        power=asking.power,
        hits=np.array([[_hit_size(m.sums) for m in group.models] for group in groups]),
    )
    level = 1 - asking.confidence
    rows: Rows = []
    for n, group in enumerate(groups):
        name, metric, k, part = group.key
        estimator = group.about.estimator
        won = wins.get((metric, k), {}) if part == ALL and _has_wins(estimator) else {}
        for p, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True)):
            first, second = group.models[i], group.models[j]
            difference, holm = float(pairs.difference[n, p]), float(pairs.p_holm[n, p])
            no_worse = float(pairs.p_no_worse_first[n, p]), float(pairs.p_no_worse_second[n, p])
            doubles = {
                "difference": difference,
                "standard_error": pairs.standard_error[n, p],
                "low": pairs.low[n, p],
                "high": pairs.high[n, p],
                "p": pairs.p[n, p],
                "p_holm": holm,
                "p_fdr": pairs.p_fdr[n, p],
                "p_a_no_worse": no_worse[0],
                "p_b_no_worse": no_worse[1],
            }
            scales = getattr(group.combined, "bias", None) is None
            needed, equivalent = (
                None if np.isnan(users) or not scales else int(users)
                for users in (pairs.users_needed[n, p], pairs.users_equivalent[n, p])
            )
            counts = dict(zip(("wins", "ties", "losses"), _wins_of_pair(first, second, won), strict=True))
            rows.append(
                {
                    "estimator": name,
                    "metric": metric,
                    "k": k,
                    "slice": part,
                    "model_a": first.name,
                    "model_b": second.name,
                    **{column: _known(float(x)) for column, x in doubles.items()},
                    **counts,
                    "confidence": asking.confidence,
                    "margin": asking.margin,
                    "verdict": _verdict(difference, holm, no_worse, level),
                    "users_needed": needed,
                    "power": asking.power,
                    "users_equivalent": equivalent,
                }
            )
    return rows


def _hit_size(sums: RatioSums) -> float:
    """What a user's hit adds to the value of a model."""
    return float(hit_size(*(np.array(x / SCALE) for x in (sums.a, sums.b, sums.aa))))


def _has_wins(estimator: Estimator) -> bool:
    """Whether models are compared per user: only where random exposures give a value per user."""
    return estimator.role == "estimate" and "random" in estimator.needs


def _wins_of_pair(
    first: _Model, second: _Model, won: dict[tuple[str, str], int]
) -> tuple[int | None, int | None, int | None]:
    """Wins, ties and losses among users with an exposed positive."""
    if (first.name, second.name) not in won or (second.name, first.name) not in won:
        return None, None, None
    wins, losses = won[first.name, second.name], won[second.name, first.name]
    return wins, max(min(first.sums.n_users, second.sums.n_users) - wins - losses, 0), losses


def _verdict(difference: float, p_holm: float, no_worse: tuple[float, float], level: float) -> str:
    """The verdict: a difference that is significant at the family-wise error rate, else that neither model is worse by
    more than the margin.
    """
    if p_holm < level:
        return "a better" if difference > 0 else "b better"
    return "equivalent" if max(no_worse) < level else "not decided"
