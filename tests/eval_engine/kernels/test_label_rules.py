"""The rules of labelled pairs against a literal reading of each, over pairs with everything wrong with them."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.label_rules import DESIGNED, FEEDBACK, HELDOUT, RANDOM, RULES, TRUTH, Pairs, ruled

PAIR = st.tuples(
    st.sampled_from([RANDOM, HELDOUT, TRUTH, DESIGNED, FEEDBACK]),
    st.integers(-1, 3),
    st.sampled_from([1.0, 5.0, math.nan, math.inf]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.5, 1.0, 5e-324, 0.0, -0.0, -0.1, 1.0000000000000002, math.inf, -math.inf, math.nan]),
)
Pair = tuple[int, int, float, bool, bool, float]
KINDS = (np.int8, np.int32, float, bool, bool, float)
USERS = st.lists(st.lists(PAIR, max_size=8), max_size=4)


def literal(mine: list[Pair], n: int, unseen: bool, probable: tuple[int, ...]) -> str:
    source, position, value, null_key, null_value, probability = mine[n]
    same = [p for p in mine if (p[0], p[1]) == (source, position)]
    trained = any(p[0] == FEEDBACK and p[1] == position for p in mine)
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
    if source in probable and (math.isnan(probability) or probability <= 0 or probability > 1):
        return "bad_probability"
    if source in (RANDOM, DESIGNED) and trained and unseen:
        return "exposed_but_seen"
    if source == HELDOUT and trained:
        return "heldout_but_trained"
    return "outside_frame" if source == TRUTH and trained and unseen else ""


def judged(users: list[list[Pair]], unseen: bool, probable: tuple[int, ...]) -> None:
    """The rules and the order of some users' pairs, against a literal reading."""
    flat = [pair for user in users for pair in user]
    columns = [np.array([pair[c] for pair in flat], kind) for c, kind in enumerate(KINDS)]
    offsets = np.concatenate([[0], np.cumsum([len(user) for user in users])]).astype(np.int64)
    rule, order = ruled(Pairs(offsets, *(columns if probable else columns[:-1]), probable=probable), unseen)
    owner = np.repeat(np.arange(len(users)), np.diff(offsets))
    np.testing.assert_array_equal(order, np.lexsort((columns[1], columns[0], owner)))
    assert [RULES[r] for r in rule] == [literal(user, n, unseen, probable) for user in users for n in range(len(user))]


@settings(deadline=None)  # the first call compiles
@given(USERS, st.booleans(), st.sampled_from([(), (RANDOM,), (HELDOUT,), (RANDOM, HELDOUT)]))
def test_matches_a_literal_reading(users: list[list[Pair]], unseen: bool, probable: tuple[int, ...]) -> None:
    judged(users, unseen, probable)


def test_a_user_with_many_pairs() -> None:
    rng = np.random.default_rng(2)
    users = [
        [
            (int(rng.integers(4)), int(rng.integers(-1, 150)), 1.0, False, False, rng.choice([0.2, 0.0]))
            for _ in range(n)
        ]
        for n in (300, 0, 65, 64)
    ]
    for unseen in (True, False):
        judged(users, unseen, (RANDOM, HELDOUT))


def test_a_pair_may_be_in_several_label_sets() -> None:
    everywhere = [(source, 2, 1.0, False, False, 0.5) for source in (RANDOM, HELDOUT, TRUTH, DESIGNED)]
    offsets, columns = np.array([0, 4]), [np.array(column) for column in zip(*everywhere, strict=True)]
    assert ruled(Pairs(offsets, *columns[:-1]), True).rule.tolist() == [0, 0, 0, 0]
