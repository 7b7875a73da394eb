"""Ranks labels in lists of (position, score) rows, as long score tables have them: some of a user's items, in any
order.

    above = #{rows j : s_j > t}        level = #{rows j : s_j = t}        t the label's score

A list is a whole user, or the part of a user that one file holds: above and level add up over the parts, and the first
k of all parts are among the first k of each. find() gives the scores of labels and takes excluded rows out; count() and
first() do the rest, so that the score of a label that is in another part can come in between. Excluded rows count for
nothing, but for labels that are marked `whole`, which are ranked among all rows: add_excluded() adds them.

Scores are float32 or float64 and are compared as they are. NaN is not a score: find() counts it, the others pass it by.
Order of the first k: score descending, among equal scores position ascending.
"""

from typing import NamedTuple

import numpy as np

from eval_engine.kernels.arrays import Bools, Floats, Ints
from eval_engine.kernels.compare_count import above_and_level, as_whole, sorting_pays_from
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.top_list import NOBODY, opened

GROUPED_AT_ONCE = 1 << 17  # rows
CHUNK = 8  # neighbouring scores per place the sample is taken from: a cache line is fetched whole
MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


class Lists(NamedTuple):
    """Rows of some users: user u's are offsets[u] : offsets[u + 1]."""

    offsets: Ints  # int64 (n + 1,)
    positions: Ints  # int32; -1: an item outside the catalogue
    scores: Floats


class Found(NamedTuple):
    """What find() found; counts are (n,) int64, of each user."""

    lists: Lists  # excluded rows and rows outside the catalogue have the score NaN
    label_scores: Floats  # NaN where the label has no row
    excluded_scores: Floats  # of each excluded position, NaN where it has no row
    candidates: Ints  # rows with a score that are not excluded
    outside: Ints  # rows whose item is not in the catalogue
    nan: Ints  # rows whose score is NaN
    twice: Ints  # rows whose item came before in the list


def as_vectors(lists: Lists, n_items: int) -> Floats | None:
    """The scores of each list as a vector over all items, (n, n_items), if every list holds each item once, as float32
    that is not NaN; else None. Such vectors are ranked several times faster (rank_rows.py)."""
    n = lists.offsets.size - 1
    if not n or lists.scores.dtype != np.float32 or (np.diff(lists.offsets) != n_items).any():
        return None
    positions, scores = lists.positions.reshape(n, n_items), lists.scores.reshape(n, n_items)
    if _in_order(positions):
        return None if np.isnan(scores.min()) else scores
    vectors = np.full_like(scores, np.nan)
    return vectors if _scatter(positions, scores, vectors) else None


def find(
    lists: Lists,
    label_offsets: Ints,
    label_positions: Ints,
    excluded_offsets: Ints,
    excluded_positions: Ints,
    n_items: int,
) -> Found:
    """Scores of the labels, excluded rows taken out, and what is wrong with the rows."""
    n = lists.offsets.size - 1
    scores = np.array(lists.scores)
    label_scores = np.full(label_positions.size, np.nan, scores.dtype)
    excluded_scores = np.full(excluded_positions.size, np.nan, scores.dtype)
    counts = np.zeros((4, n), np.int64)
    lists = Lists(
        np.ascontiguousarray(lists.offsets, np.int64), np.ascontiguousarray(lists.positions, np.int32), scores
    )
    _find(
        lists,
        np.ascontiguousarray(label_offsets, np.int64),
        np.ascontiguousarray(label_positions, np.int32),
        np.ascontiguousarray(excluded_offsets, np.int64),
        np.ascontiguousarray(excluded_positions, np.int32),
        np.full(n_items, -1, np.int32),
        label_scores,
        excluded_scores,
        counts,
    )
    return Found(lists, label_scores, excluded_scores, counts[0], counts[1], counts[2], counts[3])


def checksums(lists: Lists) -> Ints:
    """The sum of 40-bit hashes of each list's positions, int64: over all parts of a user it tells whether each item of
    a catalogue is there once."""
    sums = np.zeros(lists.offsets.size - 1, np.int64)
    _add_hashes(lists.offsets, lists.positions, sums)
    return sums


