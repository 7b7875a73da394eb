"""The labels of some users, judged: pairs gathered by user in, lists by catalogue position out. Arrow and numpy, no session.

    random     the user's random exposures               excluded   positions that are not candidates
    truth      the complete labels, where there are any             (frame unseen: the user's logged pairs)

A list is sorted by catalogue position, so it does not depend on the order in which the pairs came. Positions (int32) and values (float64) are packed
(packed.py).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.errors import DataError
from eval_engine.kernels.label_rules import LOGGED, RANDOM, RULES, TRUTH, Pairs, broken_rule, by_position
from eval_engine.kernels.ragged import users_of
from eval_engine.packed import pack

SOURCES = ("random", "truth")  # label tables whose pairs are ranked; the third, logged, only excludes
NUMBER = {"random": RANDOM, "truth": TRUTH, "logged": LOGGED}
TABLE = {"random": "exposures", "truth": "truth", "logged": "feedback"}
OUTSIDE_FRAME = "outside_frame"

REMEDY = {
    "null_key": "user_id and item_id must be there. Fix the job that makes the table",
    "null_value": "a label needs a value. Fix the job that makes the table",
    "nan_value": "NaN is not a value: it is neither positive nor negative. Fix the job that makes the table",
    "outside_catalogue": "only items of the catalogue have scores. Add the item to the catalogue, or take the row out",
    "duplicate_key": "a pair is labelled once. Keep the one row you mean",
    "exposed_but_seen": "with frame: unseen, exposures are drawn from items without logged feedback of the user. Use frame: all_items if they were drawn from all",
}


def judge(user_id: pa.Array, gathered: pa.ListArray, unseen: bool) -> pa.RecordBatch:
    """The labels of some users from their gathered pairs."""
    flat = gathered.flatten()
    offsets = np.concatenate([[0], np.cumsum(pc.list_value_length(gathered).to_numpy(zero_copy_only=False))]).astype(np.int64)
    user = users_of(offsets)
    value, item = flat.field("value"), flat.field("item_id")
    pairs = Pairs(
        offsets,
        flat.field("source").to_numpy(zero_copy_only=False),
        flat.field("position").fill_null(-1).to_numpy(zero_copy_only=False),
        value.fill_null(0.0).to_numpy(zero_copy_only=False),
        _nulls(item) | _nulls(user_id)[user],
        _nulls(value),
    )
    rule = broken_rule(pairs, unseen)
    order = by_position(pairs)

    def by_user(chosen: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The chosen pairs by user and position, and where each user's begin among them."""
        kept = order[chosen[order]]
        return kept, np.concatenate([[0], np.cumsum(np.bincount(user[kept], minlength=len(user_id)))])

    columns = {"user_id": user_id}
    for source in SOURCES:
        good = (rule == 0) & (pairs.source == NUMBER[source])
        kept, starts = by_user(good)
        lists = [pack(pairs.position[kept].astype(np.int32), starts), pack(pairs.value[kept].astype(np.float64), starts)]
        columns[source] = pa.StructArray.from_arrays(lists, ["positions", "values"])
    # A logged pair was seen even if its value is missing or it was logged twice: it stays excluded, once.
    logged = (pairs.source == LOGGED) & (pairs.position >= 0) & ~pairs.null_key
    first = np.ones(user.size, np.bool_)
    first[order[1:]] = (user[order][1:] != user[order][:-1]) | (pairs.position[order][1:] != pairs.position[order][:-1]) | ~logged[order][:-1]
    kept, starts = by_user(logged & first if unseen else np.zeros(user.size, np.bool_))
    columns["excluded"] = pack(pairs.position[kept].astype(np.int32), starts)
    told = [pa.array(np.array(tuple(NUMBER))[pairs.source], pa.string()), pa.array(np.array(RULES)[rule], pa.string()), item, value]
    kept, starts = by_user(rule > 0)
    bad = pa.StructArray.from_arrays(told, ["source", "rule", "item_id", "value"]).take(pa.array(kept))
    columns["broken"] = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), bad)
    counts = [pa.array(np.bincount(user[pairs.source == number], minlength=len(user_id)), pa.int32()) for number in NUMBER.values()]
    columns["n_rows"] = pa.StructArray.from_arrays(counts, list(NUMBER))
    return pa.RecordBatch.from_pydict(columns)


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def refuse(source: str, rule: str, n_rows: int, example: str) -> DataError:
    """The error of a rule that is broken."""
    return DataError(
        f"{TABLE[source]}: {n_rows:,} {'row breaks' if n_rows == 1 else 'rows break'} the rule {rule} (first: {example}): {REMEDY[rule]}, "
        "or set on_bad_rows: quarantine."
    )
