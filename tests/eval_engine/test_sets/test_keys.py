"""Keys of pairs: hashes as Spark computes them, and a logarithm with the same bits everywhere."""

import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.test_sets.keys import keys_of, log_uniform, pair_hashes, seed_hash

MASK = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip
LONGS = st.integers(-(2**63), 2**63 - 1)


def rotated(x: int, n: int) -> int:
    return ((x << n) | (x >> (64 - n))) & MASK


def xxh64_long(x: int, seed: int) -> int:
    """XXH64 of 8 bytes, from its specification, in whole numbers without a size."""
    h = (seed + P5 + 8) & MASK
    h ^= rotated((x & MASK) * P2 & MASK, 31) * P1 & MASK
    h = (rotated(h, 27) * P1 + P4) & MASK
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)


@settings(deadline=None)
@given(st.lists(st.tuples(LONGS, LONGS), min_size=1, max_size=9), LONGS)
def test_hashes_are_the_chain_of_seed_user_and_item(pairs: list[tuple[int, int]], seed: int) -> None:
    users, items = (pa.array([pair[n] for pair in pairs], pa.int64()) for n in (0, 1))
    expected = [xxh64_long(i, xxh64_long(u, xxh64_long(seed, 42))) for u, i in pairs]
    assert pair_hashes(users, items, seed).view(np.uint64).tolist() == expected
    assert int(seed_hash(seed)) & MASK == xxh64_long(seed, 42)


@settings(deadline=None)
@given(st.lists(LONGS, min_size=1, max_size=50))
def test_logarithms_are_those_of_the_unsigned_hash(hashes: list[int]) -> None:
    found = log_uniform(np.array(hashes, np.int64))
    expected = [math.log((((h & MASK) >> 12) + 0.5) / 2**52) for h in hashes]
    np.testing.assert_allclose(found, expected, rtol=4e-16)
    assert (found < 0).all()
    alone = [log_uniform(np.array([h], np.int64))[0] for h in hashes]
    assert found.tolist() == alone  # the same bits at every place of an array


def test_the_ends_of_the_unit_interval_and_a_weight_of_zero() -> None:
    ends = log_uniform(np.array([0, -1], np.int64))
    np.testing.assert_allclose(ends, [-53 * math.log(2), -(2.0**-53)], rtol=1e-15)
    assert keys_of(ends, np.array([0.0, 2.0])).tolist() == [-math.inf, ends[1] / 2]
