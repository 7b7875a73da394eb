"""Weights of pairs against loops over the formulas of METHODS, and the cap against sorting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eval_engine
from eval_engine.errors import ConfigError, DataError
from eval_engine.test_sets.cap import cap_of, cap_test_set
from eval_engine.test_sets.keys import pair_hashes
from eval_engine.test_sets.weights import test_set_weights as weights_of

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=40)
STRATEGIES, POLICIES = ("FULL", "REG", "SKEW", "WTD", "WTD_H"), ("laplace", "missing_is_one", "drop")


def brute_force(train: list, random: list, pair: tuple[int, int], strategy: str, policy: str, q: float) -> float:
    """The weight of one pair, by counting."""
    if strategy in ("FULL", "REG"):
        return 1.0
    if strategy == "SKEW":
        n = sum(i == pair[1] for _, i in train)
        if policy == "laplace":
            return 1 / (n + 1)
        return 1 / n if n else (1.0 if policy == "missing_is_one" else 0.0)
    factors = []
    for side in (0, 1):
        every = {p[side] for p in train} | {p[side] for p in random}
        logged, target = (sum(p[side] == pair[side] for p in rows) for rows in (train, random))
        if policy == "laplace":
            mnar = (logged + 1) / (len(train) + len(every))
            mar = 1 / len(every) if strategy == "WTD_H" else (target + 1) / (len(random) + len(every))
            factors.append(mar / mnar)
            continue
        mnar = logged / len(train)
        mar = 1 / len(every) if strategy == "WTD_H" else target / len(random)
        missing = 1.0 if policy == "missing_is_one" else 0.0
        factors.append(mar / mnar if mnar > 0 and mar > 0 else missing)
    return factors[0] * factors[1] ** q if factors[1] else 0.0  # also for q = 0: it cannot be drawn


@settings(deadline=None)
@given(PAIRS, PAIRS, PAIRS, st.sampled_from(STRATEGIES), st.sampled_from(POLICIES), st.sampled_from([0.0, 1, 2, 2.5]))
def test_weights_are_those_of_the_formulas(train, random, pairs, strategy, policy, q) -> None:  # type: ignore[no-untyped-def]
    def columns(rows: list) -> tuple[list, list]:
        return [u for u, _ in rows], [i for _, i in rows]

    own = weights_of(*columns(train), strategy, random=columns(random), zero_support=policy, exponent=q)
    expected = [brute_force(train, random, pair, strategy, policy, q) for pair in pairs]
    np.testing.assert_allclose(own.of(*columns(pairs)), expected, rtol=1e-13)


def test_names_of_the_numpy_api() -> None:
    weights = eval_engine.test_set_weights(["a", "b", "b"], ["x", "x", "y"], "WTD_H")
    users, items = ["a", "b", "c"], ["y", "y", "x"]
    mask = eval_engine.draw_test_set(users, items, weights.of(users, items), share=0.5, seed=1)
    assert mask.dtype == np.bool_
    assert mask.sum() == 2
    assert eval_engine.cap_test_set(users, items, seed=1).all()


def test_bad_input_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match=r"random=\(users, items\), or use WTD_H"):
        weights_of([1], [2], "WTD")
    with pytest.raises(ConfigError, match="'BEST' is not known: FULL, REG"):
        weights_of([1], [2], "BEST")
    with pytest.raises(ConfigError, match="'none' is not known: laplace"):
        weights_of([1], [2], "SKEW", zero_support="none")
    with pytest.raises(ConfigError, match="cap_test_set"):
        weights_of([1], [2], "CAP")
    with pytest.raises(ConfigError, match="exponent 1000"):
        weights_of([1], [2], "WTD_H", exponent=1000)
    with pytest.raises(DataError, match="training pairs: there are none"):
        weights_of(np.array([], int), np.array([], int), "SKEW")
    with pytest.raises(DataError, match="random sample: it has no pairs"):
        weights_of([1], [2], "WTD", random=(np.array([], int), np.array([], int)))


def test_a_weight_that_overflows_or_underflows_names_its_pair() -> None:
    users, items = np.zeros(20_000, int), np.append(np.zeros(10_000, int), np.arange(1, 10_001))
    with pytest.raises(DataError, match=r"user_id=0, item_id=0, weight=4.94066e-324\)\. Lower the exponent"):
        weights_of(users, items, "WTD_H", exponent=100).of([0], [0])
    with pytest.raises(DataError, match=r"user_id=0, item_id=1, weight=inf"):
        weights_of(users, items, "WTD", random=([0], [1]), exponent=100, zero_support="missing_is_one").of([0], [1])


def test_drop_leaves_pairs_without_support_out() -> None:
    own = weights_of([1, 2], [7, 8], "WTD_H", zero_support="drop")
    assert own.of([1, 3, 1], [7, 7, 9]).tolist() == [1.0, 0.0, 0.0]


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_cap_is_the_quartile_rule(counts: list[int]) -> None:
    some = np.array([n for n in counts if n])
    if not some.size:
        with pytest.raises(DataError, match="no item has a pair"):
            cap_of(np.array(counts))
        return
    low, high = np.percentile(some, [25, 75])
    assert cap_of(np.array(counts)) == int(np.floor(high + 1.5 * (high - low) + 1e-9))
    values, numbers = np.unique(counts, return_counts=True)
    assert cap_of(values, numbers) == cap_of(np.array(counts))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), min_size=1, max_size=150, unique=True))
def test_the_smallest_hashes_of_an_item_stay(pairs: list[tuple[int, int]]) -> None:
    users, items = np.array(pairs).T
    kept = cap_test_set(users, items, seed=5)
    import pyarrow as pa

    hashes = pair_hashes(pa.array(users), pa.array(items), 5).view(np.uint64)
    cap = cap_of(np.bincount(items))
    for item in set(items.tolist()):
        mine = sorted(hashes[items == item].tolist())
        assert sorted(hashes[(items == item) & kept].tolist()) == mine[:cap]
