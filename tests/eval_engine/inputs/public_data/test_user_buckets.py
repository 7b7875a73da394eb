"""Pairs come back user by user, each once with its largest value, however they were added: against a dict."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_engine.inputs.public_data import user_buckets
from eval_engine.inputs.public_data.user_buckets import Pairs, UserBuckets

KINDS = (pa.int64(), pa.int64(), pa.float64())
ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-3, 6), st.integers(-2, 5), st.sampled_from([-1.5, 0.0, 2.0, np.inf]))
)


def as_pairs(keys: set[tuple[int, int]]) -> Pairs:
    users, items = (np.array([key[at] for key in sorted(keys)], np.int64) for at in (0, 1))
    return Pairs(users, items, np.zeros(len(keys)))


@given(ROWS, st.integers(1, 5), st.integers(1, 4))
def test_each_pair_once_with_its_largest_value(
    rows: list[tuple[int, int, int, float]], n_buckets: int, per_batch: int
) -> None:
    largest: dict[tuple[int, int, int], float] = {}
    for source, user, item, value in rows:
        largest[source, user, item] = max(value, largest.get((source, user, item), -np.inf))
    read: dict[tuple[int, int, int], float] = {}
    users_of_buckets, n_repeated = [], 0
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_buckets, "BYTES_PER_BUCKET", 1)
        buckets = UserBuckets(Path(folder), n_buckets - 1)
        assert buckets.n_buckets == n_buckets
        for start in range(0, len(rows), per_batch):
            for source in (0, 1):
                chosen = [row[1:] for row in rows[start : start + per_batch] if row[0] == source]
                columns = [pa.array([row[at] for row in chosen], kind) for at, kind in enumerate(KINDS)]
                buckets.add(source, pa.record_batch(columns, ["user_id", "item_id", "value"]))
        for sources in buckets.read(2):
            users_of_buckets.append({int(user) for source in sources for user in source.pairs.user_id})
            for number, source in enumerate(sources):
                keys = list(zip(source.pairs.user_id.tolist(), source.pairs.item_id.tolist(), strict=True))
                assert keys == sorted(keys)
                n_repeated += source.n_repeated
                for (user, item), value in zip(keys, source.pairs.value, strict=True):
                    assert (number, user, item) not in read
                    read[number, user, item] = value
        assert not list(Path(folder).iterdir())
    assert read == largest
    assert n_repeated == len(rows) - len(largest)
    assert sum(map(len, users_of_buckets)) == len({user for _, user, _, _ in rows})  # a user is in one bucket


@given(*[st.sets(st.tuples(st.integers(-2, 4), st.integers(-2, 4)))] * 2)
def test_pairs_among_others(first: set[tuple[int, int]], second: set[tuple[int, int]]) -> None:
    found = as_pairs(first).in_any(as_pairs(second))
    assert found.tolist() == [pair in second for pair in sorted(first)]
