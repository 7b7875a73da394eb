"""Statistics of each bucket of users, from the packed rows of tasks (user_sums.py): total sums, and the number of users
for whom each model beats each other model.
"""

from decimal import Context, Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.evaluation.added_rows import Keys, added_rows
from eval_engine.evaluation.list_counts import histograms, list_cutoffs
from eval_engine.evaluation.packed_rows import COARSE, EVERYTHING, ITEMS, ROW, WEIGHTS, unpacked
from eval_engine.evaluation.pair_weights import statistics_of_weights
from eval_engine.evaluation.spec import ALL, EvaluationSpec
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.statistics.bucket_sums import COUNTS, LIMB, SUMS
from eval_engine.statistics.pairwise_wins import wins
from eval_engine.statistics.ratio import LARGEST_SUM, SCALE
from eval_engine.tables import STATISTICS

EXACT = Context(prec=76)
WITHOUT_BOUNDS = SUMS.index("a_low")


def statistics_rows(packed: list[tuple[Any, ...]], spec: EvaluationSpec) -> pa.RecordBatch:
    """Rows of the statistics table, without run_id, from rows of PACKED: all rows of some buckets."""
    asked, compared, lists = spec.asked(), spec.compared(), spec.lists()
    models = sorted({row[1] for row in packed})
    own = [(models.index(row[1]), unpacked(row[2])) for row in packed if row[2] is not None]
    model_of: Ints = np.repeat([model for model, _ in own], [rows.size for _, rows in own]).astype(np.int64)
    keys, sums = added_rows(np.concatenate([np.empty(0, ROW), *(rows for _, rows in own)]), model_of, spec)
    cells, model_of, part, stratum = keys.cell, keys.model, keys.slice, keys.stratum
    bucket = np.where(keys.bucket >= COARSE, keys.bucket - COARSE, keys.bucket)

    def of_cell(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(cells))

    names = [formula.estimator.name for formula, _ in asked] + [estimator.name for estimator, _, _ in lists]
    metrics = [metric for _, metric in asked] + [metric for _, _, metric in lists]
    slices = pa.array([ALL, *spec.slice_names()], pa.string())
    everything = part == EVERYTHING
    columns: dict[str, pa.Array] = {
        "model": pa.array(models, pa.string()).take(pa.array(model_of)),
        "estimator": of_cell(names, pa.string()),
        "metric": of_cell([m.name for m in metrics], pa.string()),
        "k": of_cell([m.k for m in metrics], pa.int32()),
        "slice": slices.take(pa.array(part + 1)),
        "stratum": pa.StructArray.from_arrays(
            [pa.array(stratum[:, n], pa.int32()) for n in range(3)],
            ["exposures", "candidates", "positives"],
            mask=pa.array((stratum < 0).any(axis=1)),
        ),
        "bucket": pa.array(bucket, pa.int32()),
        **{name: pa.array(sums.counts[:, n]) for n, name in enumerate(COUNTS)},
        **{
            name: _decimals(sums.whole[:, n], sums.part[:, n], everything if n >= WITHOUT_BOUNDS else None)
            for n, name in enumerate(SUMS)
        },
    }
    win_columns = [
        next((n for n, (_, other) in enumerate(compared) if other == spec.win_metric_of(metric)), -1)
        if formula.estimator.role == "estimate"
        and formula.estimator.stratum is None
        and "random" in formula.estimator.needs
        else -1
        for formula, metric in asked
    ] + [-1] * len(lists)
    won = _won([row for row in packed if row[0] < COARSE], models, len(compared))
    columns["wins"] = _wins_column(models, keys, np.array(win_columns, np.int64), won)
    columns["items"] = pa.nulls(cells.size, pa.map_(pa.int64(), pa.int64()))
    batch = pa.RecordBatch.from_pydict({name: columns[name] for name in STATISTICS.names if name != "run_id"})
    more = [_list_rows(packed, models, spec, batch.schema), _weight_rows(packed, spec, batch.schema)]
    return pa.concat_batches([batch, *(rows for rows in more if rows is not None)])


def _list_rows(
    packed: list[tuple[Any, ...]], models: list[str], spec: EvaluationSpec, schema: pa.Schema
) -> pa.RecordBatch | None:
    """Recommendation counts of items, one row for each list metric, model and bucket of items."""
    cutoffs = list_cutoffs(spec)
    rows = []
    for (bucket, model), parts in groupby(
        sorted((row for row in packed if ITEMS <= row[0] < WEIGHTS), key=itemgetter(0, 1)), key=itemgetter(0, 1)
    ):
        counts = histograms([(items, numbers) for _, _, _, items, numbers in parts], len(cutoffs))
        for estimator, _, metric in spec.lists():
            found = counts[cutoffs.index(metric.k)]
            rows.append(
                {
                    "model": model,
                    "estimator": estimator.name,
                    "metric": metric.name,
                    "k": metric.k,
                    "slice": ALL,
                    "bucket": bucket - ITEMS,
                    **dict.fromkeys(COUNTS, 0),
                    "items": list(found.items()),
                }
            )
    return pa.RecordBatch.from_pylist(rows, schema) if rows else None


