"""above and tied of each labelled item, from one block of dense scores.

    above = #{j in C_u : s_uj > s_ui}        tied = #{j in C_u, j != i : s_uj = s_ui}

C_u is the whole row without the user's excluded positions. Two ways, the same integers:

* compare_count: each label against every score. The compiled sweep takes four labels at a time, so a score is loaded once for four of them.
  Excluded positions are counted with the rest and then taken off again, so no row is copied.
* sort_count: sort the row once and look each label up; for users with many labels.

count() takes the cheaper one, row by row. Microseconds a row, compare | sort, one core, float32:

    labels    N = 500       N = 3,000      N = 10,000      N = 100,000
         1     0.2 |  0.9     0.8 |   9       2.6 |  31         25 | 362
        10     0.5 |  1.5     2.1 |  10       6.7 |  33         65 | 372
        60     2.5 |  5.4      12 |  16        37 |  38        347 | 387
       100     4.1 |  7.4      20 |  22        62 |  42        607 | 373
       200     8.3 | 13.2      38 |  33       118 |  67       1169 | 382
      2000                    374 | 176      1196 | 236      11429 | 796

Comparing costs 0.06 ns per label and score, sorting 3.5 ns per score and a bisection of 0.1 us per label. So sorting pays above some 60 labels,
later in short rows, and below 1,000 items hardly ever: sorting_pays_from is that curve.

Scores are float32 or float64 (float16 is widened); +-inf order as usual and -0.0 ties with 0.0. NaN is not a score: see rows_with_nan.
Excluded positions are distinct and hold no labelled one; an excluded label has no rank among the candidates.
"""

import numpy as np

from eval_engine.kernels.arrays import Bools, Floats, Ints
from eval_engine.kernels.block import Block, as_block, as_scores
from eval_engine.kernels.compiled import compiled

NO_ROWS = np.zeros(0, np.int64)
SORTED_AT_ONCE = 1 << 18  # scores: a copy that stays in the cache


def count(scores: Floats, offsets: Ints, positions: Ints, excluded_offsets: Ints, excluded_positions: Ints) -> tuple[Ints, Ints]:
    """above and tied (int32) of each labelled position, each row by the cheaper way."""
    block = as_block(scores, offsets, positions, excluded_offsets, excluded_positions)
    many = np.diff(block.offsets) > sorting_pays_from(block.scores.shape[1])
    return _count(block, np.flatnonzero(~many), np.flatnonzero(many))


def compare_count(scores: Floats, offsets: Ints, positions: Ints, excluded_offsets: Ints, excluded_positions: Ints) -> tuple[Ints, Ints]:
    """above and tied (int32) of each labelled position by comparing it with every score of its row."""
    block = as_block(scores, offsets, positions, excluded_offsets, excluded_positions)
    return _count(block, np.arange(block.scores.shape[0]), NO_ROWS)


def sort_count(scores: Floats, offsets: Ints, positions: Ints, excluded_offsets: Ints, excluded_positions: Ints) -> tuple[Ints, Ints]:
    """above and tied (int32) of each labelled position by sorting its row."""
    block = as_block(scores, offsets, positions, excluded_offsets, excluded_positions)
    return _count(block, NO_ROWS, np.arange(block.scores.shape[0]))


def sorting_pays_from(n_items: int) -> int:
    """The number of labels of a user above which sorting the row is cheaper than comparing."""
    return 55 + 200_000 // max(n_items, 1)


def rows_with_nan(scores: Floats) -> Bools:
    """Which rows hold a NaN, shape (n,)."""
    found = np.zeros(scores.shape[0], np.bool_)
    _find_nan(as_scores(scores), found)
    return found


def _count(block: Block, compared: Ints, sorted_: Ints) -> tuple[Ints, Ints]:
    above, tied = np.empty(block.positions.size, np.int32), np.empty(block.positions.size, np.int32)
    compare_rows(block, compared, above, tied)
    sort_rows(block, sorted_, above, tied)
    return above, tied


@compiled
def _sweep4(row, t0, t1, t2, t3):  # type: ignore[no-untyped-def]
    """#{s > t} and #{s >= t} of four thresholds: eight int32 accumulators, which stay in vector registers."""
    g0 = g1 = g2 = g3 = np.int32(0)
    e0 = e1 = e2 = e3 = np.int32(0)
    for j in range(row.size):
        s = row[j]
        # int32 + bool is int64 in numba, which halves the vector width: hence the casts
        g0, e0 = np.int32(g0 + (s > t0)), np.int32(e0 + (s >= t0))
        g1, e1 = np.int32(g1 + (s > t1)), np.int32(e1 + (s >= t1))
        g2, e2 = np.int32(g2 + (s > t2)), np.int32(e2 + (s >= t2))
        g3, e3 = np.int32(g3 + (s > t3)), np.int32(e3 + (s >= t3))
    return (g0, g1, g2, g3), (e0, e1, e2, e3)


