"""The labels of some users, judged: pairs user by user in, lists by catalogue position out. Arrow and numpy, no
session.

    random, heldout, truth    the labels of each label set that the run has (label_sets.py)
    excluded                  the user's training pairs: no candidates of a recommendation

A list is sorted by catalogue position, so it does not depend on the order in which the pairs came. Positions (int32)
and values (float64) are packed (spark/binary_lists.py). Where the table of a set has probabilities, a third list of the
set, probabilities (float64), stands beside them; else there is none.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.errors import DataError
from eval_engine.inputs.label_sets import NUMBER, TABLE, probability_column
from eval_engine.kernels.label_rules import FEEDBACK, RULES, Pairs, ruled
from eval_engine.kernels.ragged import users_of
from eval_engine.spark.binary_lists import pack

OUTSIDE_FRAME = "outside_frame"
PROBABILITY = "probability"  # of a pair, whatever its table calls the column

REMEDY = {
    "null_key": "user_id and item_id must be there. Fix the job that makes the table",
    "null_value": "a label needs a value. Fix the job that makes the table",
    "nan_value": "NaN is not a value: it is neither positive nor negative. Fix the job that makes the table",
    "outside_catalogue": "only items of the catalogue have scores. Add the item to the catalogue, or take the row out",
    "duplicate_key": "a pair is labelled once. Keep the one row you mean",
    "bad_probability": "a pair that was exposed has a probability above 0 and at most 1. "
    "Fix the job that makes the table",
    "exposed_but_seen": "with frame: unseen, exposures are drawn from items without logged feedback of the user. "
    "Use frame: all_items if they were drawn from all",
    "heldout_but_trained": "a held-out pair is kept from training, but feedback has it too. "
    "Take it out of feedback and train again, or take it out of heldout",
}


class UserPairs(NamedTuple):
    """Labelled pairs of some users, user by user."""

    offsets: npt.NDArray[np.int64]  # user n's pairs are offsets[n] to offsets[n + 1]
    source: npt.NDArray[np.int8]  # a NUMBER
    position: npt.NDArray[np.int32]  # -1: not in the catalogue
    item_id: pa.Array
    value: pa.Array
    probability: pa.Array | None = None  # NULL of pairs whose table has none. None: no table has probabilities
    probable: tuple[str, ...] = ()  # sources whose table has probabilities


class Judged(NamedTuple):
    """What is known of some users, and the pairs that cannot be used."""

    labels: pa.RecordBatch  # a row per user: user_id; of each set positions, values, maybe probabilities; excluded
    broken: (
        pa.RecordBatch
    )  # a row per pair that breaks a rule: user_id, source, rule, item_id, value, maybe probability


class Violation(NamedTuple):
    """How many rows or users break a rule, and one of them as text: the first in alphabetical order, so that it does
    not depend on partitioning."""

    n_rows: int
    example: str


def judge(user_id: pa.Array, user_pairs: UserPairs, label_sets: Sequence[str], unseen: bool) -> Judged:
    """The labels of some users from their pairs; label_sets: that the run has; unseen: random exposures and complete
    labels are ranked without the training pairs."""
    user = users_of(user_pairs.offsets)
    value = user_pairs.value.fill_null(0.0) if user_pairs.value.null_count else user_pairs.value
    known = user_pairs.probability
    pairs = Pairs(
        user_pairs.offsets,
        user_pairs.source,
        user_pairs.position,
        value.to_numpy(zero_copy_only=False),
        _nulls(user_pairs.item_id) | _nulls(user_id)[user],
        _nulls(user_pairs.value),
        None if known is None else known.fill_null(np.nan).to_numpy(zero_copy_only=False),
        tuple(NUMBER[source] for source in user_pairs.probable),
    )
    rule, order = ruled(pairs, unseen)

    def by_user(chosen: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The chosen pairs by user and position, and where each user's begin among them."""
        if chosen.all():
            return order, user_pairs.offsets
        kept = order[chosen[order]] if chosen.any() else order[:0]
        return kept, np.concatenate([[0], np.cumsum(np.bincount(user[kept], minlength=len(user_id)))])

    columns = {"user_id": user_id}
    for name in label_sets:
        kept, starts = by_user((rule == 0) & (pairs.source == NUMBER[name]))
        lists = {
            "positions": pack(pairs.position[kept].astype(np.int32, copy=False), starts),
            "values": pack(pairs.value[kept].astype(np.float64, copy=False), starts),
        }
        if pairs.probability is not None and name in user_pairs.probable:
            lists["probabilities"] = pack(pairs.probability[kept].astype(np.float64, copy=False), starts)
        columns[name] = pa.StructArray.from_arrays(list(lists.values()), list(lists))
    kept, starts = by_user(_trained_once(pairs, user, order))
    columns["excluded"] = pack(pairs.position[kept].astype(np.int32, copy=False), starts)
    bad, _ = by_user(rule > 0)
    broken = {
        "user_id": user_id.take(pa.array(user[bad])),
        "source": pa.array(np.array(tuple(NUMBER))[pairs.source[bad]], pa.string()),
        "rule": pa.array(np.array(RULES)[rule[bad]], pa.string()),
        "item_id": user_pairs.item_id.take(pa.array(bad)),
        "value": user_pairs.value.take(pa.array(bad)),
    }
    if known is not None:
        broken[PROBABILITY] = known.take(pa.array(bad))
    return Judged(pa.RecordBatch.from_pydict(columns), pa.RecordBatch.from_pydict(broken))


