"""Rows of the ranks table, from what a kernel found of some users. Arrow and numpy, no session: workers and torch jobs write the same rows.

A place that cannot be known is NULL: of a partial list (only the best n items are scored), `above` and `tied` of a label without a score, and `tied` of a
label that is level with the lowest score, since items without a score may be level with it too.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from eval_engine.errors import DataError
from eval_engine.inputs.labels import SOURCES
from eval_engine.spark.binary_lists import unpack
from eval_engine.storage.stored_file import open_file

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]


class Lists(NamedTuple):
    """Positions of some users, flat; user n's are values[offsets[n] : offsets[n + 1]]."""

    offsets: Ints
    values: npt.NDArray[np.int32]


class Users(NamedTuple):
    """Some users of one or more models and what is known of them; one row each."""

    model: pa.Array
    user_id: pa.Array
    positions: dict[str, Lists]  # of the labels, by source
    values: dict[str, npt.NDArray[np.float64]]  # of the labels, by source
    excluded: Lists
    probabilities: npt.NDArray[np.float64] | None = (
        None  # of random exposures, beside values["random"]; None: not known
    )

    def __len__(self) -> int:
        return len(self.user_id)


class Placed(NamedTuple):
    """Score and place of each label of a source, flat; above or tied -1: cannot be known."""

    scores: Floats
    above: Ints
    tied: Ints


class Found(NamedTuple):
    """What a kernel found of some users."""

    places: dict[str, Placed]
    top_positions: Ints  # (n, k), padded with -1
    top_scores: Floats  # (n, k)
    scored: Ints  # (n,) candidates that have a score
    problems: dict[int, str]  # user: why it cannot be ranked


def users_of_plan(plan: pa.RecordBatch) -> Users:
    """The users of a batch with the columns model, user_id, random, truth and excluded (judged_labels.py)."""
    positions = {source: Lists(*unpack(plan.column(source).field("positions"), np.int32)) for source in SOURCES}
    values = {source: unpack(plan.column(source).field("values"), np.float64)[1] for source in SOURCES}
    random = plan.column("random")
    known = random.type.get_field_index("probabilities") >= 0
    probabilities = unpack(random.field("probabilities"), np.float64)[1] if known else None
    return Users(
        plan.column("model"),
        plan.column("user_id"),
        positions,
        values,
        Lists(*unpack(plan.column("excluded"), np.int32)),
        probabilities,
    )


def ranks_batch(users: Users, found: Found, items: pa.Array, n_items: int, on_bad_rows: str) -> pa.RecordBatch:
    """The users' rows of the ranks table, but for run_id and inputs; a user with a problem is an error, or a row that says so."""
    if found.problems and on_bad_rows == "error":
        n = min(found.problems)
        raise DataError(
            f"scores of model {users.model[n].as_py()}: user_id={users.user_id[n].as_py()} cannot be ranked: {found.problems[n]}. "
            "Score it again, or set on_bad_rows: quarantine to leave such users out."
        )
    bad = np.zeros(len(users), np.bool_)
    bad[list(found.problems)] = True
    columns = {
        "model": users.model,
        "user_id": users.user_id,
        "candidates": pa.array((n_items - np.diff(users.excluded.offsets)).astype(np.int32), mask=bad),
        "scored": pa.array(found.scored.astype(np.int32), mask=bad),
        **{source: _labels(users, source, found.places[source], items, bad) for source in SOURCES},
        "top": _top(found, items, bad),
        "problem": pa.array([found.problems.get(n) for n in range(len(users))], pa.string())
        if found.problems
        else pa.nulls(len(users), pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _labels(users: Users, source: str, placed: Placed, items: pa.Array, bad: Bools) -> pa.StructArray:
    """The labels of one source with their scores and places, and with their probabilities where these are known."""
    positions, probabilities = users.positions[source], users.probabilities if source == "random" else None
    fields = {
        "items": items.take(pa.array(positions.values)),
        "values": pa.array(users.values[source]),
        "scores": _known(placed.scores.astype(np.float32, copy=False), np.isnan(placed.scores)),
        "above": _known(placed.above.astype(np.int32, copy=False), placed.above < 0),
        "tied": _known(placed.tied.astype(np.int32, copy=False), placed.tied < 0),
        "probabilities": None if probabilities is None else pa.array(probabilities),
    }
    return _struct(positions.offsets, fields, bad, ("scores", "above", "tied"))


def _top(found: Found, items: pa.Array, bad: Bools) -> pa.StructArray:
    """The first candidates of each user, by item."""
    n, k = found.top_positions.shape
    there = found.top_positions >= 0
    if there.all():
        offsets, positions, scores = np.arange(n + 1) * k, found.top_positions.ravel(), found.top_scores.ravel()
    else:
        offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        positions, scores = found.top_positions[there], found.top_scores[there]
    fields = {
        "items": items.take(pa.array(positions.astype(np.int32, copy=False))),
        "scores": pa.array(scores.astype(np.float32, copy=False)),
    }
    return _struct(offsets, fields, bad)


def _known(values: npt.NDArray[Any], unknown: Bools) -> pa.Array:
    """The values, NULL where unknown; without a copy where all are known."""
    return pa.array(values, mask=unknown if unknown.any() else None)


def _struct(
    offsets: Ints, fields: dict[str, pa.Array | None], bad: Bools, unknown: tuple[str, ...] = ()
) -> pa.StructArray:
    """Lists beside each other; NULL of a bad user. Only those named hold NULLs: Parquet writes the others a third faster. None: no user has that list (of numbers)."""
    starts, columns, types = pa.array(offsets, pa.int32()), [], []
    for name, values in fields.items():
        kind = pa.list_(pa.field("element", pa.float64() if values is None else values.type, nullable=name in unknown))
        columns.append(
            pa.nulls(len(bad), kind) if values is None else pa.ListArray.from_arrays(starts, values, type=kind)
        )
        types.append(pa.field(name, kind, nullable=values is None))
    return pa.StructArray.from_arrays(columns, fields=types, mask=pa.array(bad) if bad.any() else None)


@lru_cache(maxsize=1)
def catalogue_ids(files: tuple[str, ...]) -> pa.Array:
    """The item at each position; read once per worker process."""
    tables = []
    for file in files:
        with open_file(file) as handle:
            tables.append(pq.read_table(handle, columns=["item_id", "position"]))
    table = pa.concat_tables(tables).sort_by("position")
    return table.column("item_id").combine_chunks()