@compiled
def _sweep2(row, t0, t1):  # type: ignore[no-untyped-def]
    """The same for the last one or two labels of a user."""
    g0 = g1 = e0 = e1 = np.int32(0)
    for j in range(row.size):
        s = row[j]
        g0, e0 = np.int32(g0 + (s > t0)), np.int32(e0 + (s >= t0))
        g1, e1 = np.int32(g1 + (s > t1)), np.int32(e1 + (s >= t1))
    return (g0, g1), (e0, e1)


@compiled
def compare_rows(block, rows, above, tied):  # type: ignore[no-untyped-def]
    """Fills in above and tied of these rows' labels."""
    scores, offsets, positions, excluded_offsets, excluded_positions = block
    for u in rows:
        row = scores[u]
        first, end = offsets[u], offsets[u + 1]
        while first < end:
            last = end - 1  # the same label again where fewer than four are left
            p0, p1, p2, p3 = first, min(first + 1, last), min(first + 2, last), min(first + 3, last)
            if end - first > 2:
                greater, equal = _sweep4(row, row[positions[p0]], row[positions[p1]], row[positions[p2]], row[positions[p3]])
                above[p0], above[p1], above[p2], above[p3] = greater
                tied[p0], tied[p1], tied[p2], tied[p3] = equal
            else:
                greater2, equal2 = _sweep2(row, row[positions[p0]], row[positions[p1]])
                above[p0], above[p1] = greater2
                tied[p0], tied[p1] = equal2
            first += 4
        for p in range(offsets[u], end):
            score = row[positions[p]]
            greater_out, equal_out = 0, 1  # the label itself is no tie
            for x in range(excluded_offsets[u], excluded_offsets[u + 1]):
                out = row[excluded_positions[x]]
                greater_out += out > score
                equal_out += out == score
            tied[p] -= above[p] + equal_out
            above[p] -= greater_out


def sort_rows(block: Block, rows: Ints, above: Ints, tied: Ints) -> None:
    """The same by sorting; a few rows at a time, so that the sorted copy stays small."""
    at_once = max(1, SORTED_AT_ONCE // max(block.scores.shape[1], 1))
    for start in range(0, rows.size, at_once):
        some = rows[start : start + at_once]
        ascending = block.scores[some]
        _erase_excluded(block, some, ascending)
        ascending.sort(axis=1)  # numpy's sort is vectorised, numba's is not
        _look_up(block, some, ascending, above, tied)


@compiled
def _erase_excluded(block, rows, copy):  # type: ignore[no-untyped-def]
    """Makes the excluded scores of a copy NaN: sort puts them behind all candidates."""
    for r in range(rows.size):
        for x in range(block.excluded_offsets[rows[r]], block.excluded_offsets[rows[r] + 1]):
            copy[r, block.excluded_positions[x]] = np.nan


@compiled
def _less(ascending, score):  # type: ignore[no-untyped-def]
    """#{s < score} by bisection of a row that is not empty; unsigned, since numba looks at each signed index whether it is negative."""
    one = np.uint64(1)
    base, size = np.uint64(0), np.uint64(ascending.size)
    while size > one:
        half = size >> one
        base += half * np.uint64(ascending[base + half - one] < score)
        size -= half
    return base + np.uint64(ascending[base] < score)


@compiled
def _look_up(block, rows, ascending, above, tied):  # type: ignore[no-untyped-def]
    for r in range(rows.size):
        u = rows[r]
        n_excluded = block.excluded_offsets[u + 1] - block.excluded_offsets[u]
        candidates = ascending[r, : ascending.shape[1] - n_excluded]
        for p in range(block.offsets[u], block.offsets[u + 1]):
            score = block.scores[u, block.positions[p]]
            less = np.int64(_less(candidates, score))
            end = less + 1  # of the scores that are equal
            if end < candidates.size and candidates[end] == score:  # ties are rare: only they pay for a second bisection
                end = np.int64(_less(candidates, np.nextafter(score, candidates.dtype.type(np.inf)))) if score < np.inf else candidates.size
            above[p] = candidates.size - end
            tied[p] = end - less - 1


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
