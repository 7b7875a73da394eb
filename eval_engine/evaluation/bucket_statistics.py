"""Statistics of each bucket of users, from what tasks found of it (user_sums.py): sums added up, and how many users each model wins against each other one."""

from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.evaluation.spec import EvaluationSpec, win_metric_of
from eval_engine.evaluation.user_sums import ROW
from eval_engine.kernels.arrays import Ints
from eval_engine.statistics.bucket_sums import COUNTS, LIMB, SUMS, Sums, added
from eval_engine.statistics.pairwise_wins import wins
from eval_engine.statistics.ratio import LARGEST_SUM, SCALE


def statistics_rows(packed: list[tuple[Any, ...]], question: EvaluationSpec) -> pa.RecordBatch:
    """Rows of the statistics table, but for run_id, of rows of PACKED: all that there is of some buckets."""
    asked, compared = question.asked(), question.compared()
    models = sorted({row[1] for row in packed})
    own = [(models.index(row[1]), np.frombuffer(row[2], ROW)) for row in packed if row[2] is not None]
    model_of = np.repeat([model for model, _ in own], [rows.size for _, rows in own])
    every, model_of = _added_rows(np.concatenate([np.empty(0, ROW), *(rows for _, rows in own)]), model_of)
    cells = every["cell"]

    def told(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(cells))

    columns: dict[str, pa.Array] = {
        "model": pa.array(models, pa.string()).take(pa.array(model_of)),
        "estimator": told([e.name for e, _ in asked], pa.string()),
        "metric": told([e.metric for e, _ in asked], pa.string()),
        "k": told([m.k for _, m in asked], pa.int32()),
        "stratum": pa.StructArray.from_arrays(
            [pa.array(every["stratum"][:, n], pa.int32()) for n in range(3)],
            ["exposures", "candidates", "positives"],
            mask=pa.array((every["stratum"] < 0).any(axis=1)),
        ),
        "bucket": pa.array(every["bucket"], pa.int32()),
        **{name: pa.array(every["counts"][:, n]) for n, name in enumerate(COUNTS)},
        **{name: _decimals(every["whole"][:, n], every["part"][:, n]) for n, name in enumerate(SUMS)},
    }
    pairwise_wins = [
        compared.index(win_metric_of(m)) if e.name.startswith("ure") and win_metric_of(m) in compared else -1
        for e, m in asked
    ]
    columns["wins"] = _wins_column(
        models, every, model_of, np.array(pairwise_wins), _won(packed, models, len(compared))
    )
    return pa.RecordBatch.from_pydict(columns)


def _added_rows(rows: npt.NDArray[Any], model_of: Ints) -> tuple[npt.NDArray[Any], Ints]:
    """Rows with the same key in one, in the order of their keys; and the model of each."""
    keys = [model_of, rows["cell"], rows["bucket"], *rows["stratum"].T]
    order = np.lexsort(keys[::-1])
    rows, model_of = rows[order], model_of[order]
    new = np.ones(rows.size, np.bool_)
    new[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys]) if rows.size else new[1:]
    found = rows[new]
    sums = Sums(*(np.ascontiguousarray(rows[name]) for name in ("counts", "whole", "part")))
    found["counts"], found["whole"], found["part"] = added(sums, np.cumsum(new) - 1, found.size)
    return found, model_of[new]


def _won(packed: list[tuple[Any, ...]], models: list[str], n_values: int) -> dict[int, npt.NDArray[np.int64]]:
    """By bucket: how many users each model wins against each other one, by each number that is compared."""
    found = {}
    for bucket, rows in groupby(packed, key=itemgetter(0)) if n_values else ():  # rows lie bucket by bucket
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
    models: list[str],
    rows: npt.NDArray[Any],
    model_of: npt.NDArray[Any],
    pairwise_wins: npt.NDArray[Any],
    won: dict[int, npt.NDArray[np.int64]],
) -> pa.Array:
    """Of each row: the users that its model wins against each other model; NULL but for the first stratum of a model's cell and bucket."""
    first = np.ones(rows.size, np.bool_)
    first[1:] = (
        (rows["cell"][1:] != rows["cell"][:-1])
        | (rows["bucket"][1:] != rows["bucket"][:-1])
        | (model_of[1:] != model_of[:-1])
    )
    has = first & (pairwise_wins[rows["cell"]] >= 0)
    n = len(models)
    offsets = np.concatenate([[0], np.cumsum(np.where(has, n - 1, 0))]).astype(np.int32)
    rivals = np.array([[j for j in range(n) if j != i] for i in range(n)], np.int64).reshape(n, n - 1)
    names = rivals[model_of[has]].reshape(-1)
    counts = np.array(
        [
            won[b][i, rivals[i], d]
            for b, i, d in zip(rows["bucket"][has], model_of[has], pairwise_wins[rows["cell"][has]], strict=True)
        ],
        np.int64,
    )
    keys = pa.array(models, pa.string()).take(pa.array(names, pa.int64()))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, pa.array(counts.reshape(-1)), mask=pa.array(~has))


def _decimals(whole: npt.NDArray[np.int64], part: npt.NDArray[np.int64]) -> pa.Array:
    """whole + part / 1e12 as DECIMAL(38, 12), exactly."""
    bits = np.empty((whole.size, 2), np.int64)
    bits[:, 0] = whole * LIMB + part  # the lower 64 of 128 bits, where they are enough
    bits[:, 1] = bits[:, 0] >> np.int64(63)
    for n in np.flatnonzero(np.abs(whole) >= LARGEST_SUM // SCALE):
        bits[n] = np.frombuffer((int(whole[n]) * SCALE + int(part[n])).to_bytes(16, "little", signed=True), np.int64)
    return pa.Array.from_buffers(pa.decimal128(38, 12), whole.size, [None, pa.py_buffer(bits)])
