"""Statistics of several runs added up, and from them estimates of all runs together; nothing is ranked again.

Rows of the table `statistics` of one model, estimator, metric, cutoff, slice, stratum and bucket are added column by
column, in exact decimals, so that the order of the runs does not matter. Three things are not sums:

    a_high of (weight)     the largest weight: the largest of all runs
    items                  how many items were recommended how often: two runs' counts of one item are not kept apart
                           by item, so metrics of top lists have no value over several runs, and say why
    users                  one who is in two runs counts twice. Errors by bucket of users are still right, since all
                           runs of a user are in one bucket; those from second moments over users are not

So standard errors of a merged run are by bucket, for every estimator:

    se^2 = G / (G - 1) sum_g e_g^2,    e_g = (A_g - R B_g) / B,    G buckets        Student's t with G - 1 degrees

(statistics/paired.py; of few hits statistics/few_hits.py), 256 buckets for the whole and 32 for slices. The other
columns are those of results.py.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.evaluation.pair_weights import WEIGHT
from eval_engine.evaluation.result_groups import Described, InferenceSettings, Rows, described_as
from eval_engine.evaluation.results import Results, in_order, results_of
from eval_engine.evaluation.spec import ALL
from eval_engine.lake.arrow_schema import row_schema
from eval_engine.statistics.bucket_sums import COUNTS, N_BUCKETS, N_COARSE, SUMS
from eval_engine.statistics.few_hits import UNKNOWN_RANGE, Range, interval
from eval_engine.statistics.paired import paired
from eval_engine.tables import ESTIMATES, STATISTICS

STRATUM = ("exposures", "candidates", "positives")
CELL = ("model", "estimator", "metric", "k", "slice")
USER_DAYS = " A user of several merged runs counts once in each."
NOT_ADDED = "it counts items over all lists, which cannot be added up over runs"
SCHEMA = row_schema(STATISTICS, "BIGINT", ("run_id",))


def added(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows of all runs together, in the order of their key; metrics of top lists are left out (list_cells)."""
    total: pa.Table | None = None
    for table in tables:
        own = _shaped(table)
        total = _sums_by_key(own if total is None else pa.concat_tables([total, own]))
    if total is None:
        raise ValueError("there are no runs to add")
    return total


def list_cells(table: pa.Table) -> set[tuple[str, str, int]]:
    """The estimator, metric and cutoff of the rows that count items over lists."""
    chosen = table.filter(table.column("items").is_valid())
    return set(zip(*(chosen.column(name).to_pylist() for name in ("estimator", "metric", "k")), strict=True))


def merged_results(
    total: pa.Table, asking: InferenceSettings, about: Mapping[tuple[str, str], Described] | None = None
) -> Results:
    """The rows of all tables of results from added rows."""
    results = results_of(total, asking, about)
    errors = _errors_by_bucket(total)
    estimates = [_by_bucket(row, errors, asking.confidence, _range(row, about or {})) for row in results.estimates]
    return results._replace(estimates=in_order(ESTIMATES, estimates))


def without_value(rows: Iterable[dict[str, Any]], cells: set[tuple[str, str, int]]) -> Rows:
    """Estimates of metrics of top lists as rows of a merged run: no value, and the reason."""
    kept = ("model", "estimator", "metric", "k", "slice", "confidence", "estimand")
    empty = dict.fromkeys(name for name in ESTIMATES.names if name != "run_id")
    return [
        empty | {name: row[name] for name in kept} | {"reason": NOT_ADDED}
        for row in rows
        if (row["estimator"], row["metric"], row["k"]) in cells
    ]