def _weight_rows(packed: list[tuple[Any, ...]], spec: EvaluationSpec, schema: pa.Schema) -> pa.RecordBatch | None:
    """The spread of weights over pairs, of each model."""
    rows: list[dict[str, Any]] = []
    slices = [ALL, *spec.slice_names()]
    mine = sorted((row[1], row[3]) for row in packed if row[0] == WEIGHTS)
    for model, parts in groupby(mine, key=itemgetter(0)):
        rows += statistics_of_weights([part for _, part in parts], slices, model)
    if not rows:
        return None
    for row in rows:
        for name in SUMS:
            row[name] = Decimal(row.get(name, 0)).scaleb(-12, EXACT)
    return pa.RecordBatch.from_pylist(rows, schema)


def _won(packed: list[tuple[Any, ...]], models: list[str], n_values: int) -> dict[int, npt.NDArray[np.int64]]:
    """By bucket: the number of users for whom each model beats each other model, for each compared quantity."""
    found = {}
    for bucket, rows in groupby(packed, key=itemgetter(0)) if n_values else ():  # rows are sorted by bucket
        users = {model: [np.empty(0, np.int64)] for model in models}
        values = {model: [np.empty((n_values, 0), np.float32)] for model in models}
        for _, model, _, keys, numbers in rows:
            if keys is not None:
                users[model].append(np.frombuffer(keys, np.int64))
                values[model].append(np.frombuffer(numbers, np.float32).reshape(n_values, -1))
        found[bucket] = wins(
            [np.concatenate(users[m]) for m in models], [np.concatenate(values[m], axis=1) for m in models], n_values
        )
    return found


def _wins_column(
    models: list[str], keys: Keys, win_columns: npt.NDArray[Any], won: dict[int, npt.NDArray[np.int64]]
) -> pa.Array:
    """For each row of all users: the number of users for whom its model beats each other model; NULL for slices and
    strata.
    """
    has = (keys.slice == EVERYTHING) & (keys.bucket < COARSE) & (win_columns[keys.cell] >= 0)
    model_of = keys.model
    n = len(models)
    offsets = np.concatenate([[0], np.cumsum(np.where(has, n - 1, 0))]).astype(np.int32)
    rivals = np.array([[j for j in range(n) if j != i] for i in range(n)], np.int64).reshape(n, n - 1)
    names = rivals[model_of[has]].reshape(-1)
    buckets = sorted(won)
    table = np.stack([won[b] for b in buckets]) if buckets else np.zeros((0, n, n, 1), np.int64)
    of_bucket = np.searchsorted(buckets, keys.bucket[has])[:, None]
    one, column = model_of[has][:, None], win_columns[keys.cell[has]][:, None]
    counts = table[of_bucket, one, rivals[model_of[has]], column] if has.any() else np.empty(0, np.int64)
    keys = pa.array(models, pa.string()).take(pa.array(names, pa.int64()))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, pa.array(counts.reshape(-1)), mask=pa.array(~has))


def _decimals(whole: Ints, part: Ints, valid: Bools | None = None) -> pa.Array:
    """whole + part / 1e12 as DECIMAL(38, 12), exact; NULL where not valid."""
    bits = np.empty((whole.size, 2), np.int64)
    bits[:, 0] = whole * LIMB + part  # the lower 64 of 128 bits
    bits[:, 1] = bits[:, 0] >> np.int64(63)
    some = np.flatnonzero(np.abs(whole) >= LARGEST_SUM // SCALE)  # where they do not suffice
    bits[some, 1] = _high(whole[some], part[some])
    mask = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.decimal128(38, 12), whole.size, [mask, pa.py_buffer(bits)])


def _high(whole: Ints, part: Ints) -> Ints:
    """The upper 64 bits of whole * LIMB + part, |whole| < 2^62 and 0 <= part < LIMB."""
    half, bits = np.int64(2**32 - 1), np.int64(32)
    upper, lower = whole >> bits, whole & half  # whole = upper * 2^32 + lower, 0 <= lower < 2^32
    units, rest = LIMB >> bits, LIMB & half
    first = lower.astype(np.uint64) * np.uint64(rest)
    middle = upper * rest + lower * units + (first >> np.uint64(32)).astype(np.int64)
    low = (first & np.uint64(half)) + (middle.astype(np.uint64) << np.uint64(32))  # modulo 2^64
    carry = (low + part.astype(np.uint64) < low).astype(np.int64)
    found: Ints = upper * units + (middle >> bits) + carry
    return found