def whole_checksum(n_items: int) -> int:
    """The checksum of a list that holds every item once."""
    return int(checksums(Lists(np.array([0, n_items]), np.arange(n_items, dtype=np.int32), np.zeros(0)))[0])


def grouped(user: Ints, n_users: int, positions: Ints, scores: Floats) -> Lists:
    """Rows of users 0..n_users-1 in any order as lists; a row of user -1 is left out."""
    counts = np.bincount(user + 1, minlength=n_users + 1)
    offsets = np.concatenate([[0], np.cumsum(counts[1:])])
    lists = Lists(offsets, np.empty(offsets[-1], np.int32), np.empty(offsets[-1], scores.dtype))
    _group(
        np.ascontiguousarray(user, np.int32),
        np.ascontiguousarray(positions, np.int32),
        np.ascontiguousarray(scores),
        offsets[:-1].copy(),
        lists,
    )
    return lists


def merged_scores(part_offsets: Ints, label_offsets: Ints, part_scores: Floats) -> tuple[Floats, Ints]:
    """Scores of each user's labels from its parts (part_offsets[u + 1] - part_offsets[u] of them, one after the other,
    each with all the user's labels, NaN where a label is not in it), and how many labels of each user are in more than
    one part."""
    scores, twice = np.full(int(label_offsets[-1]), np.nan), np.zeros(label_offsets.size - 1, np.int64)
    _merge_scores(
        np.ascontiguousarray(part_offsets, np.int64),
        np.ascontiguousarray(label_offsets, np.int64),
        part_scores,
        scores,
        twice,
    )
    return scores, twice


def merged_counts(part_offsets: Ints, label_offsets: Ints, part_counts: Ints) -> Ints:
    """Counts of each user's labels, added up over its parts; laid out as in merged_scores."""
    counts = np.zeros(int(label_offsets[-1]), np.int32)
    _merge_counts(
        np.ascontiguousarray(part_offsets, np.int64), np.ascontiguousarray(label_offsets, np.int64), part_counts, counts
    )
    return counts


def count(lists: Lists, label_offsets: Ints, thresholds: Floats) -> tuple[Ints, Ints]:
    """above and level (int32) of each threshold in its user's list; NaN: nothing is above or level."""
    above, level = np.zeros(thresholds.size, np.int32), np.zeros(thresholds.size, np.int32)
    label_offsets, thresholds = np.ascontiguousarray(label_offsets, np.int64), np.ascontiguousarray(thresholds)
    n_rows, n_labels = np.diff(lists.offsets), np.diff(label_offsets)
    many = n_labels > [sorting_pays_from(int(n)) for n in n_rows]
    _compare(lists, label_offsets, thresholds, many, above, level)
    for u in np.flatnonzero(many):  # numpy's sort is vectorised, numba's is not
        mine = slice(label_offsets[u], label_offsets[u + 1])
        ascending = np.sort(lists.scores[lists.offsets[u] : lists.offsets[u + 1]])
        ascending = ascending[: ascending.size - np.isnan(ascending).sum()]
        right = np.searchsorted(ascending, thresholds[mine], "right")
        left = np.searchsorted(ascending, thresholds[mine], "left")
        there = ~np.isnan(thresholds[mine])
        above[mine], level[mine] = (ascending.size - right) * there, (right - left) * there
    return above, level


def add_excluded(
    counts: tuple[Ints, Ints],
    label_offsets: Ints,
    label_scores: Floats,
    whole: Bools,
    excluded_offsets: Ints,
    excluded_scores: Floats,
) -> None:
    """Adds the user's excluded rows that are above and level with a label to its counts (above, level), for labels that
    are marked `whole`. NaN, of a label or of an excluded row: not there."""
    whole = as_whole(whole, label_scores.size)
    if whole.any() and excluded_scores.size:
        _add_excluded(
            *counts,
            np.ascontiguousarray(label_offsets, np.int64),
            np.ascontiguousarray(label_scores, excluded_scores.dtype),
            whole,
            np.ascontiguousarray(excluded_offsets, np.int64),
            np.ascontiguousarray(excluded_scores),
        )


