"""above and tied against a literal count; both ways and the chooser give the same integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.compare_count import compare_count, count, rows_with_nan, sort_count, sorting_pays_from
from eval_engine.kernels.ragged import flatten, no_lists

SCORES = [-np.inf, -3.5, -1.0, -0.0, 0.0, 1e-30, 1.0, 2.0, np.inf]  # few values: many ties


def brute_force(row, label, excluded):
    above = tied = 0
    for j, score in enumerate(row):
        if j in excluded or j == label:
            continue
        above += score > row[label]
        tied += score == row[label]
    return above, tied


@st.composite
def blocks(draw):
    """A block of scores and, per row, labelled and excluded positions and which labels are ranked in the whole row:
    only those may be excluded; rows may have neither."""
    n, n_items = draw(st.integers(0, 4)), draw(st.integers(1, 40))
    scores = np.array([[draw(st.sampled_from(SCORES)) for _ in range(n_items)] for _ in range(n)]).reshape(n, n_items)
    labels, excluded, whole = [], [], []
    mixed = draw(st.booleans())
    for _ in range(n):
        order = draw(st.permutations(range(n_items)))
        n_labels = draw(st.integers(0, min(n_items, 19)))  # eight are swept at once, the rest by four, two and one
        labels.append(order[:n_labels])
        marks = [mixed and draw(st.booleans()) for _ in range(n_labels)]
        both = [label for label, mark in zip(labels[-1], marks, strict=True) if mark and draw(st.booleans())]
        excluded.append(both + order[n_labels : n_labels + draw(st.integers(0, n_items))])
        whole += marks
    marked = np.array(whole if mixed else [], np.bool_)
    return scores.astype(draw(st.sampled_from([np.float16, np.float32, np.float64]))), labels, excluded, marked


@pytest.mark.parametrize("way", [compare_count, sort_count, count])
@given(block=blocks())
@settings(max_examples=60, deadline=None)
def test_matches_brute_force(way, block):
    scores, labels, excluded, whole = block
    above, tied = way(scores, *flatten(labels, len(labels)), *flatten(excluded, len(labels)), whole)
    assert above.dtype == tied.dtype == np.int32
    pairs = [(u, i) for u in range(len(labels)) for i in labels[u]]
    marks = whole if whole.size else [False] * len(pairs)
    want = [
        brute_force(scores[u], i, set() if mark else set(excluded[u]))
        for (u, i), mark in zip(pairs, marks, strict=True)
    ]
    assert list(zip(above.tolist(), tied.tolist(), strict=True)) == want


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_items", [1, 7, 8, 15, 16, 17, 63, 1000, 4097])  # around the vector widths
def test_row_lengths(n_items, dtype):
    rng = np.random.default_rng(n_items)
    scores = rng.integers(-50, 50, (3, n_items)).astype(dtype)
    labels = [rng.permutation(n_items)[: rng.integers(1, 20)] for _ in range(3)]
    above, tied = compare_count(scores, *flatten(labels, 3), *no_lists(3))
    want = [
        ((scores[u] > scores[u, i]).sum(), (scores[u] == scores[u, i]).sum() - 1) for u in range(3) for i in labels[u]
    ]
    assert list(zip(above, tied, strict=True)) == want


def test_count_takes_both_ways_within_one_block():
    n_items = 2000
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 500, (3, n_items)).astype(np.float32)
    order = [rng.permutation(n_items) for _ in range(3)]
    n_many = sorting_pays_from(n_items) + 5
    block = (
        scores,
        *flatten([order[0][:n_many], order[1][:3], order[2][:n_many]], 3),
        *flatten([o[-50:] for o in order], 3),
    )
    for whole in (np.zeros(0, np.bool_), rng.random(2 * n_many + 3) < 0.5):
        for one, other in zip(count(*block, whole), compare_count(*block, whole), strict=True):
            np.testing.assert_array_equal(one, other)


def test_reads_arrays_that_are_read_only_or_not_contiguous():
    scores = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    scores.flags.writeable = False
    above, _ = compare_count(scores, *flatten([[0], [1], [3]], 3), *no_lists(3))
    assert above.tolist() == [3, 2, 0]


def test_says_what_is_wrong_with_the_block():
    scores = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"positions must be in 0\.\.2, found 0\.\.3"):
        count(scores, *flatten([[0], [3]], 2), *no_lists(2))
    with pytest.raises(ValueError, match="offsets must rise from 0 to 1"):
        count(scores, np.array([0, 2, 1]), np.array([0]), *no_lists(2))
    with pytest.raises(ValueError, match="one mark for each of the 1 labels, or none, found 2"):
        count(scores, *flatten([[0], []], 2), *no_lists(2), np.ones(2, np.bool_))
    with pytest.raises(ValueError, match="found int64"):
        count(scores.astype(np.int64), *no_lists(2), *no_lists(2))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_with_nan(dtype):
    scores = np.zeros((5, 37), dtype)
    scores[1, 36] = scores[3, 0] = np.nan
    scores[2] = np.inf
    scores[4] = -np.inf
    assert rows_with_nan(scores).tolist() == [False, True, False, True, False]
