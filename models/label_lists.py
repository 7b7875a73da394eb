"""The labels of a run's users, without Spark: the same lists that the ranking job makes of the same tables (eval_engine/labels.py).

    read_label_lists(inputs, user_ids, item_ids, frame, on_bad_rows).users("mf", 0, 400)    what is known of the first 400 users

Exposures, truth and feedback are laid together, gathered by user and judged by the same rules. A pair that breaks one is an error or, with
on_bad_rows: quarantine, left out; the ranking job counts it and keeps the row. A user without labels has empty lists. Users that have labels
but no scores are judged with the others and then left to the ranking job, which says that they are not scored.
"""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.config import Inputs
from eval_engine.judged_labels import NUMBER, OUTSIDE_FRAME, SOURCES, TABLE, judge, refuse
from eval_engine.packed import unpack
from eval_engine.ranking.ranks_batch import Users, users_of_plan
from models.inputs import read_rows
from models.interactions import same_type

PAIRS_AT_ONCE = 1 << 20  # pairs judged together: what is told of each takes a hundred bytes for a while
BROKEN = ("source", "rule", "item_id", "value")


class LabelLists(NamedTuple):
    """One row of labels per user, in the order of the users that are ranked."""

    rows: pa.RecordBatch  # user_id, random, truth (positions, values), excluded; packed
    item_ids: pa.Array  # by position

    def users(self, model: str, start: int, stop: int) -> Users:
        """The users start..stop, as a model's."""
        rows = self.rows.slice(start, stop - start)
        return users_of_plan(rows.add_column(0, "model", pa.array([model] * rows.num_rows, pa.string())))

    def digest(self) -> str:
        """A hash of every list; users and items are told by their place."""
        sha = hashlib.sha256(f"{self.rows.num_rows} {len(self.item_ids)}".encode())
        columns = [self.rows.column(source).field(name) for source in SOURCES for name in ("positions", "values")]
        for column in (*columns, self.rows.column("excluded")):
            for array in unpack(column, np.uint8):
                sha.update(np.ascontiguousarray(array).data)
        return sha.hexdigest()


def read_label_lists(inputs: Inputs, user_ids: pa.Array, item_ids: pa.Array, frame: str, on_bad_rows: str) -> LabelLists:
    """The labels of these users; items in catalogue order. A broken pair of any user is an error if on_bad_rows says so."""
    pairs = _pairs(inputs, user_ids, item_ids)
    others = pc.unique(pairs.column("user_id").filter(pc.is_null(pc.index_in(pairs.column("user_id"), value_set=user_ids))))
    judged = list(_judged(pairs, pa.concat_arrays([user_ids, others.cast(user_ids.type)]), frame == "unseen"))
    if on_bad_rows == "error":
        _refuse_broken(judged)
    rows = pa.concat_batches([batch.select(["user_id", *SOURCES, "excluded"]) for batch in judged])
    return LabelLists(rows.slice(0, len(user_ids)), item_ids)


def _pairs(inputs: Inputs, user_ids: pa.Array, item_ids: pa.Array) -> pa.Table:
    """source, user_id, position, item_id, value of all label tables, one after the other."""
    tables = []
    for source, number in NUMBER.items():
        where = getattr(inputs, TABLE[source])
        if where is None:
            continue
        table = read_rows(where, ("user_id", "item_id", "value"))
        same_type(where.path, "user_id", table.column("user_id").type, "the users of the model", user_ids.type)
        same_type(where.path, "item_id", table.column("item_id").type, inputs.catalogue.path, item_ids.type)
        position = pc.index_in(table.column("item_id"), value_set=item_ids)
        source_column = pa.array(np.full(table.num_rows, number, np.int8))
        tables.append(table.append_column("position", position).append_column("source", source_column))
    return pa.concat_tables(tables)


def _judged(pairs: pa.Table, user_ids: pa.Array, unseen: bool) -> Iterator[pa.RecordBatch]:
    """The pairs gathered by user and judged, some users at a time; user_ids are all that the pairs have."""
    user = pc.index_in(pairs.column("user_id"), value_set=user_ids).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(user_ids)))]).astype(np.int64)
    order = np.argsort(user, kind="stable")
    start = 0
    while start < len(user_ids):
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + PAIRS_AT_ONCE, side="right")) - 1)
        some = pairs.take(pa.array(order[offsets[start] : offsets[stop]])).combine_chunks()
        names = ["source", "position", "item_id", "value"]
        flat = pa.StructArray.from_arrays([_whole(some.column(name)) for name in names], names)
        starts = pa.array(offsets[start : stop + 1] - offsets[start], pa.int32())
        yield judge(user_ids.slice(start, stop - start), pa.ListArray.from_arrays(starts, flat), unseen)
        start = stop


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece; of an empty table it has no chunk at all."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _refuse_broken(judged: list[pa.RecordBatch]) -> None:
    """An error of the first rule, by source and name, that some pair breaks: how many do, and the first of them as text."""
    parts = []
    for batch in judged:
        flat, user = batch.column("broken").flatten(), pc.list_parent_indices(batch.column("broken"))
        parts.append(pa.table({name: flat.field(name) for name in BROKEN} | {"user_id": batch.column("user_id").take(user)}))
    broken = pa.concat_tables(parts)
    broken = broken.filter(pc.not_equal(broken.column("rule"), OUTSIDE_FRAME))
    if not broken.num_rows:
        return
    source, rule = min((found["source"], found["rule"]) for found in broken.group_by(["source", "rule"]).aggregate([]).to_pylist())
    broken = broken.filter(pc.and_(pc.equal(broken.column("source"), source), pc.equal(broken.column("rule"), rule)))
    keys = [pc.fill_null(broken.column(name).cast(pa.string()), "NULL") for name in ("user_id", "item_id")]
    text = pc.binary_join_element_wise("user_id=", keys[0], ", item_id=", keys[1], "")
    first = pc.index(text, pc.min(text)).as_py()
    raise refuse(source, rule, broken.num_rows, f"{text[first].as_py()}, value={_text(broken.column('value')[first].as_py())}")


def _text(value: float | None) -> str:
    return "NULL" if value is None else "NaN" if value != value else str(value)