def _shaped(table: pa.Table) -> pa.Table:
    """The columns of the contract; rows of older versions are of everything. Without metrics of top lists."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in SCHEMA
    ]
    shaped = pa.table(columns, schema=SCHEMA)
    place = SCHEMA.get_field_index("slice")
    shaped = shaped.set_column(place, SCHEMA.field("slice"), pc.fill_null(shaped.column("slice"), ALL))
    cells = list_cells(shaped)
    if not cells:
        return shaped
    names = zip(*(shaped.column(name).to_pylist() for name in ("estimator", "metric", "k")), strict=True)
    return shaped.filter(pa.array([name not in cells for name in names]))


def _sums_by_key(table: pa.Table) -> pa.Table:
    """The rows with equal keys added up."""
    which, first = _numbered(table)
    numbers = table.select([*COUNTS, *SUMS]).append_column("which", pa.array(which))
    summed = numbers.group_by("which").aggregate([(name, "sum") for name in (*COUNTS, *SUMS)] + [("a_high", "max")])
    summed = summed.sort_by("which")
    keys = table.take(pa.array(first))
    largest = pc.equal(keys.column("metric"), WEIGHT)
    columns = {name: summed.column(f"{name}_sum") for name in (*COUNTS, *SUMS)}
    columns["a_high"] = pc.if_else(largest, summed.column("a_high_max").cast(columns["a_high"].type), columns["a_high"])
    columns["wins"] = _wins(table.column("wins").combine_chunks(), which, len(first))
    made = [
        columns[field.name].cast(field.type) if field.name in columns else keys.column(field.name) for field in SCHEMA
    ]
    return pa.table(made, schema=SCHEMA)


def _numbered(table: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A number for each row, the same for equal keys and in their order; and the first row of each key."""
    stratum = table.column("stratum").combine_chunks()
    fields = [pc.if_else(stratum.is_valid(), pc.struct_field(stratum, name), None) for name in STRATUM]
    parts = [table.column(name) for name in CELL] + fields + [table.column("bucket")]
    which = np.zeros(len(table), np.int64)
    for part in parts:  # renumbered after each column, so that numbers stay small
        codes, size = _codes(part)
        which = np.unique(which * size + codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    first = np.unique(which, return_index=True)[1]
    return which, first.astype(np.int64)


def _codes(column: pa.ChunkedArray | pa.Array) -> tuple[npt.NDArray[np.int64], int]:
    """The place of each value among the sorted distinct values, NULL first, and how many there are."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = column.dictionary_encode()
    rank = np.argsort(np.argsort(np.array(encoded.dictionary.to_pylist()), kind="stable"), kind="stable") + 1
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.append(rank, 0)[places].astype(np.int64), len(rank) + 1


def _wins(wins: pa.MapArray, which: npt.NDArray[np.int64], n: int) -> pa.MapArray:
    """The maps of the rows with equal keys added up; NULL where none of them has one."""
    ends = wins.offsets.to_numpy()
    flat = pa.table(
        {
            "which": np.repeat(which, np.diff(ends)),
            "rival": wins.keys[ends[0] : ends[-1]],
            "n": wins.items[ends[0] : ends[-1]],
        }
    )
    summed = (
        flat.group_by(["which", "rival"])
        .aggregate([("n", "sum")])
        .sort_by([("which", "ascending"), ("rival", "ascending")])
    )
    lengths = np.bincount(summed.column("which").to_numpy(), minlength=n)
    has = np.bincount(which, wins.is_valid().to_numpy(zero_copy_only=False), minlength=n) > 0
    offsets = np.append(0, np.cumsum(lengths))
    starts = pa.array(offsets.astype(np.int32), mask=np.append(~has, False))
    return pa.MapArray.from_arrays(
        starts, summed.column("rival").combine_chunks(), summed.column("n_sum").combine_chunks()
    ).cast(SCHEMA.field("wins").type)


def _errors_by_bucket(total: pa.Table) -> dict[tuple[Any, ...], tuple[float, float, int]]:
    """The standard error of each estimate, its effective number of users and the number of its buckets."""
    columns = [total.column(name).to_pylist() for name in CELL]
    names = sorted(set(zip(*columns, strict=True)))
    number = {name: n for n, name in enumerate(names)}
    which = np.array([number[name] for name in zip(*columns, strict=True)], np.int64)
    bucket = total.column("bucket").to_numpy().astype(np.int64)
    size = len(names) * N_BUCKETS
    terms = []
    for column in ("a", "b"):
        x = total.column(column).cast(pa.float64()).fill_null(0.0).to_numpy()
        by_bucket = np.bincount(which * N_BUCKETS + bucket, x, minlength=size).astype(np.float64)
        terms.append(by_bucket.reshape(-1, N_BUCKETS))
    squares = total.column("bb").cast(pa.float64()).fill_null(0.0).to_numpy()
    squares = np.bincount(which, squares, minlength=len(names))
    found: dict[tuple[Any, ...], tuple[float, float, int]] = {}
    for n, cell in enumerate(names):
        n_buckets = N_BUCKETS if cell[-1] == ALL else N_COARSE
        one = paired(*(x[n, :n_buckets][None, :] for x in terms))
        users = terms[1][n].sum() ** 2 / squares[n] if squares[n] > 0 else 0.0
        found[cell] = float(np.sqrt(one.covariance[0, 0])), float(users), one.n_units
    return found


def _range(row: Mapping[str, Any], about: Mapping[tuple[str, str], Described]) -> Range:
    """The values that the estimate of a row can take."""
    if row["estimator"] not in ESTIMATORS:
        return UNKNOWN_RANGE
    return described_as(row["estimator"], row["metric"], about).range(row["k"])


def _by_bucket(
    row: dict[str, Any], errors: Mapping[tuple[Any, ...], tuple[float, float, int]], confidence: float, of: Range
) -> dict[str, Any]:
    """The row with its standard error by bucket; combined estimators have theirs by bucket already."""
    row = row | {"estimand": f"{(row['estimand'] or '').rstrip('.')}.{USER_DAYS}".lstrip(".")}
    error, users, n_units = errors.get(tuple(row[name] for name in CELL), (math.nan, math.nan, 0))
    if row["standard_error"] is None or math.isnan(error) or _is_combined(row["estimator"]):
        return row
    low, high = interval(row["value"], error, users, n_units - 1, confidence, of)
    return row | {"standard_error": error, "low": float(low), "high": float(high)}


def _is_combined(estimator: str) -> bool:
    return estimator not in ESTIMATORS or ESTIMATORS[estimator].combine is not None
