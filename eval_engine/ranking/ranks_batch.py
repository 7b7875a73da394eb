"""Rows of the ranks table, from what a kernel found of some users. Arrow and numpy, no session: workers and torch jobs
write the same rows.

Every label set has its own candidates: the user's training pairs are among them or not (inputs/label_sets.py). A set
that the run does not have has empty lists. A place that cannot be known is NULL: of a partial list (only the best n
items are scored), `above` and `tied` of a label without a score, `tied` of a label whose score is the least and is
there twice (candidates without a score may have it too: the list was cut inside a tie), and the threshold of a cutoff
that is not below the number of scores. A least score that is there once is taken for one without ties.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from eval_engine.errors import DataError
from eval_engine.inputs.label_sets import LABEL_SETS, LabelSet
from eval_engine.kernels.compare_count import NO_LABEL
from eval_engine.kernels.ragged import side_by_side
from eval_engine.kernels.top_list import thresholds
from eval_engine.ranking.settings import Ranking
from eval_engine.spark.binary_lists import unpack
from eval_engine.storage.stored_file import open_file

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
Columns = list[tuple[pa.Field, pa.Array]]  # of a struct


class Lists(NamedTuple):
    """Positions of some users, flat; user n's are values[offsets[n] : offsets[n + 1]]."""

    offsets: Ints
    values: npt.NDArray[np.int32]


class Users(NamedTuple):
    """Some users of one or more models and what is known of them; one row each."""

    model: pa.Array
    user_id: pa.Array
    positions: dict[str, Lists]  # of the labels, by label set
    values: dict[str, npt.NDArray[np.float64]]  # of the labels, by label set
    probabilities: dict[str, npt.NDArray[np.float64]]  # beside values; of label sets whose table has them
    excluded: Lists  # the training pairs

    def __len__(self) -> int:
        return len(self.user_id)


class SideBySide(NamedTuple):
    """The labels of all sets of some users, so that one pass over the scores ranks them all."""

    offsets: Ints
    positions: Ints
    where: dict[str, Ints | slice]  # of each set: its labels among them
    whole: Bools  # labels that have the training pairs among their candidates; empty: none, or there are none


class Placed(NamedTuple):
    """Score and place of each label, flat; above or tied -1: cannot be known."""

    scores: Floats
    above: Ints
    tied: Ints

    def taken(self, where: Ints | slice) -> "Placed":
        """Some of them."""
        return Placed(self.scores[where], self.above[where], self.tied[where])


class Found(NamedTuple):
    """What a kernel found of some users."""

    places: dict[str, Placed]  # by label set
    top_positions: Ints  # (n, k), padded with -1
    top_scores: Floats  # (n, k)
    scored: Ints  # (n,) items with a score, without the training pairs
    excluded: tuple[Ints, Floats]  # offsets and scores of training pairs, NaN: no score. Read if the frame is all_items
    problems: dict[int, str]  # user: why it cannot be ranked


def users_of_plan(plan: pa.RecordBatch) -> Users:
    """The users of a batch with the columns model, user_id, those of the label sets, and excluded
    (inputs/labels.py)."""
    sets = {name: plan.column(name) for name in LABEL_SETS if name in plan.schema.names}
    known = {name: column for name, column in sets.items() if column.type.get_field_index("probabilities") >= 0}
    return Users(
        plan.column("model"),
        plan.column("user_id"),
        {name: Lists(*unpack(column.field("positions"), np.int32)) for name, column in sets.items()},
        {name: unpack(column.field("values"), np.float64)[1] for name, column in sets.items()},
        {name: unpack(column.field("probabilities"), np.float64)[1] for name, column in known.items()},
        Lists(*unpack(plan.column("excluded"), np.int32)),
    )


