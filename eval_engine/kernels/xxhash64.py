"""The same hash of an id as Spark's xxhash64, so that `pmod(xxhash64(user_id), 256)` in SQL is a user's bucket here.

XXH64 with seed 42 of a BIGINT's 8 bytes, or of a STRING's UTF-8 bytes. NULL hashes to the seed, as in Spark. With
several columns, the hash of one column is the seed of the next: `xxhash64(user_id, item_id)` in SQL is xxhash64(items,
xxhash64(users)).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.compiled import compiled

SEED = np.uint64(42)
P1, P2, P3, P4, P5 = (
    np.uint64(x)
    for x in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)


def xxhash64(ids: Any, seeds: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
    """The hash of each id of an Arrow array of integers or text, int64 (n,).

    seeds: the hash of the columns before this one, (n,); None for the first column.
    """
    before = np.array([SEED]) if seeds is None else seeds.view(np.uint64)  # one for all, or one of each
    if hasattr(ids, "combine_chunks"):
        ids = ids.combine_chunks()
    if str(ids.type).startswith(("int", "uint")):
        known = ids.fill_null(0) if ids.null_count else ids
        hashes = _of_longs(known.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), before)
    elif len(ids):
        text = ids.cast("large_binary").fill_null(b"")
        _, offsets, content = text.buffers()
        starts = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
        hashes = _of_bytes(np.frombuffer(content or b"", np.uint8), starts, before)
    else:  # an empty Arrow array may have no buffers
        hashes = np.empty(0, np.int64)
    if ids.null_count:
        null = ids.is_null().to_numpy(zero_copy_only=False)
        hashes[null] = np.broadcast_to(before, null.shape)[null].view(np.int64)
    return hashes


@compiled
def _rotated(x, n):  # type: ignore[no-untyped-def]
    return (x << np.uint64(n)) | (x >> np.uint64(64 - n))


@compiled
def _mixed(h):  # type: ignore[no-untyped-def]
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return h ^ (h >> np.uint64(32))


@compiled
def _of_longs(ids, seeds):  # type: ignore[no-untyped-def]
    out = np.empty(ids.size, np.int64)
    for n in range(ids.size):
        h = seeds[n if seeds.size > 1 else 0] + P5 + np.uint64(8)
        h ^= _rotated(np.uint64(ids[n]) * P2, 31) * P1
        h = _rotated(h, 27) * P1 + P4
        out[n] = np.int64(_mixed(h))
    return out


@compiled
def _word(content, at, size):  # type: ignore[no-untyped-def]
    """`size` bytes as a little-endian number."""
    x = np.uint64(0)
    for n in range(size):
        x |= np.uint64(content[at + n]) << np.uint64(8 * n)
    return x


@compiled
def _round(lane, word):  # type: ignore[no-untyped-def]
    return _rotated(lane + word * P2, 31) * P1


@compiled
def _of_bytes(content, offsets, seeds):  # type: ignore[no-untyped-def]
    out = np.empty(offsets.size - 1, np.int64)
    for n in range(offsets.size - 1):
        at, end, seed = offsets[n], offsets[n + 1], seeds[n if seeds.size > 1 else 0]
        size = end - at
        if size >= 32:
            v1, v2, v3, v4 = seed + P1 + P2, seed + P2, seed, seed - P1
            while at + 32 <= end:
                v1, v2 = _round(v1, _word(content, at, 8)), _round(v2, _word(content, at + 8, 8))
                v3, v4 = _round(v3, _word(content, at + 16, 8)), _round(v4, _word(content, at + 24, 8))
                at += 32
            h = _rotated(v1, 1) + _rotated(v2, 7) + _rotated(v3, 12) + _rotated(v4, 18)
            for lane in (v1, v2, v3, v4):
                h = (h ^ _round(np.uint64(0), lane)) * P1 + P4
        else:
            h = seed + P5
        h += np.uint64(size)
        while at + 8 <= end:
            h = _rotated(h ^ _round(np.uint64(0), _word(content, at, 8)), 27) * P1 + P4
            at += 8
        if at + 4 <= end:
            h = _rotated(h ^ (_word(content, at, 4) * P1), 23) * P2 + P3
            at += 4
        while at < end:
            h = _rotated(h ^ (np.uint64(content[at]) * P5), 11) * P1
            at += 1
        out[n] = np.int64(_mixed(h))
    return out
