"""Keys of ids; the oracle for strings is a loop over bytes with Python integers."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from models.keyed import PRIME, combine, id_keys, mix, stream_seed, unit

MASK = (1 << 64) - 1


def splitmix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def test_mix_is_splitmix64() -> None:
    assert (
        int(mix(np.zeros(1, np.uint64))[0]) == 0xE220A8397B1DCDAF
    )  # the first output of the published generator from seed 0


@given(st.lists(st.text(max_size=6), max_size=8), st.integers(0, 3))
def test_string_keys_match_a_loop(texts: list[str], skip: int) -> None:
    ids = pa.array(texts, pa.string()).slice(skip)
    expected = [
        splitmix(sum((byte + 1) * pow(PRIME, j, 1 << 64) for j, byte in enumerate(text.encode())) & MASK)
        for text in texts[skip:]
    ]
    assert id_keys(ids).tolist() == expected


def test_integer_keys_of_negative_ids_differ() -> None:
    assert id_keys(pa.array([-1, 0, 1])).tolist() == [MASK, 0, 1]


@given(st.integers(0, MASK), st.integers(0, MASK))
def test_order_matters(a: int, b: int) -> None:
    left, right = np.array([a], np.uint64), np.array([b], np.uint64)
    assert (combine(left, right) == combine(right, left)).all() == (a == b)


def test_unit_is_uniform() -> None:
    draws = unit(mix(np.arange(100_000, dtype=np.uint64)))
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    assert draws.min() >= 0
    assert draws.max() < 1
    assert abs(counts - 5000).max() < 5 * np.sqrt(5000)


def test_streams_differ_and_are_repeatable() -> None:
    assert stream_seed(1, "epoch", 2) == stream_seed(1, "epoch", 2)
    assert (
        len(
            {stream_seed(1, "epoch", 2), stream_seed(1, "epoch", 3), stream_seed(2, "epoch", 2), stream_seed(1, "init")}
        )
        == 4
    )
