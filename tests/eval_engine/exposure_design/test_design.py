"""A plan against the same draw written as loops, exact inclusion probabilities, and an enumerated small case."""

import math
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from eval_engine.errors import ConfigError, DataError
from eval_engine.exposure_design.design import design_exposures, item_keys, user_keys
from eval_engine.kernels.splitmix64 import mix
from eval_engine.test_sets.draw import id_array

SMALL = np.array([[0, 1, 2], [1, 2, 3], [0, 1, 4]])  # the lists of three models: a union of five items of twelve
MANY = 100_000


def random_lists(rng: np.random.Generator, n_models: int, n_users: int, length: int, n_items: int) -> npt.NDArray[Any]:
    return np.array([[rng.permutation(n_items)[:length] for _ in range(n_users)] for _ in range(n_models)])


def weights(lists: npt.NDArray[Any], cutoffs: tuple[int, ...], extra: int) -> dict[int, float]:
    """w of each item of a user's lists, from the formula."""
    found = {}
    for item in sorted(set(lists.ravel().tolist()) - {-1}):
        square = 0.0
        for k in cutoffs:
            t = sum(item in row[:k] for row in lists.tolist())
            square += t * (len(lists) + extra - t) / k
        found[item] = math.sqrt(square)
    return found


def inclusion(w: dict[int, float], size: int) -> dict[int, float]:
    """min(1, c w) by bisection of c."""
    able = [x for x in w.values() if x > 0]
    if len(able) <= size:
        return {i: float(x > 0) for i, x in w.items()}
    low, high = 0.0, 1e9
    for _ in range(300):
        c = (low + high) / 2
        low, high = (c, high) if sum(min(1.0, c * x) for x in able) < size else (low, c)
    return {i: min(1.0, c * x) for i, x in w.items()}


def one(key: int) -> int:
    return int(mix(np.array([key], np.uint64))[0])


def by_loops(lists: npt.NDArray[Any], n_items: int, e1: int, e2: int, key: int, keys: list[int],
             cutoffs: tuple[int, ...], extra: int, out: set[int]) -> dict[int, tuple[float, bool, bool]]:  # fmt: skip
    """What one user is shown: probability and arms by item."""
    arm_u: list[int] = []
    j, base = 0, one(key)
    while len(arm_u) < e1:
        item = int((one((base + j) % 2**64) >> 11) * 2.0**-53 * n_items)
        if item not in arm_u and item not in out:
            arm_u.append(item)
        j += 1
    tau = inclusion(weights(lists, cutoffs, extra), e2)
    v = (one(key ^ 0xD1B54A32D192ED03) >> 11) * 2.0**-53
    arm_t = {i for i, x in tau.items() if x > 1 - 1e-12}
    running = 0.0
    for i in sorted((i for i, x in tau.items() if 0 < x <= 1 - 1e-12), key=lambda i: one(key ^ keys[i])):
        before, running = running, running + tau[i]
        if math.floor(running + 1e-13 + v) > math.floor(before + 1e-13 + v):
            arm_t.add(i)
    base_chance = e1 / (n_items - len(out))
    order = sorted({*arm_u, *arm_t}, key=lambda i: one(key ^ keys[i]))
    return {i: (1 - (1 - base_chance) * (1 - tau.get(i, 0.0)), i in arm_u, i in arm_t) for i in order}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 5), st.integers(0, 8), st.integers(0, 1), st.booleans())
def test_a_plan_is_that_of_the_loops(seed: int, n_models: int, e1: int, e2: int, extra: int, some_out: bool) -> None:
    rng = np.random.default_rng(seed)
    n_items, length, cutoffs = 20, 6, (2, 5)
    lists = random_lists(rng, n_models, 3, length, n_items)
    lists[0, 1, 3:] = -1  # a short list
    out = [[i for i in range(n_items) if some_out and i not in lists[:, u] and i % 3 == 0] for u in range(3)]
    if n_models == 1 and not extra:
        extra = 1
    aim: Any = "models" if extra else "differences"
    plan = design_exposures(lists, n_items, e1 + e2, e1, seed, cutoffs=cutoffs, aim=aim, excluded=out)
    keys = [int(x) for x in item_keys(id_array(np.arange(n_items), ""))]
    for u, key in enumerate(user_keys(id_array(np.arange(3), ""), seed)):
        expected = by_loops(lists[:, u, :5], n_items, e1, e2, int(key), keys, cutoffs, extra, set(out[u]))
        assert plan.items[u].tolist() == list(expected)
        chances, in_u, in_t = (list(column) for column in zip(*expected.values(), strict=True))
        np.testing.assert_allclose(plan.probabilities[u], chances, atol=1e-9)
        assert (plan.in_uniform[u].tolist(), plan.in_targeted[u].tolist()) == (in_u, in_t)


def test_inclusion_frequencies_equal_the_probabilities() -> None:
    """Chi-square over 100,000 users with the same lists; sizes are fixed, so a Pearson sum over items is conservative
    where tau is large: each item is tested too."""
    lists = np.repeat(SMALL[:, None], MANY, axis=1)
    plan = design_exposures(lists, 12, 5, 2, seed=3, cutoffs=(1, 3))
    items, chance = np.concatenate(plan.items), np.concatenate(plan.probabilities)
    in_u, in_t = np.concatenate(plan.in_uniform), np.concatenate(plan.in_targeted)
    tau = inclusion(weights(SMALL, (1, 3), 1), 3)
    pi = np.array([1 - (1 - 2 / 12) * (1 - tau.get(i, 0.0)) for i in range(12)])
    np.testing.assert_allclose(chance, pi[items], atol=1e-12)
    shown = np.bincount(items, minlength=12)
    z = (shown - MANY * pi) / np.sqrt(MANY * pi * (1 - pi))
    assert (np.abs(z) < 4).all()
    uniform = np.bincount(items[in_u], minlength=12)
    assert ((uniform - MANY / 6) ** 2 / (MANY / 6)).sum() * 12 / 10 < chi2.isf(1e-4, 11)  # 1 - e1/N, less one freedom
    assert all(arm.sum() == 2 for arm in plan.in_uniform)
    assert all(arm.sum() == 3 for arm in plan.in_targeted)
    for i, x in tau.items():  # the arms are independent: in both with the product of their chances
        both = (in_u & in_t & (items == i)).sum()
        assert abs(both - MANY * x / 6) < 4 * math.sqrt(MANY * x / 6)


