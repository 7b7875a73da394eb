"""Hashes equal those of Spark 4.2: SELECT xxhash64(CAST(id AS BIGINT)) of numbers, SELECT xxhash64(id) of text."""

import pyarrow as pa
import pytest

from eval_engine.kernels.xxhash64 import xxhash64

NUMBERS = {
    0: -5252525462095825812,
    1: -7001672635703045582,
    -1: 3858142552250413010,
    2**62: 8973626371093010265,
    5_000_000_000: -3624525776926156431,
    -(2**63): -8619748838626508300,
    None: 42,
}
TEXT = {
    "": -7444071767201028348,
    "a": -8582455328737087284,
    "abc": 1423657621850124518,
    "abcd": -6810745876291105281,
    "abcdefgh": 2470326616177429180,
    "abcdefghijkl": 3897903351825168219,
    "abcdefghijklmno": 7657402997733166237,
    "abcdefghijklmnopqrstuvwxyz01234": -1970086447371095792,  # 31 bytes
    "abcdefghijklmnopqrstuvwxyz012345": 221923967055193886,  # 32 bytes
    "abcdefghijklmnopqrstuvwxyz0123456789 and so on, for more than one round of 32 bytes": 191577158632759831,
    "Zoë 数据 🙂 naïve": -5127058064689118522,
    "ünïcödéünïcödéünïcödéünïcödéünïcödé": 5094017931655632513,
    "\x00\x7f": 5944098794816880518,
    None: 42,
}


@pytest.mark.parametrize(("known", "kind"), [(NUMBERS, pa.int64()), (TEXT, pa.string()), (TEXT, pa.large_string())])
def test_is_the_hash_of_spark(known, kind):
    ids, want = pa.array(list(known), kind), list(known.values())
    assert xxhash64(ids).tolist() == want
    for start in range(len(ids)):
        for end in (start, start + 1, len(ids)):
            assert xxhash64(ids[start:end]).tolist() == want[start:end]
    assert xxhash64(pa.chunked_array([ids[3:], ids[:0], ids[1:2]])).tolist() == [*want[3:], want[1]]
    assert xxhash64(pa.chunked_array([ids[2:4]])).tolist() == want[2:4]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.large_string()])
def test_no_ids(kind):
    assert xxhash64(pa.array([], kind)).tolist() == []
    assert xxhash64(pa.chunked_array([], kind)).tolist() == []
    assert xxhash64(pa.nulls(2, kind)).tolist() == [42, 42]
    assert xxhash64(pa.array([], kind)).dtype == "int64"


def test_narrow_numbers_are_hashed_as_bigint():
    assert xxhash64(pa.array([0, 1, -1], pa.int32())).tolist() == [NUMBERS[n] for n in (0, 1, -1)]
    assert xxhash64(pa.array([0, 1], pa.uint8())).tolist() == [NUMBERS[n] for n in (0, 1)]


def test_only_the_empty_text_has_no_bytes():
    assert xxhash64(pa.array(["", ""])).tolist() == [TEXT[""]] * 2


def test_of_several_columns_the_hash_of_one_is_the_seed_of_the_next():
    seven = xxhash64(pa.array([7]))
    three = xxhash64(pa.array([1000]), xxhash64(pa.array([100]), seven))
    assert three.tolist() == [8792269894233514161]  # xxhash64(7L, 100L, 1000L)
    text = pa.array(["Zoë 数据 and more than thirty-two bytes"])
    assert xxhash64(text, xxhash64(pa.array(["ann"]), seven)).tolist() == [-2748472059804367432]
    assert xxhash64(pa.array([5]), xxhash64(pa.array([None], pa.int64()), seven)).tolist() == [-2810596095947942834]
    assert xxhash64(pa.array([100, 100]), seven.repeat(2)).tolist() == [-1476716359037391356] * 2
