"""The rules of labelled pairs against a literal reading of each, over pairs with everything wrong with them."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eval_engine.kernels.label_rules import LOGGED, RANDOM, RULES, TRUTH, Pairs, broken_rule

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


@given(USERS, st.booleans())
def test_matches_a_literal_reading(users: list[list[tuple[int, int, float, bool, bool]]], unseen: bool) -> None:
    flat = [pair for user in users for pair in user]
    columns = [np.array([pair[c] for pair in flat], kind) for c, kind in enumerate((np.int8, np.int32, float, bool, bool))]
    offsets = np.concatenate([[0], np.cumsum([len(user) for user in users])]).astype(np.int64)
    rule = broken_rule(Pairs(offsets, *columns), unseen)
    assert [RULES[r] for r in rule] == [literal(user, n, unseen) for user in users for n in range(len(user))]
