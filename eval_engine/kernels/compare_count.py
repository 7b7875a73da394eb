"""above and tied of each labelled item, from one block of dense scores.

    above = #{j in C_u : s_uj > s_ui}        tied = #{j in C_u, j != i : s_uj = s_ui}

C_u is the whole row without the user's excluded positions; of labels that are marked `whole` it is the whole row, so
labels of two frames are counted in one pass. Two ways, the same integers:

* compare_count: each label against every score, eight labels in one sweep over the row (kernels/simd.py), the last ones
  four, two and one. Excluded positions are counted with the rest and then taken off again, so no row is copied.
* sort_count: sort the row once and look each label up; for users with many labels.

count() takes the cheaper one, row by row. Microseconds a row, compare | sort, one core with AVX-512, float32, blocks of
2 to 200 rows, the other core busy; in a block of 800 rows 10 labels of 10,000 items take 5.3:

    labels    N = 500       N = 3,000      N = 10,000      N = 100,000
         1     0.4 |  0.9     1.6 |   8       4.8 |  31         53 | 357
        10     0.8 |  1.4     2.7 |   9       7.6 |  32         81 | 366
        60     3.3 |  4.5     9.9 |  13        31 |  39        290 | 371
       100     5.0 |  7.0      17 |  17        50 |  43        487 | 377
       200     9.5 | 12.0      33 |  27        93 |  55        899 | 396
      2000                    301 | 167       878 | 234       8358 | 802

Comparing costs 0.045 ns per label and score, sorting 3 to 3.5 ns per score and a bisection of 0.1 us per label. So
sorting pays above some 75 labels, later in short rows, and below 1,000 items hardly ever: sorting_pays_from is that
curve.

Scores are float32 or float64 (float16 is widened); +-inf order as usual and -0.0 ties with 0.0. NaN is not a score: see
rows_with_nan. Excluded positions are distinct, and a label that is not `whole` is none of them: an excluded item has no
rank among the candidates.
"""

import numpy as np

from eval_engine.kernels.arrays import Bools, Floats, Ints
from eval_engine.kernels.block import Block, as_block, as_scores
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.simd import count_1, count_2, count_4, count_8

NO_ROWS = np.zeros(0, np.int64)
NO_LABEL = np.zeros(0, np.bool_)  # is `whole`
SORTED_AT_ONCE = 1 << 18  # scores: a copy that stays in the cache


def count(
    scores: Floats,
    offsets: Ints,
    positions: Ints,
    excluded_offsets: Ints,
    excluded_positions: Ints,
    whole: Bools = NO_LABEL,
) -> tuple[Ints, Ints]:
    """above and tied (int32) of each labelled position, each row by the cheaper way."""
    block = as_block(scores, offsets, positions, excluded_offsets, excluded_positions)
    many = np.diff(block.offsets) > sorting_pays_from(block.scores.shape[1])
    return _count(block, whole, np.flatnonzero(~many), np.flatnonzero(many))


def compare_count(
    scores: Floats,
    offsets: Ints,
    positions: Ints,
    excluded_offsets: Ints,
    excluded_positions: Ints,
    whole: Bools = NO_LABEL,
) -> tuple[Ints, Ints]:
    """above and tied (int32) of each labelled position by comparing it with every score of its row."""
    block = as_block(scores, offsets, positions, excluded_offsets, excluded_positions)
    return _count(block, whole, np.arange(block.scores.shape[0]), NO_ROWS)


def sort_count(
    scores: Floats,
    offsets: Ints,
    positions: Ints,
    excluded_offsets: Ints,
    excluded_positions: Ints,
    whole: Bools = NO_LABEL,
) -> tuple[Ints, Ints]:
    """above and tied (int32) of each labelled position by sorting its row."""
    block = as_block(scores, offsets, positions, excluded_offsets, excluded_positions)
    return _count(block, whole, NO_ROWS, np.arange(block.scores.shape[0]))


def sorting_pays_from(n_items: int) -> int:
    """The number of labels of a user above which sorting the row is cheaper than comparing."""
    return 70 + 130_000 // max(n_items, 1)


def rows_with_nan(scores: Floats) -> Bools:
    """Which rows hold a NaN, shape (n,)."""
    found = np.zeros(scores.shape[0], np.bool_)
    _find_nan(as_scores(scores), found)
    return found


def as_whole(whole: Bools, n_labels: int) -> Bools:
    """Which labels are ranked in the whole row, checked: empty, or one mark per label."""
    if whole.size not in (0, n_labels):
        raise ValueError(f"whole must have one mark for each of the {n_labels} labels, or none, found {whole.size}")
    return np.ascontiguousarray(whole, np.bool_)


def _count(block: Block, whole: Bools, compared: Ints, sorted_: Ints) -> tuple[Ints, Ints]:
    above, tied = np.empty(block.positions.size, np.int32), np.empty(block.positions.size, np.int32)
    whole = as_whole(whole, block.positions.size)
    compare_rows(block, whole, compared, above, tied)
    sort_rows(block, whole, sorted_, above, tied)
    return above, tied


