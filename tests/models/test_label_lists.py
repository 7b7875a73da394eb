"""Labels without Spark: the same lists as a loop over the rules, on input with everything wrong that can be."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval_engine.config import Input, Inputs
from eval_engine.errors import DataError
from eval_engine.inputs.label_sets import TABLE
from models import label_lists as module
from models.label_lists import LabelLists, read_label_lists

USERS, ITEMS = (
    (7, 3, 5),
    (40, 10, 30),
)  # in the order of the model and of the catalogue; users 1 and 9 and items 20 and 99 are not theirs
ROW = st.tuples(
    st.sampled_from([3, 5, 7, 9, 1, None]),
    st.sampled_from([10, 30, 40, 20, 99, None]),
    st.sampled_from([1.0, -2.5, None, math.nan]),
)
GOOD = st.tuples(st.sampled_from([3, 5, 7]), st.sampled_from([10, 30, 40]), st.sampled_from([1.0, 5.0]))
ROWS = st.lists(ROW, min_size=1, max_size=8) | st.lists(GOOD, min_size=1, max_size=12)
Row = tuple[int | None, int | None, float | None]
Tables = dict[str, list[Row]]  # random, heldout, truth, feedback


def rule_of(tables: Tables, source: str, row: Row, unseen: bool) -> str:
    """The first rule that a row breaks, in words of the rules' docstring."""
    user, item, value = row
    if user is None or item is None:
        return "null_key"
    if value is None:
        return "null_value"
    if math.isnan(value):
        return "nan_value"
    if item not in ITEMS:
        return "outside_catalogue"
    if sum(other[:2] == (user, item) for other in tables[source]) > 1:
        return "duplicate_key"
    if any(other[:2] == (user, item) for other in tables["feedback"]):
        if source == "heldout":
            return "heldout_but_trained"
        if unseen:
            return {"random": "exposed_but_seen", "truth": "outside_frame", "feedback": ""}[source]
    return ""


def expected_lists(tables: Tables, user: int, unseen: bool) -> dict[str, Any]:
    """What is known of a user."""
    found: dict[str, Any] = {}
    for source in ("random", "heldout", "truth"):
        good = [row for row in tables[source] if row[0] == user and not rule_of(tables, source, row, unseen)]
        found[source] = sorted((ITEMS.index(item), item, value) for _, item, value in good if item is not None)
    found["excluded"] = sorted(
        {ITEMS.index(row[1]) for row in tables["feedback"] if row[0] == user and row[1] in ITEMS}
    )
    return found


def found_lists(labels: LabelLists, start: int, stop: int) -> list[dict[str, Any]]:
    users = labels.users("m", start, stop)
    assert users.model.to_pylist() == ["m"] * (stop - start)
    assert users.user_id.to_pylist() == list(USERS[start:stop])
    out = []
    for n in range(stop - start):
        row: dict[str, Any] = {
            "excluded": users.excluded.values[users.excluded.offsets[n] : users.excluded.offsets[n + 1]].tolist()
        }
        for source, at in users.positions.items():
            mine = slice(at.offsets[n], at.offsets[n + 1])
            positions = at.values[mine].tolist()
            row[source] = list(
                zip(positions, [ITEMS[p] for p in positions], users.values[source][mine].tolist(), strict=True)
            )
        out.append(row)
    return out


def saved(folder: Path, tables: Tables) -> Inputs:
    schema = pa.schema([("user_id", pa.int32()), ("item_id", pa.int64()), ("value", pa.float64())])
    for source, rows in tables.items():
        columns = list(zip(*rows, strict=True))
        pq.write_table(
            pa.table([pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema),
            folder / source,
        )
    where = {TABLE[source]: Input(path=str(folder / source)) for source in tables}
    return Inputs(catalogue=Input(path="catalogue"), **where)


def read(inputs: Inputs, frame: str = "all_items", on_bad_rows: str = "error") -> LabelLists:
    return read_label_lists(inputs, pa.array(USERS), pa.array(ITEMS), frame, on_bad_rows)


@pytest.fixture
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 2)


