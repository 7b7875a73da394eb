"""The rules of labelled pairs against a literal reading of each, over pairs with everything wrong with them."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.label_rules import LOGGED, RANDOM, RULES, TRUTH, Pairs, ruled

PAIR = st.tuples(
    st.sampled_from([RANDOM, TRUTH, LOGGED]),
    st.integers(-1, 3),
    st.sampled_from([1.0, 5.0, math.nan, math.inf]),
    st.booleans(),
    st.booleans(),
)
USERS = st.lists(st.lists(PAIR, max_size=8), max_size=4)


def literal(mine: list[tuple[int, int, float, bool, bool]], n: int, unseen: bool) -> str:
    source, position, value, null_key, null_value = mine[n]
    same = [p for p in mine if (p[0], p[1]) == (source, position)]
    seen = unseen and any(p[0] == LOGGED and p[1] == position for p in mine)
    if null_key:
        return "null_key"
    if null_value:
        return "null_value"
    if value != value:
        return "nan_value"
    if position < 0:
        return "outside_catalogue"
    if len(same) > 1:
        return "duplicate_key"
    if source == RANDOM and seen:
        return "exposed_but_seen"
    return "outside_frame" if source == TRUTH and seen else ""


@settings(deadline=None)  # the first call compiles
@given(USERS, st.booleans())
def test_matches_a_literal_reading(users: list[list[tuple[int, int, float, bool, bool]]], unseen: bool) -> None:
    flat = [pair for user in users for pair in user]
    columns = [np.array([pair[c] for pair in flat], kind) for c, kind in enumerate((np.int8, np.int32, float, bool, bool))]
    offsets = np.concatenate([[0], np.cumsum([len(user) for user in users])]).astype(np.int64)
    rule, order = ruled(Pairs(offsets, *columns), unseen)
    owner = np.repeat(np.arange(len(users)), np.diff(offsets))
    np.testing.assert_array_equal(order, np.lexsort((columns[1], columns[0], owner)))
    assert [RULES[r] for r in rule] == [literal(user, n, unseen) for user in users for n in range(len(user))]


def test_a_user_with_many_pairs() -> None:
    rng = np.random.default_rng(2)
    users = [[(int(rng.integers(3)), int(rng.integers(-1, 150)), 1.0, False, False) for _ in range(n)] for n in (300, 0, 65, 64)]
    flat = [pair for user in users for pair in user]
    columns = [np.array([pair[c] for pair in flat], kind) for c, kind in enumerate((np.int8, np.int32, float, bool, bool))]
    offsets = np.concatenate([[0], np.cumsum([len(user) for user in users])]).astype(np.int64)
    rule, order = ruled(Pairs(offsets, *columns), True)
    np.testing.assert_array_equal(order, np.lexsort((columns[1], columns[0], np.repeat(np.arange(4), np.diff(offsets)))))
    assert [RULES[r] for r in rule] == [literal(user, n, True) for user in users for n in range(len(user))]
