"""Shards equal the definitions of their hashes, computed with Python's integers."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.user_shards import shards_of_numbers, shards_of_text

MASK = 2**64 - 1


def mixed(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def fnv(text: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in text:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(1, 10**6))
def test_numbers(ids: list[int], n_shards: int) -> None:
    expected = [mixed(((n & MASK) + 0x9E3779B97F4A7C15) & MASK) % n_shards for n in ids]
    assert shards_of_numbers(np.array(ids, np.int64), n_shards).tolist() == expected


@settings(deadline=None)
@given(st.lists(st.text()), st.integers(1, 10**6))
def test_text(ids: list[str], n_shards: int) -> None:
    column = pa.array(ids, pa.string())
    offsets = np.frombuffer(column.buffers()[1], np.int32)[: len(ids) + 1] if ids else np.zeros(1, np.int32)
    shards = shards_of_text(offsets, np.frombuffer(column.buffers()[2] or b"", np.uint8), n_shards)
    assert shards.tolist() == [mixed(fnv(text.encode())) % n_shards for text in ids]


def test_neighbours_spread_evenly() -> None:
    for shards in (shards_of_numbers(np.arange(100_000), 64), shards_of_numbers(np.arange(100_000) * 1024, 64)):
        counts = np.bincount(shards, minlength=64)
        assert 1400 < counts.min() <= counts.max() < 1730  # 1562 +- 4 standard deviations
