"""The sums of all tasks added up, and given to the cells and slices that they are of.

    place   model, group (an estimator and a metric), slice, bucket and stratum
    row     a place and a cell (a cutoff)

Tasks send, of each place, the sums that all its cells share (denominators), and sums of single cells (numerators).
Users without a positive are in slice ZERO of their group: they belong to each of its slices of items and pairs.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.estimators.balanced_ure import NO_STRATUM
from eval_engine.evaluation.packed_rows import ZERO
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.kernels.arrays import Ints
from eval_engine.statistics.bucket_sums import Sums, add_rows, add_shared, added

BUCKETS = 1024  # more than there are numbers of buckets
DENSE = 1 << 24  # numbers of places that are looked up in a table


class Keys(NamedTuple):
    """What rows of sums are of."""

    model: Ints
    cell: Ints
    slice: Ints
    bucket: Ints
    stratum: Ints  # (n, 3)


def added_rows(rows: npt.NDArray[Any], model: Ints, spec: EvaluationSpec) -> tuple[Keys, Sums]:
    """The sums of every cell, from rows of ROW of the sums of tasks; model: the number of each row's. Rows without
    users are left out.
    """
    groups = _cells_of_groups(spec)
    flat = np.array([cell for cells in groups for cell in cells], np.int64)
    n_cells = np.array([len(cells) for cells in groups], np.int64)
    group_of, first = np.repeat(np.arange(len(groups)), n_cells)[np.argsort(flat)], np.cumsum(n_cells) - n_cells
    within = np.empty(flat.size, np.int64)
    within[flat] = np.arange(flat.size) - np.repeat(first, n_cells)
    cell = rows["cell"].astype(np.int64)
    shared = cell < 0
    own_cell = np.where(shared, 0, cell)
    group = np.where(shared, -1 - cell, group_of[own_cell])
    strata, stratum = _numbered_strata(rows["stratum"])
    n_slices = len(spec.slice_names()) - ZERO
    sizes = (len(groups), n_slices, BUCKETS, len(strata))
    code = model
    for part, size in zip((group, rows["slice"] - ZERO, rows["bucket"], stratum), sizes, strict=True):
        code = code * size + part
    slice_unit = BUCKETS * len(strata)

    # users without a positive in every slice: a place of each
    zero = np.unique(code[shared & (rows["slice"] == ZERO)])
    slices = [spec.codes_of_pairs(one.formula.estimator) for one in spec.groups()]
    own = [
        slices[g] if g < len(slices) else [] for g in (zero // (slice_unit * n_slices) % max(len(groups), 1)).tolist()
    ]
    copied = np.repeat(np.arange(zero.size), [len(codes) for codes in own])
    to = zero[copied] + slice_unit * (np.concatenate([np.empty(0, np.int64), *own]).astype(np.int64) - ZERO)
    places, number = _numbered(np.concatenate([code, zero, to]))
    place, of_zero, place_of_copy = np.split(number, [code.size, code.size + zero.size])

    sums = Sums(*(rows[name] for name in ("counts", "whole", "part")))
    base = added(sums, np.where(shared, place, -1), places.size)
    add_rows(base, Sums(*(x[of_zero[copied]] for x in base)), place_of_copy)
    rest, part = np.divmod(places, len(strata))
    rest, bucket = np.divmod(rest, BUCKETS)
    rest, sliced = np.divmod(rest, n_slices)
    model_of, group = np.divmod(rest, max(len(groups), 1))
    lengths = np.where(sliced == 0, 0, n_cells[group])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    found = added(sums, np.where(shared, -1, starts[place] + within[own_cell]), int(starts[-1]))
    add_shared(found, base, starts)
    of = np.repeat(np.arange(places.size), lengths)
    cells = flat[np.arange(of.size) - starts[of] + first[group[of]]]
    some = found.counts.any(axis=1)
    of, cells, found = of[some], cells[some], found if some.all() else Sums(*(x[some] for x in found))
    return Keys(model_of[of], cells, sliced[of] + ZERO, bucket[of], strata[part[of]]), found


def _cells_of_groups(spec: EvaluationSpec) -> list[tuple[int, ...]]:
    """The cells of each group; metrics of top lists are the last one."""
    groups = [group.cells for group in spec.groups()]
    if lists := spec.lists():
        groups.append(tuple(range(len(spec.asked()), len(spec.asked()) + len(lists))))
    return groups


def _numbered_strata(strata: npt.NDArray[np.int32]) -> tuple[Ints, Ints]:
    """The different strata, (n, 3), none first, and the number of each row's."""
    has = np.flatnonzero((strata != -1).any(axis=1))
    code = np.zeros(has.size, np.int64)
    for column in strata[has].astype(np.int64).T:  # numbered anew after each column, so that numbers stay small
        values, place = np.unique(column, return_inverse=True)
        code = np.unique(code * max(values.size, 1) + place.reshape(-1), return_inverse=True)[1].reshape(-1)
    first = np.unique(code, return_index=True)[1]
    numbers = np.zeros(len(strata), np.int64)
    numbers[has] = code + 1
    return np.concatenate([[NO_STRATUM], strata[has[first]]]).astype(np.int64), numbers


def _numbered(codes: Ints) -> tuple[Ints, Ints]:
    """The different codes in order, and the number of each."""
    size = int(codes.max(initial=-1)) + 1
    if size > DENSE:
        distinct, which = np.unique(codes, return_inverse=True)
        return distinct, which.reshape(-1)
    table = np.zeros(size, np.int64)
    table[codes] = 1
    distinct = np.flatnonzero(table)
    table[distinct] = np.arange(distinct.size)
    return distinct, table[codes]
