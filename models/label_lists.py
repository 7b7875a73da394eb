"""The labels of a run's users, without Spark: the same lists that the ranking job makes of the same tables
(eval_engine/inputs/labels.py).

    read_label_lists(inputs, user_ids, item_ids, frame, on_bad_rows).users("mf", 0, 400)    of the first 400 users

The tables of the label sets and the feedback are concatenated, grouped by user and judged by the same rules. A pair
that breaks one is an error or, with on_bad_rows: quarantine, left out; the ranking job counts it and keeps the row. A
user without labels has empty lists. Users that have labels but no scores are judged with the others and then left to
the ranking job, which says that they are not scored.
"""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.config import Inputs
from eval_engine.inputs.label_sets import LABEL_SETS, NUMBER, PAIR, TABLE, probability_column
from eval_engine.inputs.labels import OUTSIDE_FRAME, PROBABILITY, Judged, UserPairs, judge, refuse, violations
from eval_engine.ranking.ranks_batch import Users, users_of_plan
from eval_engine.spark.binary_lists import unpack
from models.inputs import read_rows
from models.interactions import same_type

PAIRS_AT_ONCE = 1 << 20  # pairs judged together: each takes a hundred bytes for a while


class LabelLists(NamedTuple):
    """One row of labels per user, in the order of the users that are ranked."""

    rows: pa.RecordBatch  # user_id, a column per label set, excluded: Judged.labels (eval_engine/inputs/labels.py)
    item_ids: pa.Array  # by position

    @property
    def label_sets(self) -> tuple[str, ...]:
        """The label sets that the run has."""
        return tuple(name for name in LABEL_SETS if name in self.rows.schema.names)

    @property
    def probabilities(self) -> tuple[str, ...]:
        """The label sets whose table has probabilities."""
        kinds = {name: self.rows.schema.field(name).type for name in self.label_sets}
        return tuple(name for name, kind in kinds.items() if kind.get_field_index("probabilities") >= 0)

    def users(self, model: str, start: int, stop: int) -> Users:
        """The users start..stop, as a model's."""
        rows = self.rows.slice(start, stop - start)
        return users_of_plan(rows.add_column(0, "model", pa.array([model] * rows.num_rows, pa.string())))

    def digest(self) -> str:
        """A hash of every list; users and items are known by their place."""
        sets = " ".join((*self.label_sets, *self.probabilities))
        sha = hashlib.sha256(f"{self.rows.num_rows} {len(self.item_ids)} {sets}".encode())
        columns = [column for name in self.label_sets for column in self.rows.column(name).flatten()]
        for column in (*columns, self.rows.column("excluded")):
            for array in unpack(column, np.uint8):
                sha.update(np.ascontiguousarray(array).data)
        return sha.hexdigest()


def read_label_lists(
    inputs: Inputs, user_ids: pa.Array, item_ids: pa.Array, frame: str, on_bad_rows: str
) -> LabelLists:
    """The labels of these users; items in catalogue order. A broken pair of any user is an error if on_bad_rows says
    so."""
    sources = [source for source, table in TABLE.items() if getattr(inputs, table) is not None]
    pairs, probable = _pairs(inputs, sources, user_ids, item_ids)
    others = pc.unique(
        pairs.column("user_id").filter(pc.is_null(pc.index_in(pairs.column("user_id"), value_set=user_ids)))
    )
    label_sets = [source for source in sources if source in LABEL_SETS]
    everybody = pa.concat_arrays([user_ids, others.cast(user_ids.type)])
    judged = list(_judged(pairs, probable, everybody, label_sets, frame == "unseen"))
    if on_bad_rows == "error":
        _refuse_broken(pa.concat_batches([some.broken for some in judged]))
    rows = pa.concat_batches([some.labels for some in judged])
    return LabelLists(rows.slice(0, len(user_ids)), item_ids)


def _pairs(
    inputs: Inputs, sources: list[str], user_ids: pa.Array, item_ids: pa.Array
) -> tuple[pa.Table, tuple[str, ...]]:
    """source, user_id, position, item_id, value and, if some table has them, probability of all pairs, one source after
    the other; and the sources whose table has probabilities."""
    tables, probable = [], []
    for source in sources:
        where, column = getattr(inputs, TABLE[source]), probability_column(source)
        table = read_rows(where, tuple(PAIR), (column,) if column else ())
        same_type(where.path, "user_id", table.column("user_id").type, "the users of the model", user_ids.type)
        same_type(where.path, "item_id", table.column("item_id").type, inputs.catalogue.path, item_ids.type)
        if column in table.column_names:
            table = table.rename_columns({column: PROBABILITY})
            probable.append(source)
        position = pc.index_in(table.column("item_id"), value_set=item_ids)
        number = pa.array(np.full(table.num_rows, NUMBER[source], np.int8))
        tables.append(table.append_column("position", position).append_column("source", number))
    together = pa.concat_tables(tables, promote_options="default")  # a column that a table lacks is NULL there
    return together, tuple(probable)


def _judged(
    pairs: pa.Table, probable: tuple[str, ...], user_ids: pa.Array, label_sets: list[str], unseen: bool
) -> Iterator[Judged]:
    """The pairs grouped by user and judged, some users at a time; user_ids are all that the pairs have."""
    user = pc.index_in(pairs.column("user_id"), value_set=user_ids).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=len(user_ids)))]).astype(np.int64)
    order = np.argsort(user, kind="stable")
    start = 0
    while start < len(user_ids):
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + PAIRS_AT_ONCE, side="right")) - 1)
        some = pairs.take(pa.array(order[offsets[start] : offsets[stop]])).combine_chunks()
        source, position = (_whole(some.column(name)) for name in ("source", "position"))
        user_pairs = UserPairs(
            offsets[start : stop + 1] - offsets[start],
            source.to_numpy(),
            position.fill_null(-1).to_numpy(),
            _whole(some.column("item_id")),
            _whole(some.column("value")),
            _whole(some.column(PROBABILITY)) if probable else None,
            probable,
        )
        yield judge(user_ids.slice(start, stop - start), user_pairs, label_sets, unseen)
        start = stop


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece; of an empty table it has no chunk at all."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _refuse_broken(broken: pa.RecordBatch) -> None:
    """An error of the first rule, by source and name, that some pair breaks: how many do, and the first of them."""
    for (source, rule), violation in sorted(violations(broken).items()):
        if rule != OUTSIDE_FRAME:
            raise refuse(source, rule, *violation)