@given(ROWS, ROWS, ROWS, ROWS, st.sampled_from(["all_items", "unseen"]))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lists_are_those_of_a_loop_over_the_rules(
    tmp_path: Path,
    two_at_once: None,
    random: list[Row],
    heldout: list[Row],
    truth: list[Row],
    feedback: list[Row],
    frame: str,
) -> None:
    tables = {"random": random, "heldout": heldout, "truth": truth, "feedback": feedback}
    unseen = frame == "unseen"
    inputs = saved(tmp_path, tables)
    labels = read(inputs, frame, "quarantine")
    expected = [expected_lists(tables, user, unseen) for user in USERS]
    assert found_lists(labels, 0, 3) == expected
    assert found_lists(labels, 1, 2) == expected[1:2]
    broken = [
        (source, rule)
        for source, rows in tables.items()
        for row in rows
        if (rule := rule_of(tables, source, row, unseen))
    ]
    broken = [found for found in broken if found[1] != "outside_frame"]
    if not broken:
        assert found_lists(read(inputs, frame), 0, 3) == expected
        return
    source, rule = min(broken)
    with pytest.raises(
        DataError,
        match=rf"^{TABLE[source]}: {broken.count((source, rule))} rows? breaks? the rule {rule} \(first: user_id=\w+, item_id=",
    ):
        read(inputs, frame)


def test_the_error_shows_the_first_pair(tmp_path: Path) -> None:
    tables: Tables = {
        "random": [(7, 10, 1.0)],
        "truth": [(9, 99, 2.0), (5, 99, math.nan), (7, 99, None), (3, 99, 4.5)],
        "feedback": [(3, 10, 1.0)],
    }
    with pytest.raises(
        DataError, match=r"truth: 1 row breaks the rule nan_value \(first: user_id=5, item_id=99, value=NaN\)"
    ):
        read(saved(tmp_path, tables))
    tables["truth"] = [row for row in tables["truth"] if row[2] == row[2] and row[2] is not None]
    with pytest.raises(
        DataError,
        match=r"truth: 2 rows break the rule outside_catalogue \(first: user_id=3, item_id=99, value=4\.5\).*quarantine",
    ):
        read(saved(tmp_path, tables))


def test_digest_tells_labels_apart_and_not_the_order_of_rows(tmp_path: Path) -> None:
    rows: list[Row] = [(7, 10, 1.0), (7, 30, 2.0), (3, 10, 1.0)]
    base: Tables = {
        "random": rows,
        "heldout": [(5, 30, 1.0)],
        "truth": [(5, 10, 1.0)],
        "feedback": [(3, 40, 1.0), (5, 40, 1.0)],
    }
    same: Tables = base | {"random": rows[::-1], "feedback": [(5, 40, 9.0), (3, 40, 2.0)]}
    for frame in ("all_items", "unseen"):  # of the training pairs, only which they are
        assert read(saved(tmp_path, base), frame).digest() == read(saved(tmp_path, same), frame).digest()
        others: list[Tables] = [
            base | {"random": [(7, 10, 1.5), *rows[1:]]},
            base | {"random": [(5, 10, 1.0), *rows[1:]]},
            base | {"random": base["truth"], "truth": rows},
            base | {"heldout": base["truth"], "truth": base["heldout"]},
            base | {"feedback": [(3, 40, 1.0), (7, 40, 1.0)]},
            {source: own for source, own in base.items() if source != "heldout"},
            {source: own for source, own in base.items() if source != "truth"},
        ]
        assert len({read(saved(tmp_path, tables), frame).digest() for tables in (base, *others)}) == 1 + len(others)


def test_string_ids_and_a_table_that_is_left_out(save: Callable[..., Input]) -> None:
    exposures = save("exposures", {"user_id": ["b", "a", "b"], "item_id": ["y", "x", "x"], "value": [1, 2, 3]})
    inputs = Inputs(catalogue=Input(path="catalogue"), exposures=exposures)
    labels = read_label_lists(inputs, pa.array(["a", "b", "c"]), pa.array(["x", "y"]), "all_items", "error")
    users = labels.users("m", 0, 3)
    assert users.positions["random"].offsets.tolist() == [0, 1, 3, 3]
    assert users.positions["random"].values.tolist() == [0, 0, 1]
    assert users.values["random"].tolist() == [2.0, 3.0, 1.0]
    with pytest.raises(DataError, match=r"exposures: user_id is string, but int64"):
        read_label_lists(inputs, pa.array([1]), pa.array(["x", "y"]), "all_items", "error")
    with pytest.raises(DataError, match=r"exposures: item_id is string, but int64 in catalogue"):
        read_label_lists(inputs, pa.array(["a"]), pa.array([1]), "all_items", "error")