def labels_side_by_side(users: Users, frame: str) -> SideBySide:
    """The users' labels of all sets; without a copy where one set has them all. frame: of the config."""
    filled = [name for name, lists in users.positions.items() if lists.values.size]
    where: dict[str, Ints | slice]
    if len(filled) < 2:
        offsets, positions = users.positions[filled[0]] if filled else next(iter(users.positions.values()))
        where = {name: slice(None) if name in filled else slice(0) for name in users.positions}
    else:
        offsets, positions, places = side_by_side([users.positions[name] for name in filled])
        where = {name: slice(0) for name in users.positions} | dict(zip(filled, places, strict=True))
    whole = NO_LABEL
    if users.excluded.values.size and any(LABEL_SETS[name].whole(frame) for name in filled):
        whole = np.zeros(positions.size, np.bool_)
        for name in filled:
            whole[where[name]] = LABEL_SETS[name].whole(frame)
    return SideBySide(offsets, positions, where, whole)


def ranks_batch(users: Users, found: Found, items: pa.Array, ranking: Ranking) -> pa.RecordBatch:
    """The users' rows of the ranks table, but for run_id and inputs; a user with a problem is an error, or a row that
    says so."""
    if found.problems and ranking.on_bad_rows == "error":
        n = min(found.problems)
        raise DataError(
            f"scores of model {users.model[n].as_py()}: user_id={users.user_id[n].as_py()} cannot be ranked: "
            f"{found.problems[n]}. Score it again, or set on_bad_rows: quarantine to leave such users out."
        )
    bad = np.zeros(len(users), np.bool_)
    bad[list(found.problems)] = True
    candidates = ranking.n_items - np.diff(users.excluded.offsets)
    columns = {
        "model": users.model,
        "user_id": users.user_id,
        "candidates": pa.array(candidates.astype(np.int32), mask=bad),
        "scored": pa.array(found.scored.astype(np.int32), mask=bad),
        **{name: _labels(users, found, label_set, items, ranking, bad) for name, label_set in LABEL_SETS.items()},
        "top": _top(found, items, bad),
        "problem": pa.array([found.problems.get(n) for n in range(len(users))], pa.string())
        if found.problems
        else pa.nulls(len(users), pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _labels(
    users: Users, found: Found, label_set: LabelSet, items: pa.Array, ranking: Ranking, bad: Bools
) -> pa.StructArray:
    """The labels of one set with their scores and places, and how many candidates these are counted among."""
    name, n = label_set.name, len(users)
    candidates, scored = ranking.n_items - np.diff(users.excluded.offsets), found.scored
    if label_set.whole(ranking.frame) and users.excluded.values.size:
        candidates, scored = np.full(n, ranking.n_items), scored + _n_scored(*found.excluded)
    columns = list(
        _label_lists(users, name, _cut_ties(found.places[name], users.positions[name], candidates, scored), items)
        if name in users.positions
        else _none(n, items.type)
    )
    for number, counts in (("candidates", candidates), ("scored", scored)):
        columns.append((pa.field(number, pa.int32(), nullable=False), pa.array(counts.astype(np.int32))))
    if name == "random":
        columns += _thresholds(found, candidates, ranking)
    return _struct(columns, bad)


def _cut_ties(placed: Placed, labels: Lists, candidates: Ints, scored: Ints) -> Placed:
    """The places of labels, `tied` unknown where a partial list was cut inside a tie."""
    if not (scored < candidates).any():
        return placed
    user = np.repeat(np.arange(candidates.size), np.diff(labels.offsets))
    last = (placed.above >= 0) & (placed.tied > 0) & (placed.above + placed.tied + 1 >= scored[user])
    return placed._replace(tied=np.where(last & (scored < candidates)[user], -1, placed.tied))


def _label_lists(users: Users, name: str, placed: Placed, items: pa.Array) -> Columns:
    """The lists of a label set, one entry per label."""
    positions, probabilities = users.positions[name], users.probabilities.get(name)
    lists = {
        "items": items.take(pa.array(positions.values)),
        "values": pa.array(users.values[name]),
        "scores": _known(placed.scores.astype(np.float32, copy=False), np.isnan(placed.scores)),
        "above": _known(placed.above.astype(np.int32, copy=False), placed.above < 0),
        "tied": _known(placed.tied.astype(np.int32, copy=False), placed.tied < 0),
        "probabilities": None if probabilities is None else pa.array(probabilities),
    }
    return _lists(positions.offsets, lists, len(users), ("scores", "above", "tied"))


@lru_cache(maxsize=8)
def _none(n: int, id_type: pa.DataType) -> Columns:
    """The lists of a label set that the run does not have, of n users; the same for every block of as many."""
    ids, nobody = pa.array([], id_type), pa.nulls(n, id_type)
    nowhere = Lists(np.zeros(n + 1, np.int64), np.zeros(0, np.int32))
    nothing = Placed(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(0, np.int32))
    users = Users(nobody, nobody, {"": nowhere}, {"": np.zeros(0)}, {}, nowhere)
    return _label_lists(users, "", nothing, ids)


def _n_scored(offsets: Ints, scores: Floats) -> Ints:
    """How many of each user's training pairs have a score."""
    return np.diff(np.concatenate([[0], np.cumsum(~np.isnan(scores))])[offsets])


def _thresholds(found: Found, candidates: Ints, ranking: Ranking) -> Columns:
    """The cutoffs, and the score that an item must pass to be in the top K among the candidates of random exposures."""
    n, whole = candidates.size, LABEL_SETS["random"].whole(ranking.frame)
    also = found.excluded if whole and found.excluded[1].size else None
    tau = thresholds(found.top_scores, candidates, ranking.cutoffs, also).ravel().astype(np.float32, copy=False)
    lists = {"thresholds": _known(tau, np.isnan(tau))}
    offsets = np.arange(n + 1) * len(ranking.cutoffs)
    return _cutoffs(n, ranking.cutoffs) + _lists(offsets, lists, n, ("thresholds",))


@lru_cache(maxsize=8)
def _cutoffs(n: int, cutoffs: tuple[int, ...]) -> Columns:
    """The cutoffs beside the thresholds of n users; the same for every block of as many."""
    return _lists(np.arange(n + 1) * len(cutoffs), {"k": pa.array(np.tile(np.array(cutoffs, np.int32), n))}, n)


def _top(found: Found, items: pa.Array, bad: Bools) -> pa.StructArray:
    """The first candidates of each user, by item."""
    n, k = found.top_positions.shape
    there = found.top_positions >= 0
    if there.all():
        offsets, positions, scores = np.arange(n + 1) * k, found.top_positions.ravel(), found.top_scores.ravel()
    else:
        offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        positions, scores = found.top_positions[there], found.top_scores[there]
    lists = {
        "items": items.take(pa.array(positions.astype(np.int32, copy=False))),
        "scores": pa.array(scores.astype(np.float32, copy=False)),
    }
    return _struct(_lists(offsets, lists, n), bad)


def _known(values: npt.NDArray[Any], unknown: Bools) -> pa.Array:
    """The values, NULL where unknown; without a copy where all are known."""
    return pa.array(values, mask=unknown if unknown.any() else None)


def _lists(offsets: Ints, lists: dict[str, pa.Array | None], n: int, unknown: tuple[str, ...] = ()) -> Columns:
    """Lists beside each other, by field. Only those named hold NULLs: Parquet writes the others a third faster. None:
    no user has that list (of numbers)."""
    starts, columns = pa.array(offsets, pa.int32()), []
    for name, values in lists.items():
        kind = pa.list_(pa.field("element", pa.float64() if values is None else values.type, nullable=name in unknown))
        column = pa.nulls(n, kind) if values is None else pa.ListArray.from_arrays(starts, values, type=kind)
        columns.append((pa.field(name, kind, nullable=values is None), column))
    return columns


def _struct(columns: Columns, bad: Bools) -> pa.StructArray:
    """The columns as a struct; NULL of a bad user."""
    fields, arrays = zip(*columns, strict=True)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(bad) if bad.any() else None)


@lru_cache(maxsize=1)
def catalogue_ids(files: tuple[str, ...]) -> pa.Array:
    """The item at each position; read once per worker process."""
    tables = []
    for file in files:
        with open_file(file) as handle:
            tables.append(pq.read_table(handle, columns=["item_id", "position"]))
    table = pa.concat_tables(tables).sort_by("position")
    return table.column("item_id").combine_chunks()