def first(lists: Lists, k: int) -> tuple[Ints, Floats]:
    """Positions int32 (n, k) of each list's first k, padded with -1, and their scores, padded with NaN."""
    n = lists.offsets.size - 1
    positions, scores = np.full((n, k), -1, np.int32), np.full((n, k), np.nan, lists.scores.dtype)
    _first(lists, positions, scores)
    return in_order(positions, scores)


def in_order(positions: Ints, scores: Floats) -> tuple[Ints, Floats]:
    """Each row by score descending, then position; padding last."""
    if scores.dtype == np.float32:
        bits = (scores + np.float32(0)).view(np.uint32)  # + 0: -0.0 is 0.0
        high = np.where(bits >> np.uint32(31), bits, bits ^ np.uint32(0x7FFF_FFFF)).astype(np.uint64)
        keys = np.where(positions < 0, NOBODY, (high << np.uint64(32)) | positions.astype(np.uint64))
        keys.sort(axis=1)
        return opened(keys)
    order = np.lexsort((positions, np.where(positions < 0, np.inf, -scores), positions < 0), axis=1)
    return np.take_along_axis(positions, order, 1), np.take_along_axis(scores, order, 1)


@compiled
def _in_order(positions):  # type: ignore[no-untyped-def]
    for u in range(positions.shape[0]):
        row, wrong = positions[u], 0
        for j in range(row.size):  # without a branch, so that many are compared at once
            wrong += row[j] != np.int32(j)
        if wrong:
            return False
    return True


@compiled
def _scatter(positions, scores, vectors):  # type: ignore[no-untyped-def]
    """Puts each score to its item; whether every item has one."""
    for u in range(positions.shape[0]):
        row, vector, empty = positions[u], vectors[u], 0
        for j in range(row.size):
            if row[j] < 0:
                return False
            vector[row[j]] = scores[u, j]
        for j in range(row.size):
            empty += vector[j] != vector[j]
        if empty:  # an item came twice, or its score is NaN
            return False
    return True


@compiled
def _hash(position):  # type: ignore[no-untyped-def]
    """64 well mixed bits of a position."""
    x = (np.uint64(position) + np.uint64(1)) * MIX
    x ^= x >> np.uint64(29)
    x *= np.uint64(0xBF58_476D_1CE4_E5B9)
    return x ^ (x >> np.uint64(32))


@compiled
def _add_hashes(offsets, positions, sums):  # type: ignore[no-untyped-def]
    for u in range(sums.size):
        total = np.int64(0)
        for j in range(offsets[u], offsets[u + 1]):
            total += np.int64(_hash(positions[j]) >> np.uint64(24))
        sums[u] = total


@compiled
def _group(user, positions, scores, free, lists):  # type: ignore[no-untyped-def]
    """Rows to their users' places, some at a time: put in order where they are still in the cache, then moved user by
    user. Straight to thousands of places each row would wait for memory."""
    n_users, n_rows = free.size, user.size
    at_once = max(GROUPED_AT_ONCE, 8 * n_users)
    near_positions, near_scores = np.empty(at_once, np.int32), np.empty(at_once, scores.dtype)
    ends = np.empty(n_users + 1, np.int64)
    for start in range(0, n_rows, at_once):
        stop = min(n_rows, start + at_once)
        ends[:] = 0
        for row in range(start, stop):
            ends[user[row] + 1] += 1  # nobody's rows come first
        for u in range(n_users):
            ends[u + 1] += ends[u]
        for row in range(stop - 1, start - 1, -1):
            place = ends[user[row] + 1] - 1
            ends[user[row] + 1] = place
            near_positions[place], near_scores[place] = positions[row], scores[row]
        for u in range(n_users):
            first = ends[u + 1]
            last = ends[u + 2] if u + 2 <= n_users else stop - start
            place = free[u]
            for j in range(first, last):
                lists.positions[place + j - first], lists.scores[place + j - first] = near_positions[j], near_scores[j]
            free[u] = place + last - first


