"""The shard of each user: a hash of the user's id that is the same in every process.

So all rows of a user, from any file or table, meet in one shard. A number is hashed by splitmix64's finaliser, a text
byte by byte by FNV-1a and then by the finaliser.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled


def shards_of_numbers(ids: Ints, n_shards: int) -> npt.NDArray[np.int32]:
    """Shard of each id, 0 to n_shards - 1."""
    shards = np.empty(ids.size, np.int32)
    _number_shards(np.ascontiguousarray(ids, np.int64), np.uint64(n_shards), shards)
    return shards


def shards_of_text(offsets: Ints, text: npt.NDArray[np.uint8], n_shards: int) -> npt.NDArray[np.int32]:
    """Shard of each string text[offsets[n] : offsets[n + 1]], 0 to n_shards - 1."""
    shards = np.empty(offsets.size - 1, np.int32)
    _text_shards(np.ascontiguousarray(offsets, np.int64), text, np.uint64(n_shards), shards)
    return shards


@compiled
def _mixed(value):  # type: ignore[no-untyped-def]
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled
def _number_shards(ids, n_shards, shards):  # type: ignore[no-untyped-def]
    for n in range(ids.size):
        shards[n] = _mixed(np.uint64(ids[n]) + np.uint64(0x9E3779B97F4A7C15)) % n_shards


@compiled
def _text_shards(offsets, text, n_shards, shards):  # type: ignore[no-untyped-def]
    for n in range(shards.size):
        value = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[n], offsets[n + 1]):
            value = (value ^ np.uint64(text[at])) * np.uint64(0x100000001B3)
        shards[n] = _mixed(value) % n_shards