def _trained_once(pairs: Pairs, user: npt.NDArray[Any], order: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """The training pairs, each once. A pair whose value is missing, or that is there twice, stays excluded: the model
    has seen it."""
    trained = (pairs.source == FEEDBACK) & (pairs.position >= 0) & ~pairs.null_key
    if not trained.any():
        return trained
    first = np.ones(user.size, np.bool_)
    first[order[1:]] = (
        (user[order][1:] != user[order][:-1])
        | (pairs.position[order][1:] != pairs.position[order][:-1])
        | ~trained[order][:-1]
    )
    return trained & first


def violations(broken: pa.RecordBatch) -> dict[tuple[str, str], Violation]:
    """How many pairs break a rule, and the first of them, by (source, rule)."""
    by_rule: dict[tuple[str, str], Violation] = {}
    if not broken.num_rows:
        return by_rule
    for key in pa.table(broken).group_by(["source", "rule"]).aggregate([]).to_pylist():
        rows = broken.filter(
            pc.and_(pc.equal(broken.column("source"), key["source"]), pc.equal(broken.column("rule"), key["rule"]))
        )
        ids = [pc.fill_null(rows.column(name).cast(pa.string()), "NULL") for name in ("user_id", "item_id")]
        text = pc.binary_join_element_wise("user_id=", ids[0], ", item_id=", ids[1], "")
        first = pc.index(text, pc.min(text)).as_py()
        bad_probability = key["rule"] == "bad_probability"
        named = probability_column(key["source"]) if bad_probability else "value"
        wrong = rows.column(PROBABILITY if bad_probability else "value")[first].as_py()
        by_rule[key["source"], key["rule"]] = Violation(
            rows.num_rows, f"{text[first].as_py()}, {named}={_shown(wrong)}"
        )
    return by_rule


def _shown(value: float | None) -> str:
    return "NULL" if value is None else "NaN" if value != value else str(value)


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    return (
        np.asarray(column.is_null().to_numpy(zero_copy_only=False))
        if column.null_count
        else np.zeros(len(column), np.bool_)
    )


def refuse(source: str, rule: str, n_rows: int, example: str) -> DataError:
    """The error of a rule that is broken."""
    broken = "row breaks" if n_rows == 1 else "rows break"
    return DataError(
        f"{TABLE[source]}: {n_rows:,} {broken} the rule {rule} (first: {example}): {REMEDY[rule]}, "
        "or set on_bad_rows: quarantine."
    )
