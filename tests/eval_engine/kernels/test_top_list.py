"""The first k against sorted(), on rows made to mislead the threshold, and on small rows full of ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.ragged import flatten, no_lists
from eval_engine.kernels.top_list import thresholds, top_lists

SCORES = [-np.inf, -3.5, -1.0, -0.0, 0.0, 1e-40, 1.0, 2.0, np.inf]


def brute_force(row, k, excluded):
    """Positions and scores of the first k, padded."""
    candidates = sorted((j for j in range(len(row)) if j not in excluded), key=lambda j: (-row[j], j))[:k]
    missing = k - len(candidates)
    return candidates + [-1] * missing, [row[j] for j in candidates] + [np.nan] * missing


def check(scores, k, excluded):
    positions, found = top_lists(scores, k, *flatten(excluded, len(excluded)))
    assert positions.dtype == np.int32
    assert positions.shape == found.shape == (len(scores), k)
    for u, row in enumerate(scores.tolist()):
        want_positions, want_scores = brute_force(row, k, set(excluded[u]))
        assert positions[u].tolist() == want_positions
        np.testing.assert_array_equal(found[u], np.array(want_scores, found.dtype))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_matches_sorted_on_small_rows(data):
    n, n_items = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 150))
    values = st.sampled_from(SCORES) if data.draw(st.booleans()) else st.floats(width=32, allow_nan=False)
    rows = [data.draw(st.lists(values, min_size=n_items, max_size=n_items)) for _ in range(n)]
    scores = np.array(rows).reshape(n, n_items).astype(data.draw(st.sampled_from([np.float32, np.float64])))
    excluded = [data.draw(st.lists(st.integers(0, n_items - 1), unique=True)) for _ in range(n)]
    check(scores, data.draw(st.integers(1, n_items + 2)), excluded)


N_ITEMS = 5003  # many parts for a threshold from columns, and no multiple of 64
COLUMNS = 256  # for k = 101
SPACING = N_ITEMS // (N_ITEMS // COLUMNS)


def high_in_one_column(rng):
    """All high scores in one column: the threshold says little, and more than the buffer holds pass it."""
    row = rng.normal(size=N_ITEMS)
    row[5::SPACING] += 100
    row[3000:3700] += 50
    return row


def high_between_parts(rng):
    """All high scores where no part lies."""
    row = rng.normal(size=N_ITEMS)
    row[np.arange(N_ITEMS) % SPACING >= COLUMNS] += 100
    return row


ROWS = {
    "normal": lambda rng: rng.normal(size=N_ITEMS),
    "ascending": lambda rng: np.sort(rng.normal(size=N_ITEMS)),
    "descending": lambda rng: -np.sort(rng.normal(size=N_ITEMS)),
    "constant": lambda rng: np.full(N_ITEMS, -2.5),
    "few levels": lambda rng: rng.integers(0, 3, N_ITEMS).astype(float),
    "all -inf": lambda rng: np.full(N_ITEMS, -np.inf),
    "all +inf": lambda rng: np.full(N_ITEMS, np.inf),
    "mostly -inf": lambda rng: np.where(rng.random(N_ITEMS) < 0.995, -np.inf, rng.normal(size=N_ITEMS)),
    "zeros of both signs": lambda rng: np.where(rng.random(N_ITEMS) < 0.5, -0.0, 0.0),
    "popular first": lambda rng: rng.normal(size=N_ITEMS) - np.log1p(np.arange(N_ITEMS)),
    "high in one place": lambda rng: rng.normal(size=N_ITEMS) + 100 * (np.arange(N_ITEMS) // 60 == 50),
    "high in one column": high_in_one_column,
    "high between parts": high_between_parts,
}


@pytest.mark.parametrize("k", [1, 11, 101, 1500, 2500, N_ITEMS + 1])
@pytest.mark.parametrize("name", ROWS)
def test_matches_sorted_on_long_rows(name, k):
    rng = np.random.default_rng(k)
    scores = np.stack([ROWS[name](rng) for _ in range(3)]).astype(np.float32)
    best = np.argsort(-scores[1], kind="stable")
    check(scores, k, [[], best[:300].tolist(), rng.permutation(N_ITEMS)[: N_ITEMS - 50].tolist()])


def test_rows_do_not_leak_exclusions_into_each_other():
    scores = np.tile(np.arange(70, dtype=np.float32), (2, 1))
    positions, _ = top_lists(scores, 2, *flatten([[69, 68], []], 2))
    assert positions.tolist() == [[67, 66], [69, 68]]


def test_k_below_one_is_an_error():
    with pytest.raises(ValueError, match="k must be at least 1"):
        top_lists(np.zeros((1, 3), np.float32), 0, *no_lists(1))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_thresholds_match_sorted_in_both_frames(data):
    """Of partial lists too: some items have no score, and are below those that have one."""
    n, n_items = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 12))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    rows = [data.draw(st.lists(st.sampled_from(SCORES), min_size=n_items, max_size=n_items)) for _ in range(n)]
    scores = np.array(rows).reshape(n, n_items).astype(dtype)
    excluded = [data.draw(st.lists(st.integers(0, n_items - 1), unique=True)) for _ in range(n)]
    unscored = [data.draw(st.sets(st.integers(0, n_items - 1))) for _ in range(n)]
    k = data.draw(st.integers(1, n_items + 3))
    cutoffs = data.draw(st.lists(st.integers(1, k), unique=True).map(sorted))  # the top list has one entry more
    left_out = [sorted({*out, *none}) for out, none in zip(excluded, unscored, strict=True)]
    _, top = top_lists(scores, k + 1, *flatten(left_out, n))
    offsets, positions = flatten(excluded, n)
    of_excluded = [np.nan if item in unscored[u] else scores[u, item] for u in range(n) for item in excluded[u]]
    assert positions.size == len(of_excluded)
    for whole in (False, True):
        candidates = np.array([n_items - (0 if whole else len(out)) for out in excluded], np.int64)
        found = thresholds(top, candidates, cutoffs, (offsets, np.array(of_excluded, dtype)) if whole else None)
        assert found.shape == (n, len(cutoffs))
        assert found.dtype == dtype
        for u in range(n):
            gone = unscored[u] | (set() if whole else set(excluded[u]))
            ranked = sorted((scores[u, j] for j in range(n_items) if j not in gone), reverse=True)
            for cutoff, tau in zip(cutoffs, found[u], strict=True):
                if cutoff >= candidates[u]:
                    assert tau == -np.inf
                elif cutoff >= len(ranked):
                    assert np.isnan(tau)
                else:
                    assert tau == ranked[cutoff]
