"""Rows are the same after encoding and decoding, whatever their types and however they are split into blobs."""

import numpy as np
import pyarrow as pa

from eval_engine.spark.arrow_blobs import BATCH_BYTES, decode, encode, encode_by_key, rebatch


def test_rows_come_back_with_nulls_text_and_structs() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"id": ["a", None, "ü"], "n": pa.array([1, None, 3], pa.int32()), "s": [{"x": b"1"}, None, {"x": b""}]}
    )
    assert decode([pa.scalar(encode(rows))]).to_pydict() == rows.to_pydict()
    assert decode([pa.scalar(encode(rows.slice(1, 1))), pa.scalar(encode(rows))])["id"].to_pylist() == [
        None,
        "a",
        None,
        "ü",
    ]


def test_blobs_that_differ_in_nullable_flags_are_decoded_together() -> None:
    strict = pa.RecordBatch.from_arrays([pa.array([1])], schema=pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    assert decode([pa.scalar(encode(strict)), pa.scalar(encode(pa.RecordBatch.from_pydict({"n": [2]})))])[
        "n"
    ].to_pylist() == [1, 2]


def test_a_blob_per_key_in_the_order_of_the_keys() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, 500), rng.integers(-2, 3, 500)
    rows = pa.RecordBatch.from_pydict({"row": np.arange(500)})
    (a, b), blobs = encode_by_key(rows, first, second)
    keys = list(zip(a.tolist(), b.tolist(), strict=True))
    assert keys == sorted(set(zip(first.tolist(), second.tolist(), strict=True)))
    for key, blob in zip(keys, blobs, strict=True):
        assert decode([blob])["row"].to_pylist() == [n for n in range(500) if (first[n], second[n]) == key]


def test_no_rows_make_no_blob() -> None:
    (keys,), blobs = encode_by_key(pa.RecordBatch.from_pydict({"row": pa.array([], pa.int64())}), np.zeros(0, np.int64))
    assert keys.size == len(blobs) == 0


def test_rebatch_gives_the_same_rows_in_bounded_batches() -> None:
    batches = [pa.RecordBatch.from_pydict({"n": np.arange(k * 10**6, (k + 1) * 10**6)}) for k in range(9)]
    larger = list(rebatch([*batches, batches[0].slice(0, 0)]))
    assert [batch.nbytes <= BATCH_BYTES + batches[0].nbytes for batch in larger] == [True] * len(larger)
    assert len(larger) == 2
    np.testing.assert_array_equal(pa.concat_batches(larger)["n"], np.arange(9 * 10**6))


def test_rebatch_does_not_join_rows_with_different_columns() -> None:
    narrow, wide = pa.RecordBatch.from_pydict({"n": [1, 2]}), pa.RecordBatch.from_pydict({"n": [3], "p": [0.5]})
    larger = list(rebatch([wide.slice(0, 0), narrow, wide.slice(0, 0), narrow, wide, wide, narrow]))
    assert [batch.to_pydict() for batch in larger] == [
        {"n": [1, 2, 1, 2]},
        {"n": [3, 3], "p": [0.5, 0.5]},
        {"n": [1, 2]},
    ]