def test_the_draws_of_arm_t_have_the_enumerated_chances() -> None:
    """All orders of the items, and all starts v, give the chance of each set of two."""
    tau = inclusion(weights(SMALL, (1, 3), 1), 2)
    assert max(tau.values()) < 1
    chances: dict[frozenset[int], float] = {}
    for order in permutations(tau):
        ends = np.cumsum([tau[i] for i in order])
        ends[-1] = 2
        cuts = np.unique(np.concatenate([[0, 1], (-ends) % 1]))
        for low, high in pairwise(cuts):
            floors = np.floor(np.concatenate([[0], ends]) + (low + high) / 2)
            chosen = frozenset(i for i, took in zip(order, np.diff(floors) > 0, strict=True) if took)
            chances[chosen] = chances.get(chosen, 0.0) + (high - low) / math.factorial(len(order))
    for i, x in tau.items():
        assert sum(p for chosen, p in chances.items() if i in chosen) == pytest.approx(x)
    plan = design_exposures(np.repeat(SMALL[:, None], MANY, axis=1), 12, 3, 1, seed=8, cutoffs=(1, 3))
    seen = dict.fromkeys(chances, 0)
    for items, arm in zip(plan.items, plan.in_targeted, strict=True):
        seen[frozenset(items[arm].tolist())] += 1
    expected = np.array([MANY * chances[chosen] for chosen in seen])
    observed = np.array(list(seen.values()))
    assert ((observed - expected) ** 2 / np.maximum(expected, 1e-300)).sum() < chi2.isf(1e-4, len(seen) - 1)


def test_an_item_is_weighted_by_how_many_models_have_it() -> None:
    lists = np.array([[[0, 1]], [[0, 2]]])
    plan = design_exposures(
        lists, 10, 3, 1, 0, aim="differences"
    )  # item 0, in both lists, tells nothing of a difference
    shown = dict(zip(plan.items[0].tolist(), plan.probabilities[0].tolist(), strict=True))
    assert shown[1] == shown[2] == 1
    assert shown.get(0, 0.1) == pytest.approx(0.1)


def test_a_plan_follows_from_ids_not_from_the_order_of_users() -> None:
    rng = np.random.default_rng(0)
    lists, users = random_lists(rng, 2, 40, 5, 30), [f"u{n}" for n in range(40)]
    plan = design_exposures(lists, 30, 6, 3, 9, users=users)
    order = rng.permutation(40)
    other = design_exposures(lists[:, order], 30, 6, 3, 9, users=[users[u] for u in order])
    for place, u in enumerate(order):
        assert plan.items[u].tolist() == other.items[place].tolist()
        assert plan.probabilities[u].tolist() == other.probabilities[place].tolist()
    assert [x.tolist() for x in plan.items] != [
        x.tolist() for x in design_exposures(lists, 30, 6, 3, 10, users=users).items
    ]


def test_shorter_unions_than_asked_are_shown_whole() -> None:
    plan = design_exposures(np.array([[[0, 1]], [[1, 2]]]), 10, 8, 2, 0)
    assert plan.in_targeted[0].sum() == 3
    assert (plan.probabilities[0][plan.in_targeted[0]] == 1).all()


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"exposures": 31, "uniform": 3}, ConfigError, "only 30 items"),
        ({"exposures": 0, "uniform": 0}, ConfigError, "at least one item"),
        ({"exposures": 5, "uniform": 0}, ConfigError, "some items could never be shown"),
        ({"cutoffs": (9,)}, ConfigError, "9 is beyond the end of the top lists, which hold 5"),
        ({"top_lists": np.zeros((1, 2, 5), int), "aim": "differences"}, ConfigError, "two models or more"),
        ({"top_lists": np.tile(np.arange(5), (2, 3, 1))}, DataError, "the same lists for every user"),
        ({"top_lists": [[[0, 0, 1, 2, 3]], [[4, 1, 2, 3, 5]]]}, DataError, "user 0 has an item twice"),
        ({"top_lists": [[[0, 1, 2, 3, 77]], [[4, 1, 2, 3, 5]]]}, DataError, "not in the catalogue"),
        ({"excluded": [[0]]}, DataError, "excluded from the user's frame"),
        ({"excluded": [[10 + n for n in range(18)]], "exposures": 20, "uniform": 15}, DataError, "fewer than 15 items"),
        ({"seed": 2**63}, ConfigError, "64 bits"),
        ({"users": [1, 2, 3]}, ValueError, "one id each"),
        ({"top_lists": [[[0.5]]]}, ValueError, "positions of items"),
    ],
)
def test_bad_input_is_an_error(changed: dict[str, Any], error: type[Exception], words: str) -> None:
    given = {
        "top_lists": [[[0, 1, 2, 3, 4]], [[4, 1, 2, 3, 5]]],
        "n_items": 30,
        "exposures": 4,
        "uniform": 2,
        "seed": 1,
    }
    with pytest.raises(error, match=words):
        design_exposures(**(given | changed))
