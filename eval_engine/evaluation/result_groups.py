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
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.metric import Metric
from eval_engine.statistics.balanced import Strata
from eval_engine.statistics.bucket_sums import COUNTS, N_BUCKETS, N_COARSE, SUMS
from eval_engine.statistics.few_hits import UNKNOWN_RANGE, Range
from eval_engine.statistics.paired import Paired, paired_groups
from eval_engine.statistics.ratio import RatioSums

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
    strata: tuple[Ints, Doubles] | None  # (n_strata, 3); (n_models, n_strata, 3, N_COARSE)
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
    bucket = table.column("bucket").to_numpy().astype(np.int64)
    kinds, kind_of, with_stratum = _kinds(table.column("stratum").combine_chunks())
    order = np.argsort((which * N_BUCKETS + bucket) * max(len(kinds), 1) + kind_of, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(names) + 1))
    totals = _totals(table, order, starts)
    a, b, aa = (table.column(column).cast(pa.float64()).fill_null(0.0).to_numpy() for column in ("a", "b", "aa"))
    users = pc.add(table.column("n_users"), table.column("n_left_out")).to_numpy()
    bucket, kind_of, which, with_stratum = bucket[order], kind_of[order], which[order], with_stratum[order]
    a, b, aa, users = (x[order] for x in (a, b, aa, users))
    keys = [(key, list(own)) for key, own in groupby(range(len(names)), key=lambda n: names[n][:4])]
    abouts = [described_as(key[0], key[1], about) for key, _ in keys]
    coarse = [own.estimator.stratum is not None or key[3] != ALL for own, (key, _) in zip(abouts, keys, strict=True)]
    sizes = np.repeat(np.where(coarse, N_COARSE, N_BUCKETS), [len(own) for _, own in keys]).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    by_bucket = [np.bincount(ends[which] + bucket, x, minlength=ends[-1]).astype(np.float64) for x in (a, b)]
    ready = [
        [ModelSums(names[n][4], *totals[n], *(x[ends[n] : ends[n + 1]] for x in by_bucket)) for n in own]
        for _, own in keys
    ]
    for (key, own), about_it, models, values in zip(keys, abouts, ready, _paired(ready), strict=True):
        group = ResultGroup(key, about_it, models, values, None)
        if about_it.estimator.stratum is None:
            yield group
            continue
        rows = slice(starts[own[0]], starts[own[-1] + 1])
        strata = None
        if with_stratum[rows].all():  # not where exposure was not uniform, even on some days only
            columns = [x[rows] for x in (users, a, aa)]
            places = which[rows] - own[0], bucket[rows] % N_COARSE
            strata = _strata(kinds, kind_of[rows], places, columns, len(own))
        yield _combined(group._replace(strata=strata))


def _kinds(stratum: pa.StructArray) -> tuple[Ints, Ints, Bools]:
    """The different strata in order, (n, 3), the number of each row's, and whether it has one."""
    names = ("exposures", "candidates", "positives")
    columns = [stratum.field(name).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) for name in names]
    code = np.zeros(len(stratum), np.int64)
    for column in columns:  # numbered anew after each column, so that numbers stay small
        values, place = np.unique(column, return_inverse=True)
        code = np.unique(code * max(values.size, 1) + place.reshape(-1), return_inverse=True)[1].reshape(-1)
    first = np.unique(code, return_index=True)[1]
    return np.stack(columns, axis=1)[first], code, stratum.is_valid().to_numpy(zero_copy_only=False)


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


def _totals(table: pa.Table, order: Ints, starts: Ints) -> list[tuple[RatioSums, tuple[float, float]]]:
    """The exact sums of each group and model, and its value with ties broken against and for the model. order: the rows
    by group and model; starts: the first of each, and their number.
    """
    if starts.size < 2:
        return []
    counts = [np.add.reduceat(table.column(name).to_numpy()[order], starts[:-1]).tolist() for name in COUNTS]
    sums = {name: _exact(table.column(name), order, starts) for name in SUMS}
    found = []
    for row, numbers in enumerate(zip(*counts, strict=True)):
        n_users, n_left_out, n_unknown = numbers
        a, b, aa, ab, bb = (sums[name][row] or 0 for name in ("a", "b", "aa", "ab", "bb"))
        low, high = sums["a_low"][row], sums["a_high"][row]
        ties = (math.nan, math.nan)
        if b and not n_unknown and low is not None and high is not None:
            ties = low / b, high / b
        found.append((RatioSums(n_users, n_left_out, a, b, aa, ab, bb, n_unknown), ties))
    return found


def _exact(column: pa.ChunkedArray, order: Ints, starts: Ints) -> list[int | None]:
    """The sums of a column of decimals, in units of 1e-12; None if all of them are NULL."""
    numbers = column.cast(pa.decimal128(38, 12)).combine_chunks()
    valid = numbers.is_valid().to_numpy(zero_copy_only=False)[order]
    begin = 2 * numbers.offset
    bits = np.frombuffer(numbers.buffers()[1], np.int64)[begin : begin + 2 * len(numbers)].reshape(-1, 2)
    low, high = (np.where(valid, x[order], 0) for x in bits.T)
    half = np.int64(2**32 - 1)
    parts = (low & half, (low >> np.int64(32)) & half, high)  # sums of 32 bits each are far below 64
    sums = (np.add.reduceat(x, starts[:-1]).tolist() for x in parts)
    some = np.logical_or.reduceat(valid, starts[:-1]).tolist()
    return [x + (y << 32) + (z << 64) if own else None for own, x, y, z in zip(some, *sums, strict=True)]


def _paired(groups: list[list[ModelSums]]) -> list[Paired]:
    """The values and errors of the models of each group."""
    found: list[Paired | None] = [None] * len(groups)
    shapes: dict[tuple[int, int], list[int]] = {}
    for n, models in enumerate(groups):
        shapes.setdefault((len(models), models[0].a.size), []).append(n)
    for shape, own in shapes.items():
        a, b = (np.concatenate([getattr(m, x) for n in own for m in groups[n]]).reshape(-1, *shape) for x in ("a", "b"))
        unknown = np.array([m.sums.n_unknown > 0 for n in own for m in groups[n]]).reshape(-1, shape[0], 1)
        for n, one in zip(own, paired_groups(np.where(unknown, np.nan, a), b), strict=True):
            found[n] = one
    return [one for one in found if one is not None]


def _strata(
    kinds: Ints, kind_of: Ints, places: tuple[Ints, Ints], columns: list[Any], n_models: int
) -> tuple[Ints, Doubles]:
    """The strata of a group, and the users, sums and sums of squares of each, (n_models, n_strata, 3, N_COARSE).
    places: model and bucket of each row.
    """
    own, which = np.unique(kind_of, return_inverse=True)
    row = (places[0] * own.size + which.reshape(-1)) * N_COARSE + places[1]
    size = n_models * own.size * N_COARSE
    sums = [np.bincount(row, x, minlength=size).reshape(n_models, own.size, N_COARSE) for x in columns]
    return kinds[own], np.stack(sums, axis=2)


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


def nullable(x: Doubles) -> list[float | None]:
    """The numbers; NULL for NaN."""
    return [None if one != one else one for one in x.ravel().tolist()]  # NaN is not equal to itself


def known(x: float) -> float | None:
    """The number; NULL for NaN."""
    return float(x) if x == x else None  # NaN is not equal to itself
