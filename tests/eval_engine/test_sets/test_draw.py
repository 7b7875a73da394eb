"""The weighted draw against brute force, and against the exact probabilities of sequential weighted sampling."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from eval_engine.errors import ConfigError, DataError
from eval_engine.test_sets.draw import draw_test_set, size_of_share
from eval_engine.test_sets.keys import keys_of, log_uniform, pair_hashes

IDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=40))
WEIGHTS = st.one_of(st.just(0.0), st.floats(1e-250, 1e250), st.just(1.0))


def brute_force(users: list, items: list, weights: list[float], size: int, seed: int) -> list[bool]:
    """Sorts all pairs by key, hash and ids; loops over single pairs."""
    rows = []
    for n, (u, i, w) in enumerate(zip(users, items, weights, strict=True)):
        (h,) = pair_hashes(pa.array([u]), pa.array([i]), seed)
        log_u = float(log_uniform(np.array([h]))[0])
        rows.append((-(log_u / w if w else -math.inf), int(np.uint64(h)), u, i, n))
    kept = {row[-1] for row in sorted(rows)[:size]}
    return [n in kept for n in range(len(users))]


@st.composite
def pair_lists(draw: st.DrawFn) -> tuple[list, list, list[float]]:
    kind = draw(st.sampled_from([st.integers(-(2**63), 2**63 - 1), st.text(max_size=40)]))
    pairs = draw(st.lists(st.tuples(kind, kind), min_size=1, max_size=30, unique=True))
    weights = draw(st.lists(WEIGHTS, min_size=len(pairs), max_size=len(pairs)))
    return [u for u, _ in pairs], [i for _, i in pairs], weights


@settings(deadline=None)
@given(pair_lists(), st.floats(0.01, 1), st.integers(-(2**63), 2**63 - 1))
def test_draw_is_that_of_brute_force(pairs: tuple[list, list, list[float]], share: float, seed: int) -> None:
    users, items, weights = pairs
    size = math.floor(share * len(users) + 0.5)
    if size < 1 or sum(w > 0 for w in weights) < size:
        with pytest.raises(DataError):
            draw_test_set(users, items, weights, share, seed)
        return
    drawn = draw_test_set(users, items, weights, share, seed)
    assert drawn.tolist() == brute_force(users, items, weights, size, seed)
    back = draw_test_set(users[::-1], items[::-1], weights[::-1], share, seed)
    assert back[::-1].tolist() == drawn.tolist()  # the order of the pairs does not matter


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.floats(0.01, 1), st.integers(0, 5))
def test_equal_keys_are_settled_by_hash(n: int, share: float, seed: int) -> None:
    users, items = np.arange(n) % 7, np.arange(n)
    weights = np.full(n, 1.0)
    size = math.floor(share * n + 0.5)
    if size:
        drawn = draw_test_set(users, items, weights, share, seed)
        assert drawn.tolist() == brute_force(users.tolist(), items.tolist(), weights.tolist(), size, seed)
        assert drawn.sum() == size


def test_inclusion_frequencies_are_those_of_sequential_weighted_sampling() -> None:
    """8 pairs, weight ratios up to 1e6, 3 drawn, 200,000 seeds: every set of 3 pairs as often as enumeration says."""
    n_draws, size = 200_000, 3
    weights = np.array([1e6, 1e5, 3e4, 1e3, 700.0, 20.0, 3.0, 1.0])
    users, items = np.array([1, 1, 2, 2, 3, 3, 4, 4]), np.array([10, 11, 10, 11, 10, 11, 10, 12])
    exact: dict[tuple[int, ...], float] = {}
    for order in itertools.permutations(range(8), size):  # the draw one after the other
        chance, left = 1.0, weights.sum()
        for pair in order:
            chance *= weights[pair] / left
            left -= weights[pair]
        exact[tuple(sorted(order))] = exact.get(tuple(sorted(order)), 0.0) + chance
    assert sum(exact.values()) == pytest.approx(1)
    seeds = np.arange(n_draws)
    columns = []
    for u, i in zip(users, items, strict=True):  # xxhash64(seed, user, item) of all seeds at once
        hashes = pair_hashes_of_seeds(seeds, int(u), int(i))
        columns.append(keys_of(log_uniform(hashes), np.full(n_draws, weights[len(columns)])))
    keys = np.stack(columns, axis=1)
    drawn = np.sort(np.argsort(-keys, axis=1)[:, :size], axis=1)
    for seed in (0, 17, 199_999):
        mask = draw_test_set(users, items, weights, size / 8, seed)
        assert np.flatnonzero(mask).tolist() == drawn[seed].tolist()
    codes, n = np.unique(drawn @ [64, 8, 1], return_counts=True)
    found = dict(zip(codes.tolist(), n.tolist(), strict=True))
    by_code = {int(np.dot(one, [64, 8, 1])): chance for one, chance in exact.items()}
    assert set(found) <= set(by_code)
    common = [code for code, chance in by_code.items() if chance * n_draws >= 5]
    observed = [found.get(code, 0) for code in common] + [n_draws - sum(found.get(code, 0) for code in common)]
    expected = [by_code[code] * n_draws for code in common]
    expected.append(n_draws - sum(expected))
    assert chisquare(observed, expected).pvalue > 0.001
    included = np.bincount(drawn.ravel(), minlength=8) / n_draws
    chances = [sum(chance for one, chance in exact.items() if pair in one) for pair in range(8)]
    errors = np.sqrt(np.maximum(np.multiply(chances, np.subtract(1, chances)), 1e-6) / n_draws)
    assert (np.abs(included - chances) < 4.5 * errors).all()


def pair_hashes_of_seeds(seeds: np.ndarray, user: int, item: int) -> np.ndarray:
    from eval_engine.kernels.xxhash64 import xxhash64

    n = seeds.size
    first = xxhash64(pa.array(seeds))
    second = xxhash64(pa.array(np.full(n, user)), first)
    return xxhash64(pa.array(np.full(n, item)), second)


@pytest.mark.parametrize(("share", "n", "size"), [(0.5, 5, 3), (0.29, 100, 29), (1.0, 7, 7), (0.1, 5, 1), (0.5, 1, 1)])
def test_size_is_the_share_rounded(share: float, n: int, size: int) -> None:
    assert size_of_share(share, n) == size


def test_bad_input_is_an_error_that_names_it() -> None:
    ones = [1.0, 1.0]
    with pytest.raises(DataError, match="fewer than one pair"):
        draw_test_set([1, 2], [3, 3], ones, share=0.1, seed=0)
    with pytest.raises(ConfigError, match="share 0"):
        draw_test_set([1, 2], [3, 3], ones, share=0.0, seed=0)
    with pytest.raises(ConfigError, match=r"share 1.5"):
        draw_test_set([1, 2], [3, 3], ones, share=1.5, seed=0)
    with pytest.raises(DataError, match="all 2 are 0"):
        draw_test_set([1, 2], [3, 3], [0.0, 0.0], share=0.5, seed=0)
    with pytest.raises(DataError, match=r"2 pairs are to be drawn .* only 1 have a weight above 0"):
        draw_test_set([1, 2], [3, 3], [0.0, 1.0], share=1.0, seed=0)
    with pytest.raises(DataError, match=r"user_id=2, item_id=3, weight=inf.*Lower the exponent"):
        draw_test_set([1, 2], [3, 3], [1.0, np.inf], share=0.5, seed=0)
    with pytest.raises(DataError, match="weight=1e-300"):
        draw_test_set([1, 2], [3, 3], [1.0, 1e-300], share=0.5, seed=0)
    with pytest.raises(DataError, match="weight=nan"):
        draw_test_set([1, 2], [3, 3], [1.0, np.nan], share=0.5, seed=0)
    with pytest.raises(DataError, match=r"1 pairs stand .* user_id=a, item_id=x"):
        draw_test_set(["a", "b", "a"], ["x", "x", "x"], [1.0, 1.0, 1.0], share=0.5, seed=0)
    with pytest.raises(ConfigError, match="64 bits"):
        draw_test_set([1, 2], [3, 3], ones, share=0.5, seed=2**63)
    with pytest.raises(ValueError, match="whole numbers or text"):
        draw_test_set([1.5, 2], [3, 3], ones, share=0.5, seed=0)
    with pytest.raises(ValueError, match="one entry for each pair"):
        draw_test_set([1, 2], [3, 3], [1.0], share=0.5, seed=0)
