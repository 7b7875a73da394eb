"""Lists of labels, probabilities and training pairs from pairs in any order, without Spark, against loops over the pairs."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.inputs.label_sets import LABEL_SETS, NUMBER, probability_column
from eval_engine.inputs.labels import UserPairs, judge, refuse, violations
from eval_engine.spark.binary_lists import unpack

ITEMS = (40, 10, 30, 20)
PROBABILITY = st.sampled_from([0.25, 1.0, 1e-9, 0.0, -0.5, 1.5, math.nan, None])
PAIR = st.tuples(st.sampled_from(sorted(NUMBER)), st.integers(0, 3), st.sampled_from([1.0, 5.0]), PROBABILITY)
USERS = st.lists(st.lists(PAIR, max_size=6, unique_by=lambda pair: pair[:2]), max_size=4)
Pair = tuple[str, int, float, float | None]


def user_pairs(users: list[list[Pair]], probable: tuple[str, ...]) -> UserPairs:
    """The pairs; probable: sources whose table has probabilities."""
    flat = [pair for user in users for pair in user]
    offsets = np.concatenate([[0], np.cumsum([len(user) for user in users])]).astype(np.int64)
    source = np.array([NUMBER[pair[0]] for pair in flat], np.int8)
    position = np.array([pair[1] for pair in flat], np.int32)
    item_id = pa.array([ITEMS[pair[1]] for pair in flat], pa.int64())
    value = pa.array([pair[2] for pair in flat], pa.float64())
    probability = pa.array([pair[3] if pair[0] in probable else None for pair in flat], pa.float64())
    return UserPairs(offsets, source, position, item_id, value, probability if probable else None, probable)


def lists(column: pa.Array, kind: Any) -> list[list[Any]]:
    offsets, values = unpack(column, kind)
    return [values[start:end].tolist() for start, end in pairwise(offsets)]


def rule_of(user: list[Pair], pair: Pair, probable: tuple[str, ...], unseen: bool) -> str | None:
    source, position, _, probability = pair
    if source in probable and not (probability is not None and 0 < probability <= 1):
        return "bad_probability"
    if any(other[:2] == ("feedback", position) for other in user):
        if source == "heldout":
            return "heldout_but_trained"
        if unseen:
            return {"truth": "outside_frame"}.get(source, "exposed_but_seen" if source != "feedback" else None)
    return None


@settings(deadline=None)  # the first call compiles
@given(USERS, st.sampled_from([(), ("random",), ("heldout",), ("random", "heldout")]), st.booleans())
def test_lists_are_those_of_a_loop_over_the_pairs(
    users: list[list[Pair]], probable: tuple[str, ...], unseen: bool
) -> None:
    found = judge(pa.array(range(len(users)), pa.int64()), user_pairs(users, probable), tuple(LABEL_SETS), unseen)
    for name in LABEL_SETS:
        column, known = found.labels.column(name), name in probable
        assert column.type.names == ["positions", "values", *(["probabilities"] if known else [])]
        good = [
            sorted(p[1:] for p in user if p[0] == name and rule_of(user, p, probable, unseen) is None) for user in users
        ]
        for n, (field, kind) in enumerate((("positions", np.int32), ("values", float), ("probabilities", float))):
            if field in column.type.names:
                assert lists(column.field(field), kind) == [[pair[n] for pair in own] for own in good]
    trained = [sorted(pair[1] for pair in user if pair[0] == "feedback") for user in users]
    assert lists(found.labels.column("excluded"), np.int32) == trained
    bad = [
        (n, pair[0], rule, ITEMS[pair[1]], repr(pair[3] if pair[0] in probable else None))
        for n, user in enumerate(users)
        for pair in user
        if (rule := rule_of(user, pair, probable, unseen))
    ]
    rows = found.broken.to_pylist()
    names = ("user_id", "source", "rule", "item_id")
    assert sorted((*(row[name] for name in names), repr(row.get("probability"))) for row in rows) == sorted(bad)


def test_a_run_has_the_lists_of_its_own_label_sets() -> None:
    users: list[list[Pair]] = [[("truth", 2, 1.0, None), ("feedback", 1, 1.0, None)], []]
    found = judge(pa.array([5, 6]), user_pairs(users, ()), ("truth",), True)
    assert found.labels.schema.names == ["user_id", "truth", "excluded"]
    assert found.broken.schema.names == ["user_id", "source", "rule", "item_id", "value"]
    assert not found.broken.num_rows


def test_the_error_shows_the_probability() -> None:
    users: list[list[Pair]] = [
        [("random", 0, 1.0, 0.5), ("random", 1, 1.0, None)],
        [("random", 3, 4.0, 1.25), ("truth", 3, 4.0, None)],
    ]
    found = violations(judge(pa.array([5, 41]), user_pairs(users, ("random",)), ("random", "truth"), False).broken)
    assert found == {("random", "bad_probability"): (2, "user_id=41, item_id=20, exposure_probability=1.25")}
    assert str(refuse("random", "bad_probability", *found["random", "bad_probability"])) == (
        "exposures: 2 rows break the rule bad_probability (first: user_id=41, item_id=20, exposure_probability=1.25): "
        "a pair that was exposed has a probability above 0 and at most 1. Fix the job that makes the table, or set "
        "on_bad_rows: quarantine."
    )


def test_the_error_of_a_held_out_pair_that_was_trained_on_names_it() -> None:
    users: list[list[Pair]] = [
        [("heldout", 1, 4.0, 0.5), ("heldout", 2, 1.0, 2.0), ("feedback", 1, 5.0, None), ("random", 1, 4.0, None)]
    ]
    found = violations(judge(pa.array([7]), user_pairs(users, ("heldout",)), ("random", "heldout"), False).broken)
    assert found == {
        ("heldout", "heldout_but_trained"): (1, "user_id=7, item_id=10, value=4.0"),
        ("heldout", "bad_probability"): (1, "user_id=7, item_id=30, propensity=2.0"),
    }
    assert probability_column("heldout") == "propensity"
    assert str(refuse("heldout", "heldout_but_trained", *found["heldout", "heldout_but_trained"])) == (
        "heldout: 1 row breaks the rule heldout_but_trained (first: user_id=7, item_id=10, value=4.0): a held-out pair "
        "is kept from training, but feedback has it too. Take it out of feedback and train again, or take it out of "
        "heldout, or set on_bad_rows: quarantine."
    )
