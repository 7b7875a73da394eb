"""Ranks in lists of rows against loops over them: any order, any part, ties, infinities, NaN, copies, items outside the catalogue."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels import rank_lists
from eval_engine.kernels.ragged import flatten, users_of

N = 12
SCORES = st.sampled_from([-np.inf, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf])
ITEMS = st.lists(st.integers(0, N - 1), unique=True, max_size=N)
USERS = st.lists(st.tuples(ITEMS, ITEMS, ITEMS), min_size=1, max_size=5)  # scored, labelled, excluded
DTYPES = st.sampled_from([np.float32, np.float64])


def draw(data, users, dtype):
    """Lists, labels and excluded of some users, and which labels are ranked among all rows; others are not excluded."""
    scored, labelled, excluded = zip(*users, strict=True)
    mixed = data.draw(st.booleans())
    whole = [[mixed and data.draw(st.booleans()) for _ in items] for items in labelled]
    kept = [
        [(i, mark) for i, mark in zip(items, marks, strict=True) if mark or i not in out]
        for items, marks, out in zip(labelled, whole, excluded, strict=True)
    ]
    labelled = [[i for i, _ in own] for own in kept]
    marked = np.array([mark for own in kept for _, mark in own] if mixed else [], np.bool_)
    offsets, positions = flatten(scored, len(users))
    scores = np.array([data.draw(SCORES) for _ in range(positions.size)], dtype)
    return rank_lists.Lists(offsets, positions.astype(np.int32), scores), labelled, excluded, marked


@given(st.data(), USERS, DTYPES, st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_matches_loops_over_the_rows(data, users, dtype, k):
    lists, labelled, excluded, whole = draw(data, users, dtype)
    label_offsets, labels = flatten(labelled, len(users))
    out = flatten(excluded, len(users))
    found = rank_lists.find(lists, label_offsets, labels, *out, N)
    above, level = rank_lists.count(found.lists, label_offsets, found.label_scores)
    rank_lists.add_excluded((above, level), label_offsets, found.label_scores, whole, out[0], found.excluded_scores)
    top_positions, top_scores = rank_lists.first(found.lists, k)
    for u in range(len(users)):
        mine = slice(lists.offsets[u], lists.offsets[u + 1])
        scores = dict(zip(lists.positions[mine].tolist(), lists.scores[mine].tolist(), strict=True))
        candidates = {i: s for i, s in scores.items() if i not in excluded[u]}
        assert found.candidates[u] == len(candidates)
        of_excluded = found.excluded_scores[out[0][u] : out[0][u + 1]]
        np.testing.assert_array_equal(of_excluded, [scores.get(i, np.nan) for i in excluded[u]])
        for label, item in enumerate(labelled[u], label_offsets[u]):
            if item not in scores:
                assert np.isnan(found.label_scores[label])
                assert (above[label], level[label]) == (0, 0)
            else:
                assert found.label_scores[label] == scores[item]
                among = (scores if whole.size and whole[label] else candidates).values()
                assert above[label] == sum(s > scores[item] for s in among)
                assert level[label] == sum(s == scores[item] for s in among)
        first = sorted(candidates, key=lambda i: (-candidates[i], i))[:k]
        assert top_positions[u].tolist() == first + [-1] * (k - len(first))
        assert top_scores[u][: len(first)].tolist() == [candidates[i] for i in first]
        assert np.isnan(top_scores[u][len(first) :]).all()


@given(st.data(), USERS, DTYPES, st.integers(1, 9), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_parts_add_up_to_the_whole(data, users, dtype, k, n_parts):
    lists, labelled, excluded, marked = draw(data, users, dtype)
    n = len(users)
    label_offsets, labels = flatten(labelled, n)
    out = flatten(excluded, n)
    whole = rank_lists.find(lists, label_offsets, labels, *out, N)
    part_of = np.array([data.draw(st.integers(0, n_parts - 1)) for _ in range(lists.positions.size)], int)
    order = np.random.default_rng(0).permutation(lists.positions.size)
    user = users_of(lists.offsets)
    parts = []
    for part in range(n_parts):
        rows = order[part_of[order] == part]
        parts.append(rank_lists.grouped(user[rows], n, lists.positions[rows], lists.scores[rows]))
    found = [rank_lists.find(part, label_offsets, labels, *out, N) for part in parts]
    part_offsets = np.arange(n + 1) * n_parts

    def laid_out(of_parts):  # user by user, part by part
        return np.concatenate(
            [f[label_offsets[u] : label_offsets[u + 1]] for u in range(n) for f in of_parts] or [np.zeros(0)]
        )

    scores, twice = rank_lists.merged_scores(
        part_offsets, label_offsets, laid_out([f.label_scores.astype(float) for f in found])
    )
    np.testing.assert_array_equal(scores, whole.label_scores.astype(float))
    assert not twice.any()

    def counted(part):
        counts = rank_lists.count(part.lists, label_offsets, scores.astype(dtype))
        rank_lists.add_excluded(counts, label_offsets, scores.astype(dtype), marked, out[0], part.excluded_scores)
        return counts

    counts = [counted(part) for part in found]
    for which, want in enumerate(counted(whole)):
        np.testing.assert_array_equal(
            rank_lists.merged_counts(
                part_offsets, label_offsets, laid_out([c[which] for c in counts]).astype(np.int32)
            ),
            want,
        )
    tops = [rank_lists.first(f.lists, k) for f in found]
    together = rank_lists.Lists(
        np.arange(n + 1) * n_parts * k, np.hstack([t[0] for t in tops]).ravel(), np.hstack([t[1] for t in tops]).ravel()
    )
    for got, want in zip(rank_lists.first(together, k), rank_lists.first(whole.lists, k), strict=True):
        np.testing.assert_array_equal(got, want)
    sums = sum(rank_lists.checksums(part) for part in parts)
    np.testing.assert_array_equal(
        sums == rank_lists.whole_checksum(N), [sorted(items) == list(range(N)) for items, _, _ in users]
    )


def test_long_lists_take_the_sampled_threshold_and_many_labels_the_sort():
    rng = np.random.default_rng(1)
    n = 9000
    for scores in (
        rng.normal(size=n),
        np.zeros(n),
        np.arange(n) * 1.0,
        -np.arange(n) * 1.0,
        np.where(rng.random(n) < 0.99, -np.inf, 1.0),
    ):
        positions = rng.permutation(n).astype(np.int32)
        for dtype in (np.float32, np.float64):
            lists = rank_lists.Lists(np.array([0, n]), positions, scores.astype(dtype))
            labels = rng.permutation(n)[:300].astype(np.int32)
            found = rank_lists.find(
                lists, np.array([0, 300]), labels, np.array([0, 2]), np.setdiff1d(positions, labels)[:2], n
            )
            kept = found.lists.scores[~np.isnan(found.lists.scores)]
            above, level = rank_lists.count(found.lists, np.array([0, 300]), found.label_scores)
            np.testing.assert_array_equal(above, [(kept > t).sum() for t in found.label_scores])
            np.testing.assert_array_equal(level, [(kept == t).sum() for t in found.label_scores])
            there = ~np.isnan(found.lists.scores)
            order = np.lexsort((positions[there], -found.lists.scores[there]))[:101]
            np.testing.assert_array_equal(rank_lists.first(found.lists, 101)[0][0], positions[there][order])


def test_what_is_wrong_with_rows_is_counted():
    lists = rank_lists.Lists(
        np.array([0, 5, 5]), np.array([3, -1, 4, 3, 7], np.int32), np.array([1, 9, np.nan, 1, 2], np.float32)
    )
    found = rank_lists.find(lists, np.array([0, 1, 2]), np.array([3, 3]), *flatten([[7], []], 2), N)
    assert (found.outside.tolist(), found.nan.tolist(), found.twice.tolist()) == ([1, 0], [1, 0], [1, 0])
    assert np.isnan(found.label_scores).tolist() == [False, True]
    assert lists.scores[1] == 9  # the rows given are not changed


def test_a_label_in_two_parts_is_told():
    part = np.array([1.0, np.nan, 1.0, 2.0])  # one user, two parts, two labels
    scores, twice = rank_lists.merged_scores(np.array([0, 2]), np.array([0, 2]), part)
    assert scores.tolist() == [1.0, 2.0]
    assert twice.tolist() == [1]


@given(st.data(), st.integers(1, 4), st.booleans())
@settings(max_examples=80, deadline=None)
def test_whole_lists_are_vectors_in_any_order(data, n, in_order):
    orders = [list(range(N)) if in_order else data.draw(st.permutations(range(N))) for _ in range(n)]
    scores = np.array([data.draw(SCORES) for _ in range(n * N)], np.float32)
    lists = rank_lists.Lists(np.arange(n + 1) * N, np.concatenate(orders).astype(np.int32), scores)
    vectors = rank_lists.as_vectors(lists, N)
    for u, order in enumerate(orders):
        np.testing.assert_array_equal(vectors[u, order], scores[u * N : (u + 1) * N])


@pytest.mark.parametrize("in_order", [True, False])
def test_what_is_no_vector(in_order):
    order = np.arange(N, dtype=np.int32) if in_order else np.arange(N, dtype=np.int32)[::-1].copy()
    offsets, positions, scores = np.array([0, N, 2 * N]), np.tile(order, 2), np.ones(2 * N, np.float32)

    def found(offsets=offsets, positions=positions, scores=scores):
        return rank_lists.as_vectors(rank_lists.Lists(offsets, positions, scores), N)

    def changed(array, value):
        return np.concatenate([array[: N + 3], [value], array[N + 4 :]]).astype(array.dtype)

    assert found() is not None
    assert found(scores=changed(scores, np.nan)) is None
    assert found(positions=changed(positions, -1)) is None  # outside the catalogue
    assert found(positions=changed(positions, positions[N])) is None  # one item twice, another not at all
    assert found(offsets=np.array([0, N - 1, 2 * N])) is None  # as many rows, not so many of each
    assert found(offsets=np.array([0, N, 2 * N - 1]), positions=positions[:-1], scores=scores[:-1]) is None
    assert found(scores=scores.astype(np.float64)) is None
    assert found(np.zeros(1, np.int64), positions[:0], scores[:0]) is None
