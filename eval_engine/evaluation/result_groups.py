"""Groups of results: an estimator, metric, cutoff and slice, with the sums of all models by bucket and what describes
them, from rows of statistics.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.estimators.estimator import Estimator, MetricTerms
from eval_engine.estimators.lists import NO_LIST
from eval_engine.estimators.metrics.kernel import PARTIAL, ListKernel, OverClasses
from eval_engine.estimators.registry import ESTIMATORS, METRICS, formula
from eval_engine.evaluation.bqs_settings import BqsRule
from eval_engine.evaluation.pair_weights import Spread
from eval_engine.evaluation.spec import ALL, EvaluationSpec
from eval_engine.metric import Metric
from eval_engine.statistics.balanced import Strata
from eval_engine.statistics.bucket_sums import COUNTS, N_BUCKETS, N_COARSE, SUMS
from eval_engine.statistics.few_hits import UNKNOWN_RANGE, Range
from eval_engine.statistics.paired import Paired, paired
from eval_engine.statistics.ratio import SCALE, RatioSums

Doubles = npt.NDArray[np.floating[Any]]
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


class ModelSums(NamedTuple):
    """All buckets of one model in a group."""

    name: str
    sums: RatioSums
    ties: tuple[float, float]  # the value with ties broken against and for the model
    a: Doubles  # (n_buckets,)
    b: Doubles


class ResultGroup(NamedTuple):
    """An estimator, metric, cutoff and slice."""

    key: tuple[str, str, int, str]
    about: Described
    models: list[ModelSums]
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


def groups_of(
    table: pa.Table, asking: InferenceSettings, about: Mapping[tuple[str, str], Described]
) -> Iterator[ResultGroup]:
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
            models.append(ModelSums(names[n][4], sums, ties, by_bucket[0], by_bucket[1]))
        if not stratified:
            yield ResultGroup(key, own, models, _paired(models), None)
            continue
        rows = order[starts[numbers[0]] : starts[numbers[-1] + 1]]
        model_of = np.repeat(np.arange(len(numbers)), np.diff(starts[[*numbers, numbers[-1] + 1]]))
        strata = None
        if valid[rows].all():  # not where exposure was not uniform, even on some days only
            columns = [x[rows] for x in (users, a, aa)]
            strata = _strata(kinds[rows], model_of, bucket[rows] % N_COARSE, columns, len(numbers))
        yield _combined(ResultGroup(key, own, models, _paired(models), strata))


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


def _paired(models: list[ModelSums]) -> Paired:
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


def _combined(group: ResultGroup) -> ResultGroup:
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


def known(x: float) -> float | None:
    """The number; NULL for NaN."""
    return float(x) if x == x else None  # NaN is not equal to itself
