"""The first k candidates of each user, exactly: score descending, among equal scores position ascending.

    a before b  <=>  s_a > s_b, or s_a = s_b and a < b          C_u: the whole row without the user's excluded positions

1. The row is cut into parts of m positions; a column is the c-th position of each part. If the highest candidates of k
   columns reach a threshold, at least k candidates do. Of m = 2 k columns or a few more the k-th highest is such a
   threshold, and only some 1.4 k candidates reach it.
2. A sweep compares 64 scores at a time with the threshold (kernels/simd.py) and visits only those that pass; a passing
   excluded position is skipped, the others go into a buffer.
3. When the buffer is full, its first k are kept and the threshold rises to just above the k-th score: what comes later
   in the row with an equal score would lose by position. So neither a constant row nor one whose high scores share a
   column fills more than the buffer.

A row shorter than m is swept from -inf. A candidate is one uint64: the float32's bits turned so that the order is
descending (-0.0 as 0.0), then the position. The first k are the k smallest keys, and numpy's vectorised sort puts them
in order. float64 scores do not fit into a key and take a stable argsort. NaN is not a score; +-inf is. Fewer than k
candidates: the rest is position -1, score NaN.

thresholds() gives the score that an item must pass to be in the top K,

    tau_K = score of the (K + 1)-th candidate, -inf if there are not more than K

of the frame of the first k, or of a frame that has the excluded items too: the (K + 1)-th of all is among the first
K + 1 of the rest and the excluded ones.
"""

from collections.abc import Sequence

import numpy as np

from eval_engine.kernels.arrays import Floats, Ints
from eval_engine.kernels.block import as_lists, as_scores
from eval_engine.kernels.compiled import compiled
from eval_engine.kernels.simd import LANES, lowest, passing

PARTS = 64  # of a row, at most: for 100,000 items a looser threshold costs less than one more sweep over the row
NOBODY = np.uint64(0xFFFF_FFFF_FFFF_FFFF)  # sorts behind every candidate


def top_lists(scores: Floats, k: int, excluded_offsets: Ints, excluded_positions: Ints) -> tuple[Ints, Floats]:
    """Positions int32 (n, k) of the first k candidates, padded with -1, and their scores (n, k), padded with NaN."""
    if k < 1:
        raise ValueError(f"k must be at least 1, found {k}")
    rows, excluded = as_scores(scores), as_lists(excluded_offsets, excluded_positions, scores.shape)
    if rows.dtype == np.float64:
        return _by_argsort(rows, k, *excluded)
    keys = np.full((rows.shape[0], k), NOBODY)
    _first_keys(rows, *excluded, keys)
    keys.sort(axis=1)
    return opened(keys)


def thresholds(
    top_scores: Floats, candidates: Ints, cutoffs: Sequence[int], also: tuple[Ints, Floats] | None = None
) -> Floats:
    """tau_K of each user and cutoff, (n, n_cutoffs); NaN where the scores that there are do not tell.

    top_scores: of each user's first candidates, (n, k), padded with NaN. also: offsets and scores of each user's
    further candidates, which are not among the first k, NaN for one without a score. candidates: how many there are of
    both.
    """
    n, k = top_scores.shape
    depth = 1 + max(cutoffs, default=0)
    merged = np.full((n, depth), np.nan, top_scores.dtype)
    if also is None:
        merged[:, : min(k, depth)] = top_scores[:, :depth]
    else:
        offsets, scores = also
        _merge(
            np.ascontiguousarray(top_scores),
            np.ascontiguousarray(offsets, np.int64),
            np.ascontiguousarray(scores, top_scores.dtype),
            merged,
        )
    chosen = np.asarray(cutoffs, np.int64)
    found = merged[:, chosen]
    found[chosen >= np.asarray(candidates)[:, None]] = -np.inf
    return found


@compiled
def _merge(top_scores, offsets, scores, merged):  # type: ignore[no-untyped-def]
    """Writes the highest scores of both lists of each user, descending; NaN behind the last."""
    for u in range(top_scores.shape[0]):
        own = np.empty(offsets[u + 1] - offsets[u], scores.dtype)
        n_own = 0
        for j in range(offsets[u], offsets[u + 1]):
            own[n_own] = scores[j]
            n_own += scores[j] == scores[j]
        own = np.sort(own[:n_own])
        last = n_own - 1
        first = 0
        for place in range(merged.shape[1]):
            more = first < top_scores.shape[1] and top_scores[u, first] == top_scores[u, first]
            if more and (last < 0 or top_scores[u, first] >= own[last]):
                merged[u, place] = top_scores[u, first]
                first += 1
            elif last >= 0:
                merged[u, place] = own[last]
                last -= 1
            else:
                break


def opened(keys: Ints) -> tuple[Ints, Floats]:
    """Position and score of each key; the key NOBODY holds the position -1 and the bits of a NaN."""
    low, high = keys.astype(np.uint32), (keys >> np.uint64(32)).astype(np.uint32)
    bits = np.where(high >> np.uint32(31), high, high ^ np.uint32(0x7FFF_FFFF))
    return low.view(np.int32), bits.view(np.float32)


def _by_argsort(scores: Floats, k: int, excluded_offsets: Ints, excluded_positions: Ints) -> tuple[Ints, Floats]:
    positions, found = np.full((scores.shape[0], k), -1, np.int32), np.full((scores.shape[0], k), np.nan)
    for u, row in enumerate(scores):
        order = np.argsort(-row, kind="stable")
        out = np.zeros(row.size, np.bool_)
        out[excluded_positions[excluded_offsets[u] : excluded_offsets[u + 1]]] = True
        first = order[~out[order]][:k]
        positions[u, : first.size], found[u, : first.size] = first, row[first]
    return positions, found