@compiled
def compare_rows(block, whole, rows, above, tied):  # type: ignore[no-untyped-def]
    """Fills in above and tied of these rows' labels."""
    scores, offsets, positions, excluded_offsets, excluded_positions = block
    for u in rows:
        row = scores[u]
        excluded = row[excluded_positions[excluded_offsets[u] : excluded_offsets[u + 1]]]
        counted = _count_vectors(row, positions, offsets[u], offsets[u + 1], above, tied)
        for p in range(offsets[u], offsets[u + 1]):
            score = row[positions[p]]
            greater, at_least = _count_few(row[counted:], score)
            greater_out = at_least_out = np.int32(0)
            if not whole.size or not whole[p]:
                greater_out, at_least_out = _count_few(excluded, score)
            above[p] += greater - greater_out
            tied[p] += at_least - at_least_out - above[p] - 1  # the label itself is no tie


@compiled
def _count_vectors(row, positions, first, end, greater, at_least):  # type: ignore[no-untyped-def]
    """#{s > t} and #{s >= t} of labels first..end among the first scores of the row; of how many scores."""
    counted = 0
    while end - first >= 8:
        counted = count_8(row, positions, first, greater, at_least)
        first += 8
    if end - first >= 4:
        counted = count_4(row, positions, first, greater, at_least)
        first += 4
    if end - first >= 2:
        counted = count_2(row, positions, first, greater, at_least)
        first += 2
    if end > first:
        counted = count_1(row, positions, first, greater, at_least)
    return counted


@compiled
def _count_few(scores, threshold):  # type: ignore[no-untyped-def]
    """#{s > t} and #{s >= t} of one threshold."""
    greater = at_least = np.int32(0)
    for s in scores:
        # int32 + bool is int64 in numba, which halves the vector width: hence the casts
        greater, at_least = np.int32(greater + (s > threshold)), np.int32(at_least + (s >= threshold))
    return greater, at_least


def sort_rows(block: Block, whole: Bools, rows: Ints, above: Ints, tied: Ints) -> None:
    """The same by sorting; a few rows at a time, so that the sorted copy stays small."""
    at_once = max(1, SORTED_AT_ONCE // max(block.scores.shape[1], 1))
    for start in range(0, rows.size, at_once):
        some = rows[start : start + at_once]
        ascending = block.scores[some]
        if not whole.size:
            _erase_excluded(block, some, ascending)
        ascending.sort(axis=1)  # numpy's sort is vectorised, numba's is not
        _look_up(block, whole, some, ascending, above, tied)


@compiled
def _erase_excluded(block, rows, copy):  # type: ignore[no-untyped-def]
    """Makes the excluded scores of a copy NaN: sort puts them behind all candidates."""
    for r in range(rows.size):
        for x in range(block.excluded_offsets[rows[r]], block.excluded_offsets[rows[r] + 1]):
            copy[r, block.excluded_positions[x]] = np.nan


@compiled
def _less(ascending, score):  # type: ignore[no-untyped-def]
    """#{s < score} by bisection of a row that is not empty; unsigned, since numba looks at each signed index whether it
    is negative."""
    one = np.uint64(1)
    base, size = np.uint64(0), np.uint64(ascending.size)
    while size > one:
        half = size >> one
        base += half * np.uint64(ascending[base + half - one] < score)
        size -= half
    return base + np.uint64(ascending[base] < score)


@compiled
def above_and_level(ascending, score):  # type: ignore[no-untyped-def]
    """#{s > score} and #{s = score} by bisection of scores that are in order and not NaN."""
    if ascending.size == 0:
        return 0, 0
    less = np.int64(_less(ascending, score))
    end = less  # of the scores that are equal
    if end < ascending.size and ascending[end] == score:
        end += 1
        if end < ascending.size and ascending[end] == score:  # ties are rare: only they pay for a second bisection
            end = (
                np.int64(_less(ascending, np.nextafter(score, ascending.dtype.type(np.inf))))
                if score < np.inf
                else ascending.size
            )
    return ascending.size - end, end - less


@compiled
def _look_up(block, whole, rows, ascending, above, tied):  # type: ignore[no-untyped-def]
    """above and tied of each label in its sorted row: without the excluded scores, or, where some labels are ranked in
    the whole row, with them, and then taken off for the other labels."""
    for r in range(rows.size):
        u = rows[r]
        excluded = block.excluded_positions[block.excluded_offsets[u] : block.excluded_offsets[u + 1]]
        candidates = ascending[r, : ascending.shape[1] - (0 if whole.size else excluded.size)]
        out = np.sort(block.scores[u][excluded if whole.size else excluded[:0]])
        for p in range(block.offsets[u], block.offsets[u + 1]):
            score = block.scores[u, block.positions[p]]
            greater, level = above_and_level(candidates, score)
            if whole.size and not whole[p]:
                greater_out, level_out = above_and_level(out, score)
                greater, level = greater - greater_out, level - level_out
            above[p] = greater
            tied[p] = level - 1  # the label itself is no tie


@compiled
def has_nan(row):  # type: ignore[no-untyped-def]
    """Whether the row holds a NaN; without a way out of the loop it is vectorised."""
    nan = np.int32(0)
    for j in range(row.size):
        nan = np.int32(nan | (row[j] != row[j]))
    return nan != 0


@compiled
def _find_nan(scores, found):  # type: ignore[no-untyped-def]
    for u in range(scores.shape[0]):
        found[u] = has_nan(scores[u])
