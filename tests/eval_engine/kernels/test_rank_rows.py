"""One visit per row gives what a literal count and sorted() give, and what the three kernels give one after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.compare_count import compare_count, rows_with_nan, sorting_pays_from
from eval_engine.kernels.ragged import flatten
from eval_engine.kernels.rank_rows import rank_rows
from eval_engine.kernels.top_list import top_lists

SCORES = [-np.inf, -3.5, -0.0, 0.0, 1e-40, 2.0, np.inf]  # few values: many ties


def brute_force(row, labels, excluded, whole, k):
    """above and tied of each label, and the positions of the first k; whole: labels that are ranked in the whole row."""
    candidates = [j for j in range(len(row)) if j not in excluded]
    among = [range(len(row)) if mark else candidates for mark in whole]
    above = [sum(row[j] > row[i] for j in mine) for i, mine in zip(labels, among, strict=True)]
    tied = [sum(row[j] == row[i] for j in mine if j != i) for i, mine in zip(labels, among, strict=True)]
    first = sorted(candidates, key=lambda j: (-row[j], j))[:k]
    return above, tied, first + [-1] * (k - len(first))


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_matches_brute_force(data):
    n_items = data.draw(st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 127, 128, 129, 255, 300])))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    kinds = {
        "ties": lambda: rng.choice(SCORES, (3, n_items)),
        "constant": lambda: np.full((3, n_items), rng.choice(SCORES)),
        "real": lambda: rng.normal(size=(3, n_items)),
    }
    scores = kinds[data.draw(st.sampled_from(sorted(kinds)))]().astype(np.float32)
    order = [rng.permutation(n_items) for _ in range(3)]
    n_labels = [data.draw(st.integers(0, min(n_items, 19))) for _ in order]  # around 8 and 16, which are swept at once
    labels = [o[:n].tolist() for o, n in zip(order, n_labels, strict=True)]
    excluded = [o[n : n + data.draw(st.integers(0, n_items))].tolist() for o, n in zip(order, n_labels, strict=True)]
    mixed = data.draw(st.booleans())
    whole = [[mixed and bool(rng.integers(2)) for _ in own] for own in labels]
    if mixed:  # a label that is ranked in the whole row may be excluded
        for own, marks, out in zip(labels, whole, excluded, strict=True):
            out += [i for i, mark in zip(own, marks, strict=True) if mark and rng.integers(2)]
    k = data.draw(st.integers(1, n_items + 2))
    nan = [data.draw(st.sampled_from([None, None, 0, n_items // 2, n_items - 1])) for _ in order]
    for row, position in zip(scores, nan, strict=True):
        if position is not None:
            row[position] = np.nan
    marked = np.array([mark for marks in whole for mark in marks] if mixed else [], np.bool_)
    ranked = rank_rows(scores, *flatten(labels, 3), *flatten(excluded, 3), k, marked)
    assert ranked.has_nan.tolist() == [position is not None for position in nan]
    for u, start in enumerate(np.cumsum([0, *n_labels[:2]])):
        if nan[u] is None:
            here = slice(start, start + n_labels[u])
            got = ranked.above[here].tolist(), ranked.tied[here].tolist(), ranked.top_positions[u].tolist()
            assert got == brute_force(scores[u].tolist(), labels[u], set(excluded[u]), whole[u], k)
            assert ranked.label_scores[here].tolist() == [scores[u].tolist()[position] for position in labels[u]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_as_one_after_the_other(dtype):
    n, n_items, k = 6, 3000, 20
    rng = np.random.default_rng(1)
    scores = rng.integers(-400, 400, (n, n_items)).astype(dtype)
    order = [rng.permutation(n_items) for _ in range(n)]
    n_labels = [0, 1, 5, sorting_pays_from(n_items) + 1, 10, 3]
    labels = flatten([o[:size] for o, size in zip(order, n_labels, strict=True)], n)
    excluded = flatten([o[-40 * u :] if u else [] for u, o in enumerate(order)], n)
    whole = rng.random(labels[1].size) < 0.5
    ranked = rank_rows(scores, *labels, *excluded, k, whole)
    above, tied = compare_count(scores, *labels, *excluded, whole)
    positions, found = top_lists(scores, k, *excluded)
    label_scores = np.concatenate([row[o[:size]] for row, o, size in zip(scores, order, n_labels, strict=True)])
    for mine, want in zip(ranked, (above, tied, positions, found, np.zeros(n, bool), label_scores), strict=True):
        np.testing.assert_array_equal(mine, want)


def test_flags_rows_with_nan_and_ranks_the_others():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(3, 2500)).astype(np.float32)
    clean = rank_rows(scores, *flatten([[1], [2], [3]], 3), *flatten([[], [], []], 3), 5)
    scores[1, 2400] = np.nan
    ranked = rank_rows(scores, *flatten([[1], [2], [3]], 3), *flatten([[], [], []], 3), 5)
    assert ranked.has_nan.tolist() == rows_with_nan(scores).tolist() == [False, True, False]
    np.testing.assert_array_equal(ranked.top_positions[[0, 2]], clean.top_positions[[0, 2]])
    np.testing.assert_array_equal(ranked.above[[0, 2]], clean.above[[0, 2]])