@compiled
def _merge_scores(part_offsets, label_offsets, part_scores, scores, twice):  # type: ignore[no-untyped-def]
    at = 0
    for u in range(twice.size):
        first, n = label_offsets[u], label_offsets[u + 1] - label_offsets[u]
        for _ in range(part_offsets[u], part_offsets[u + 1]):
            for label in range(n):
                score = part_scores[at + label]
                if score == score:
                    twice[u] += scores[first + label] == scores[first + label]
                    scores[first + label] = score
            at += n


@compiled
def _merge_counts(part_offsets, label_offsets, part_counts, counts):  # type: ignore[no-untyped-def]
    at = 0
    for u in range(label_offsets.size - 1):
        first, n = label_offsets[u], label_offsets[u + 1] - label_offsets[u]
        for _ in range(part_offsets[u], part_offsets[u + 1]):
            for label in range(n):
                counts[first + label] += part_counts[at + label]
            at += n


@compiled
def _find(  # type: ignore[no-untyped-def]
    lists,
    label_offsets,
    label_positions,
    excluded_offsets,
    excluded_positions,
    row_of,
    label_scores,
    excluded_scores,
    counts,
):
    positions, scores = lists.positions, lists.scores
    for u in range(lists.offsets.size - 1):
        start, end = lists.offsets[u], lists.offsets[u + 1]
        outside = nan = twice = 0
        for j in range(start, end):
            p = positions[j]
            if p < 0:
                outside += 1
                scores[j] = np.nan
                continue
            twice += row_of[p] >= 0
            row_of[p] = j - start
            nan += scores[j] != scores[j]
        for label in range(label_offsets[u], label_offsets[u + 1]):
            if row_of[label_positions[label]] >= 0:
                label_scores[label] = scores[start + row_of[label_positions[label]]]
        out = 0
        for x in range(excluded_offsets[u], excluded_offsets[u + 1]):
            row = row_of[excluded_positions[x]]
            if row >= 0:
                excluded_scores[x] = scores[start + row]
                scores[start + row] = np.nan
                out += 1
        for j in range(start, end):
            if positions[j] >= 0:
                row_of[positions[j]] = -1
        counts[0, u], counts[1, u], counts[2, u], counts[3, u] = end - start - outside - nan - out, outside, nan, twice


@compiled
def _add_excluded(above, level, label_offsets, label_scores, whole, excluded_offsets, excluded_scores):  # type: ignore[no-untyped-def]
    for u in range(label_offsets.size - 1):
        start, end = excluded_offsets[u], excluded_offsets[u + 1]
        if start == end:
            continue
        there = np.empty(end - start, excluded_scores.dtype)
        n_there = 0
        for x in range(start, end):
            there[n_there] = excluded_scores[x]
            n_there += excluded_scores[x] == excluded_scores[x]
        ascending = np.sort(there[:n_there])
        for label in range(label_offsets[u], label_offsets[u + 1]):
            if whole[label] and label_scores[label] == label_scores[label]:
                greater, equal = above_and_level(ascending, label_scores[label])
                above[label] += greater
                level[label] += equal


@compiled
def _sweep4(scores, t0, t1, t2, t3):  # type: ignore[no-untyped-def]
    """#{s > t} and #{s = t} of four thresholds in one pass."""
    g0 = g1 = g2 = g3 = np.int32(0)
    e0 = e1 = e2 = e3 = np.int32(0)
    for j in range(scores.size):
        s = scores[j]
        g0, e0 = np.int32(g0 + (s > t0)), np.int32(e0 + (s == t0))
        g1, e1 = np.int32(g1 + (s > t1)), np.int32(e1 + (s == t1))
        g2, e2 = np.int32(g2 + (s > t2)), np.int32(e2 + (s == t2))
        g3, e3 = np.int32(g3 + (s > t3)), np.int32(e3 + (s == t3))
    return (g0, g1, g2, g3), (e0, e1, e2, e3)


