"""Randomness keyed by ids: the same (seed, user, item) gives the same number in any block, order or process.

mix      eval_engine/kernels/splitmix64.py
combine  mix(mix(a) + b): order matters, (u, i) and (i, u) differ
id_keys  BIGINT: the bits of the id; STRING: sum_j (byte_j + 1) P^j mod 2^64 over its UTF-8 bytes, mixed
"""

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.kernels.splitmix64 import Keys, mix

PRIME = 0x100000001B3
STRINGS_AT_ONCE = 1 << 20


def combine(left: Keys, right: Keys) -> Keys:
    """One key from two, with numpy's broadcasting."""
    return mix(mix(left) + right)


def seed_key(seed: int) -> Keys:
    """The seed as an array of one key."""
    return np.array([seed], dtype=np.uint64)


def unit(keys: Keys) -> npt.NDArray[np.float32]:
    """Uniform numbers in [0, 1): the upper 24 bits, which a float32 represents exactly."""
    return (keys >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def stream_seed(seed: int, *parts: str | int) -> int:
    """A seed for one stream of draws, such as (seed, "epoch", 3)."""
    text = "/".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def id_keys(ids: pa.Array) -> Keys:
    """A key for each id, shape (n,)."""
    if pa.types.is_integer(ids.type):
        return np.asarray(ids.to_numpy(), dtype=np.int64).view(np.uint64)
    parts = [_string_keys(ids.slice(start, STRINGS_AT_ONCE)) for start in range(0, len(ids), STRINGS_AT_ONCE)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _string_keys(ids: pa.Array) -> Keys:
    """The polynomial of each string's bytes, from Arrow's buffers."""
    _, offset_buffer, byte_buffer = ids.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[ids.offset : ids.offset + len(ids) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    keys = np.zeros(len(ids), np.uint64)
    if lengths.sum() > 0:
        text = np.frombuffer(byte_buffer, np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
        powers = np.concatenate(
            [np.ones(1, np.uint64), np.cumprod(np.full(lengths.max() - 1, PRIME, np.uint64), dtype=np.uint64)]
        )
        text *= powers[np.arange(len(text)) - np.repeat(offsets[:-1] - offsets[0], lengths)]
        filled = lengths > 0  # for an empty segment reduceat returns the value of its neighbour
        keys[filled] = np.add.reduceat(text, (offsets[:-1] - offsets[0])[filled])
    return mix(keys)
