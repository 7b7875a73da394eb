"""The labels of some users, judged: pairs user_pairs by user in, lists by catalogue position out. Arrow and numpy, no session.

    random     the user's random exposures               excluded   positions that are not candidates
    truth      the complete labels, where there are any             (frame unseen: the user's logged pairs)

A list is sorted by catalogue position, so it does not depend on the order in which the pairs came. Positions (int32) and values (float64) are packed
(packed.py). Where random exposures come with their probability, a third list of `random`, probabilities (float64), stands beside them; else there is none.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.errors import DataError
from eval_engine.kernels.label_rules import LOGGED, RANDOM, RULES, TRUTH, Pairs, ruled
from eval_engine.kernels.ragged import users_of
from eval_engine.spark.binary_lists import pack

SOURCES = ("random", "truth")  # label tables whose pairs are ranked; the third, logged, only excludes
NUMBER = {"random": RANDOM, "truth": TRUTH, "logged": LOGGED}
TABLE = {"random": "exposures", "truth": "truth", "logged": "feedback"}
OUTSIDE_FRAME = "outside_frame"
PROBABILITY = "exposure_probability"  # the optional column of exposures

REMEDY = {
    "null_key": "user_id and item_id must be there. Fix the job that makes the table",
    "null_value": "a label needs a value. Fix the job that makes the table",
    "nan_value": "NaN is not a value: it is neither positive nor negative. Fix the job that makes the table",
    "outside_catalogue": "only items of the catalogue have scores. Add the item to the catalogue, or take the row out",
    "duplicate_key": "a pair is labelled once. Keep the one row you mean",
    "bad_probability": "a pair that was exposed has a probability above 0 and at most 1. Fix the job that makes the table",
    "exposed_but_seen": "with frame: unseen, exposures are drawn from items without logged feedback of the user. Use frame: all_items if they were drawn from all",
}


class UserPairs(NamedTuple):
    """Labelled pairs of some users, user by user."""

    offsets: npt.NDArray[np.int64]  # user n's pairs are offsets[n] to offsets[n + 1]
    source: npt.NDArray[np.int8]  # a NUMBER
    position: npt.NDArray[np.int32]  # -1: not in the catalogue
    item_id: pa.Array
    value: pa.Array
    probability: pa.Array | None = None  # of exposures; NULL of other pairs. None: the exposures come without


class Judged(NamedTuple):
    """What is known of some users, and the pairs that cannot be used."""

    labels: pa.RecordBatch  # user_id, random (positions, values and, if known, probabilities), truth (positions, values), excluded: a row per user
    broken: (
        pa.RecordBatch
    )  # user_id, source, rule, item_id, value and, if known, exposure_probability: a row per pair that breaks a rule


class Violation(NamedTuple):
    """How many rows or users break a rule, and one of them as text: the first in alphabetical order, so that it does not depend on partitioning."""

    n_rows: int
    example: str


def judge(user_id: pa.Array, user_pairs: UserPairs, unseen: bool) -> Judged:
    """The labels of some users from their user_pairs pairs."""
    user = users_of(user_pairs.offsets)
    value = user_pairs.value.fill_null(0.0) if user_pairs.value.null_count else user_pairs.value
    pairs = Pairs(
        user_pairs.offsets,
        user_pairs.source,
        user_pairs.position,
        value.to_numpy(zero_copy_only=False),
        _nulls(user_pairs.item_id) | _nulls(user_id)[user],
        _nulls(user_pairs.value),
        None
        if user_pairs.probability is None
        else user_pairs.probability.fill_null(np.nan).to_numpy(zero_copy_only=False),
    )
    rule, order = ruled(pairs, unseen)

    def by_user(chosen: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The chosen pairs by user and position, and where each user's begin among them."""
        if chosen.all():
            return order, user_pairs.offsets
        kept = order[chosen[order]] if chosen.any() else order[:0]
        return kept, np.concatenate([[0], np.cumsum(np.bincount(user[kept], minlength=len(user_id)))])

    columns = {"user_id": user_id}
    for source in SOURCES:
        kept, starts = by_user((rule == 0) & (pairs.source == NUMBER[source]))
        lists = {
            "positions": pack(pairs.position[kept].astype(np.int32, copy=False), starts),
            "values": pack(pairs.value[kept].astype(np.float64, copy=False), starts),
        }
        if source == "random" and pairs.probability is not None:
            lists["probabilities"] = pack(pairs.probability[kept].astype(np.float64, copy=False), starts)
        columns[source] = pa.StructArray.from_arrays(list(lists.values()), list(lists))
    kept, starts = by_user(_seen_first(pairs, user, order) if unseen else np.zeros(user.size, np.bool_))
    columns["excluded"] = pack(pairs.position[kept].astype(np.int32, copy=False), starts)
    bad, _ = by_user(rule > 0)
    broken = {
        "user_id": user_id.take(pa.array(user[bad])),
        "source": pa.array(np.array(tuple(NUMBER))[pairs.source[bad]], pa.string()),
        "rule": pa.array(np.array(RULES)[rule[bad]], pa.string()),
        "item_id": user_pairs.item_id.take(pa.array(bad)),
        "value": user_pairs.value.take(pa.array(bad)),
    }
    if user_pairs.probability is not None:
        broken[PROBABILITY] = user_pairs.probability.take(pa.array(bad))
    return Judged(pa.RecordBatch.from_pydict(columns), pa.RecordBatch.from_pydict(broken))


def _seen_first(pairs: Pairs, user: npt.NDArray[Any], order: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """The logged pairs, each once. A pair was seen even if its value is missing or it was logged twice: it stays excluded."""
    logged = (pairs.source == LOGGED) & (pairs.position >= 0) & ~pairs.null_key
    first = np.ones(user.size, np.bool_)
    first[order[1:]] = (
        (user[order][1:] != user[order][:-1])
        | (pairs.position[order][1:] != pairs.position[order][:-1])
        | ~logged[order][:-1]
    )
    return logged & first


def violations(broken: pa.RecordBatch) -> dict[tuple[str, str], Violation]:
    """(source, rule): what is told of the pairs that break it."""
    found: dict[tuple[str, str], Violation] = {}
    if not broken.num_rows:
        return found
    for key in pa.table(broken).group_by(["source", "rule"]).aggregate([]).to_pylist():
        rows = broken.filter(
            pc.and_(pc.equal(broken.column("source"), key["source"]), pc.equal(broken.column("rule"), key["rule"]))
        )
        ids = [pc.fill_null(rows.column(name).cast(pa.string()), "NULL") for name in ("user_id", "item_id")]
        text = pc.binary_join_element_wise("user_id=", ids[0], ", item_id=", ids[1], "")
        first = pc.index(text, pc.min(text)).as_py()
        named = PROBABILITY if key["rule"] == "bad_probability" else "value"
        found[key["source"], key["rule"]] = Violation(
            rows.num_rows, f"{text[first].as_py()}, {named}={_shown(rows.column(named)[first].as_py())}"
        )
    return found


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
    return DataError(
        f"{TABLE[source]}: {n_rows:,} {'row breaks' if n_rows == 1 else 'rows break'} the rule {rule} (first: {example}): {REMEDY[rule]}, "
        "or set on_bad_rows: quarantine."
    )
