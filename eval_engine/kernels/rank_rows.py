"""All that ranking takes from a block of dense scores, in one visit per row: NaN check, scores, above and tied of the
labels, the first k.

The same numbers as rows_with_nan, count (kernels/compare_count.py) and top_lists (kernels/top_list.py) one after the
other; a row comes from memory once, while the row before is counted, and is then in the cache for all three. 10,000
items, 10 labels, first 101, one core: 890 M scores/s, where numpy's sort of the row with two lookups, which gives
neither positions nor a NaN check, does 200 to 230 (make bench-rank, dense-kernel).

Excluded positions are not among the first k, and no candidates of the labels, but for labels that are marked `whole`:
those are ranked in the whole row.
"""

from typing import NamedTuple

import numpy as np

from eval_engine.kernels.arrays import Bools, Floats, Ints
from eval_engine.kernels.block import as_block
from eval_engine.kernels.compare_count import (
    NO_LABEL,
    as_whole,
    compare_rows,
    count,
    has_nan,
    rows_with_nan,
    sort_rows,
    sorting_pays_from,
)
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.ragged import users_of
from eval_engine.kernels.top_list import NOBODY, first_keys_of_row, opened, room_for, top_lists


class RankedRows(NamedTuple):
    """What a block of n rows gives; numbers of a row with a NaN mean nothing."""

    above: Ints  # int32, one per label
    tied: Ints  # int32, one per label
    top_positions: Ints  # int32 (n, k), padded with -1
    top_scores: Floats  # (n, k), padded with NaN
    has_nan: Bools  # (n,)
    label_scores: Floats  # one per label


def rank_rows(
    scores: Floats,
    offsets: Ints,
    positions: Ints,
    excluded_offsets: Ints,
    excluded_positions: Ints,
    k: int,
    whole: Bools = NO_LABEL,
) -> RankedRows:
    """above, tied, the first k and the NaN check of each row of the block."""
    if k < 1:
        raise ValueError(f"k must be at least 1, found {k}")
    block = as_block(scores, offsets, positions, excluded_offsets, excluded_positions)
    n, n_items = block.scores.shape
    if block.scores.dtype == np.float64:
        top = top_lists(block.scores, k, block.excluded_offsets, block.excluded_positions)
        return RankedRows(
            *count(*block, whole),
            *top,
            rows_with_nan(block.scores),
            block.scores[users_of(block.offsets), block.positions],
        )
    above, tied = np.empty(block.positions.size, np.int32), np.empty(block.positions.size, np.int32)
    keys, nan, label_scores = np.full((n, k), NOBODY), np.zeros(n, np.bool_), np.empty(block.positions.size, np.float32)
    many, whole = np.diff(block.offsets) > sorting_pays_from(n_items), as_whole(whole, block.positions.size)
    _rank(block, whole, many, above, tied, keys, nan, label_scores)
    sort_rows(block, whole, np.flatnonzero(many), above, tied)
    keys.sort(axis=1)
    return RankedRows(above, tied, *opened(keys), nan, label_scores)


@compiled
def _rank(block, whole, many, above, tied, keys, nan, label_scores):  # type: ignore[no-untyped-def]
    """Everything but the counts of rows with many labels."""
    bits = block.scores.view(np.int32)
    room = room_for(block.scores.shape[1], keys.shape[1])
    rows = np.arange(block.scores.shape[0])
    for u in rows:
        if not many[u]:
            compare_rows(block, whole, rows[u : u + 1], above, tied)
        nan[u] = has_nan(block.scores[u])
        for label in range(block.offsets[u], block.offsets[u + 1]):
            label_scores[label] = block.scores[u, block.positions[label]]
        excluded = block.excluded_positions[block.excluded_offsets[u] : block.excluded_offsets[u + 1]]
        first_keys_of_row(block.scores[u], bits[u], excluded, room, keys[u])
