"""Draws by hash: in proportion to weights, without replacement, the same for any order of rows."""

import numpy as np
import pytest

from eval_engine.inputs.public_data.pair_hash import first_of_each_user, held_out, uniform, weighted_keys


def brute_force(users: np.ndarray, keys: np.ndarray, n: int) -> np.ndarray:
    chosen = []
    for user, key in zip(users, keys, strict=True):
        smaller = [other for other in range(len(users)) if users[other] == user and keys[other] < key]
        chosen.append(len(smaller) < n)
    return np.array(chosen)


@pytest.mark.parametrize("n", [0, 1, 3, 9])
def test_the_first_of_each_user(n: int) -> None:
    users = np.sort(np.random.default_rng(n).integers(0, 8, 40)) * 5
    keys = uniform(1, "a", users, np.arange(40))
    np.testing.assert_array_equal(first_of_each_user(users, keys, np.full(40, n)), brute_force(users, keys, n))


def test_weighted_draws_are_in_proportion_to_the_weights() -> None:
    """Two of three items with weights 3, 2, 1: by hand, P(the last is drawn) = 1/6 + 3/6 1/3 + 2/6 1/4 = 5/12."""
    n_users = 40_000
    users, items = np.repeat(np.arange(n_users), 3), np.tile(np.arange(3), n_users)
    keys = weighted_keys(uniform(0, "draw", users, items), np.log(np.array([3.0, 2.0, 1.0]))[items])
    first = first_of_each_user(users, keys, np.full(len(users), 1)).reshape(-1, 3).mean(axis=0)
    two = first_of_each_user(users, keys, np.full(len(users), 2)).reshape(-1, 3).mean(axis=0)
    np.testing.assert_allclose(first, [1 / 2, 1 / 3, 1 / 6], atol=0.01)
    np.testing.assert_allclose(two[2], 5 / 12, atol=0.01)


def test_tiny_weights_do_not_underflow() -> None:
    users, items = np.zeros(2000, np.int64), np.arange(2000)
    chosen = first_of_each_user(users, weighted_keys(uniform(0, "draw", users, items), -items / 1.0), np.full(2000, 5))
    assert chosen.sum() == 5
    assert not chosen[30:].any()


def test_draws_depend_on_seed_purpose_and_pair_alone() -> None:
    users, items = np.arange(1000) % 37, np.arange(1000)
    u = uniform(0, "a", users, items)
    order = np.random.default_rng(0).permutation(1000)
    np.testing.assert_array_equal(uniform(0, "a", users[order], items[order]), u[order])
    assert u.min() > 0
    assert u.max() < 1
    for other in (uniform(1, "a", users, items), uniform(0, "b", users, items)):
        assert abs(np.corrcoef(u, other)[0, 1]) < 0.15
    assert 0.25 < held_out(0, 0.3, users, items).mean() < 0.35
    assert not held_out(0, 0.0, users, items).any()