@compiled
def _key(bits, position):  # type: ignore[no-untyped-def]
    """uint64 that orders candidates by score descending, then position; bits are those of a float32."""
    if bits == np.int32(-2147483648):
        bits = np.int32(0)  # -0.0 is 0.0
    low = np.uint32(bits) if bits < 0 else np.uint32(bits) ^ np.uint32(0x7FFF_FFFF)
    return (np.uint64(low) << np.uint64(32)) | np.uint64(position)


@compiled
def _smallest_first(values, size, k):  # type: ignore[no-untyped-def]
    """Moves the k smallest of values[:size] to the front, in any order: quickselect, its partition without branches."""
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) >> 1
        a, b, c = values[low], values[middle], values[high]
        pivot = max(min(a, b), min(max(a, b), c))
        if pivot == a:
            values[low], values[high] = c, a
        elif pivot == b:
            values[middle], values[high] = c, b
        edge = low
        for j in range(low, high):
            value = values[j]
            values[j], values[edge] = values[edge], value
            edge += value < pivot
        values[edge], values[high] = values[high], values[edge]
        if edge == k - 1:
            return
        if edge > k - 1:
            high = edge - 1
        else:
            low = edge + 1


@compiled
def _highest_of_columns(row, out, highest):  # type: ignore[no-untyped-def]
    """highest[c] = the highest candidate among the c-th positions of all parts, -inf without one; parts are evenly
    spaced and do not overlap."""
    highest[:] = -np.inf
    n_parts = min(row.size // highest.size, PARTS)
    for n in range(n_parts):
        start = n * (row.size // n_parts)
        part, skip = row[start : start + highest.size], out[start : start + highest.size]
        for c in range(part.size):
            higher = (part[c] > highest[c]) & (not skip[c])  # max() and `and` would not be vectorised
            highest[c] = part[c] if higher else highest[c]


@compiled
def _turned(bits):  # type: ignore[no-untyped-def]
    """Bits of a float32 as an int32 of the same order, and back."""
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFF_FFFF))


@compiled
def _reached_by(wanted, highest):  # type: ignore[no-untyped-def]
    """A threshold that at least `wanted` columns reach and few more: bisection. The columns are overwritten."""
    bits = highest.view(np.int32)
    for c in range(bits.size):
        bits[c] = _turned(bits[c])
    low, high = np.int64(bits.min()), np.int64(bits.max()) + 1
    while high - low > 1:
        middle = np.int32((low + high) >> 1)
        reached = np.int32(0)
        for c in range(bits.size):
            reached = np.int32(reached + (bits[c] >= middle))
        if reached < wanted:
            high = np.int64(middle)
            continue
        low = np.int64(middle)
        if reached <= wanted + wanted // 8:
            break
    bits[0] = _turned(np.int32(low))
    return highest[0]


@compiled
def _sweep(row, bits, out, threshold, k, buffer):  # type: ignore[no-untyped-def]
    """Puts the first k candidates among those that pass into buffer[:k]; how many of them there are."""
    held, full = 0, buffer.size - LANES
    whole = row.size - row.size % LANES
    for start in range(0, whole, LANES):
        mask = passing(row, start, threshold)
        while mask:
            j = start + lowest(mask)
            buffer[held] = _key(bits[j], j)
            held += not out[j]
            mask &= mask - np.uint64(1)
        if held >= full:
            _smallest_first(buffer, held, k)
            held = k
            last = row[np.int64(buffer[k - 1] & np.uint64(0xFFFF_FFFF))]
            if last == np.inf:
                return k  # nothing later can be better
            threshold = np.nextafter(last, np.float32(np.inf))
    for j in range(whole, row.size):
        if row[j] >= threshold and not out[j]:
            buffer[held] = _key(bits[j], j)
            held += 1
    _smallest_first(buffer, held, k)
    return min(held, k)


@compiled
def room_for(n_items, k):  # type: ignore[no-untyped-def]
    """Working memory for rows of n_items: which positions are excluded, the highest of each column, the buffer."""
    highest = np.empty((2 * k // LANES + 1) * LANES, np.float32)
    buffer = np.empty(min(max(4 * k, 256), n_items) + k + 2 * LANES, np.uint64)
    return np.zeros(n_items, np.bool_), highest, buffer


@compiled
def first_keys_of_row(row, bits, excluded, room, keys):  # type: ignore[no-untyped-def]
    """Fills keys (k,) with the first k candidates of one row, in any order; what is left over stays as it is."""
    out, highest, buffer = room
    for j in excluded:
        out[j] = True
    threshold = np.float32(-np.inf)
    if highest.size <= row.size:
        _highest_of_columns(row, out, highest)
        threshold = _reached_by(keys.size, highest)
    held = _sweep(row, bits, out, threshold, keys.size, buffer)
    keys[:held] = buffer[:held]
    for j in excluded:
        out[j] = False


@compiled
def _first_keys(scores, excluded_offsets, excluded_positions, keys):  # type: ignore[no-untyped-def]
    bits = scores.view(np.int32)
    room = room_for(scores.shape[1], keys.shape[1])
    for u in range(scores.shape[0]):
        excluded = excluded_positions[excluded_offsets[u] : excluded_offsets[u + 1]]
        first_keys_of_row(scores[u], bits[u], excluded, room, keys[u])