@compiled
def _compare(lists, label_offsets, thresholds, many, above, level):  # type: ignore[no-untyped-def]
    """Fills in above and level of users who have not many labels."""
    for u in range(many.size):
        scores = lists.scores[lists.offsets[u] : lists.offsets[u + 1]]
        start, end = label_offsets[u], label_offsets[u + 1]
        for first in range(start, start if many[u] else end, 4):
            last = end - 1  # the same label again where fewer than four are left
            p0, p1, p2, p3 = first, min(first + 1, last), min(first + 2, last), min(first + 3, last)
            greater, equal = _sweep4(scores, thresholds[p0], thresholds[p1], thresholds[p2], thresholds[p3])
            above[p0], above[p1], above[p2], above[p3] = greater
            level[p0], level[p1], level[p2], level[p3] = equal


@compiled
def _before(s, p, t, q):  # type: ignore[no-untyped-def]
    return s > t or (s == t and p < q)


@compiled
def _best_to_front(scores, positions, size, k):  # type: ignore[no-untyped-def]
    """Moves the first k of the pairs to the front, in any order; the k-th comes to k - 1. Quickselect."""
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) >> 1
        scores[middle], scores[high] = scores[high], scores[middle]
        positions[middle], positions[high] = positions[high], positions[middle]
        s, p = scores[high], positions[high]
        edge = low
        for j in range(low, high):
            if _before(scores[j], positions[j], s, p):
                scores[j], scores[edge] = scores[edge], scores[j]
                positions[j], positions[edge] = positions[edge], positions[j]
                edge += 1
        scores[edge], scores[high] = scores[high], scores[edge]
        positions[edge], positions[high] = positions[high], positions[edge]
        if edge == k - 1:
            return
        if edge > k - 1:
            high = edge - 1
        else:
            low = edge + 1


@compiled
def _guess(scores, k, sample):  # type: ignore[no-untyped-def]
    """A threshold that more than k scores pass nearly always, from a sample; -inf where that says too little."""
    n_chunks = sample.size // CHUNK
    taken = 0
    for chunk in range(n_chunks):
        start = chunk * (scores.size - CHUNK) // n_chunks
        for j in range(start, start + CHUNK):
            sample[taken] = scores[j]
            taken += scores[j] == scores[j]
    expected = k * taken / scores.size
    rank = int(np.ceil(expected + 2 * np.sqrt(expected) + 1))
    if rank >= taken:
        return -np.inf
    return np.partition(sample[:taken], taken - rank)[taken - rank]


@compiled
def _collect(scores, positions, threshold, k, best, at):  # type: ignore[no-untyped-def]
    """Puts the first k of the rows that reach the threshold into best[:k] and at[:k]; how many of them there are."""
    held = 0
    for j in range(scores.size):
        if scores[j] >= threshold:
            best[held], at[held] = scores[j], positions[j]
            held += 1
            if held == best.size:
                _best_to_front(best, at, held, k)
                held = k
                threshold = best[k - 1]
    if held > k:
        _best_to_front(best, at, held, k)
    return min(held, k)


@compiled
def _first(lists, top_positions, top_scores):  # type: ignore[no-untyped-def]
    n, k = top_positions.shape
    best, at = np.empty(8 * k + 64, lists.scores.dtype), np.empty(8 * k + 64, np.int32)
    for u in range(n):
        scores = lists.scores[lists.offsets[u] : lists.offsets[u + 1]]
        positions = lists.positions[lists.offsets[u] : lists.offsets[u + 1]]
        threshold = -np.inf
        if scores.size >= 1024:
            threshold = _guess(scores, k, np.empty(max(256, scores.size // 64) // CHUNK * CHUNK, scores.dtype))
        held = _collect(scores, positions, threshold, k, best, at)
        if held < k and threshold > -np.inf:
            held = _collect(scores, positions, -np.inf, k, best, at)
        top_positions[u, :held], top_scores[u, :held] = at[:held], best[:held]
