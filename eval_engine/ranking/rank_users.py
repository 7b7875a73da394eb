"""What a Python worker does with its part of the plan: reads the score rows of its users and places their labels in them.

In: one row per scored user, sorted by file and row: where its vector lies, its labels, its excluded positions. Out: its row of the
ranks table. Scores go from file to kernel; only labels come in and only ranks and top lists go out.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eval_engine.errors import DataError
from eval_engine.kernels.compare_count import count
from eval_engine.kernels.rank_rows import RankedRows, rank_rows
from eval_engine.labels import SOURCES
from eval_engine.ranking.score_file import Block, open_file, read_blocks

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]


class Ranking(NamedTuple):
    """What holds for all users of a run."""

    n_items: int
    top: int  # length of a top list
    columns: tuple[str, ...]  # of each score input: the column that holds the vectors
    catalogue: tuple[str, ...]  # files of (item_id, position)
    on_bad_rows: str


class Lists(NamedTuple):
    """Positions of some users, flat; user n's are values[offsets[n] : offsets[n + 1]]."""

    offsets: Ints
    values: npt.NDArray[np.int32]


def rank_users(ranking: Ranking) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark's mapInArrow runs over each task's part of the plan."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = catalogue_ids(ranking.catalogue)
        cursor = _Cursor(ranking)
        for batch in batches:
            start = 0
            while start < batch.num_rows:
                block, rows, end = cursor.seek(batch, start)
                yield _rank_block(batch.slice(start, end - start), block, rows, items, ranking)
                start = end

    return run


class _Cursor:
    """The block of the score file that the plan has come to; moves forward only, so no byte is read twice."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        self.file = ""
        self.blocks: Iterator[Block] = iter(())
        self.block: Block | None = None

    def seek(self, plan: pa.RecordBatch, start: int) -> tuple[Block, Ints, int]:
        """The block that holds plan row `start`, the rows within it of the plan rows start..end, and that end."""
        file, first = plan.column("file")[start].as_py(), plan.column("row_index")[start].as_py()
        if file != self.file:
            column = self.ranking.columns[plan.column("input")[start].as_py()]
            self.file, self.blocks, self.block = file, read_blocks(file, column, self.ranking.n_items, first), None
        while self.block is None or first >= self.block.first + len(self.block.scores):
            self.block = next(self.blocks, None)
            if self.block is None:
                raise DataError(f"scores: {file} has no row {first:,} any more: it was replaced while it was read. Start the run again.")
        rows = plan.column("row_index").to_numpy()[start:] - self.block.first
        same = (rows < len(self.block.scores)) & np.asarray(pc.equal(plan.column("file").slice(start), file))
        n = int(np.argmin(same)) if not same.all() else len(same)
        return self.block, rows[:n], start + n


def _rank_block(plan: pa.RecordBatch, block: Block, rows: Ints, items: pa.Array, ranking: Ranking) -> pa.RecordBatch:
    """The ranks of the plan's users, whose vectors are these rows of the block."""
    gapless = len(rows) == rows[-1] - rows[0] + 1
    scores = block.scores[rows[0] : rows[-1] + 1] if gapless else block.scores[rows]
    excluded_offsets, excluded = _lists(plan.column("excluded"))
    labels = {source: _lists(plan.column(source).field("positions")) for source in SOURCES}
    first, *others = SOURCES
    k = min(ranking.top, scores.shape[1])
    ranked = rank_rows(scores, *labels[first], excluded_offsets, excluded, k)
    places = {first: (ranked.above, ranked.tied)} | {source: count(scores, *labels[source], excluded_offsets, excluded) for source in others}
    problems = {n: block.problems[int(row)] for n, row in enumerate(rows) if int(row) in block.problems} if block.problems else {}
    for row in np.flatnonzero(ranked.has_nan):
        problems[int(row)] = f"its score of item_id={items[int(np.isnan(scores[row]).argmax())].as_py()} is NaN"
    if problems and ranking.on_bad_rows == "error":
        n = min(problems)
        raise DataError(
            f"scores of model {plan.column('model')[n].as_py()}: user_id={plan.column('user_id')[n].as_py()} cannot be ranked: {problems[n]}. "
            "Score it again, or set on_bad_rows: quarantine to leave such users out."
        )
    bad = np.isin(np.arange(len(rows)), list(problems))
    columns = {
        "model": plan.column("model"),
        "user_id": plan.column("user_id"),
        "candidates": pa.array((ranking.n_items - np.diff(excluded_offsets)).astype(np.int32), mask=bad),
        **{source: _placed(plan.column(source), labels[source], scores, places[source], bad) for source in SOURCES},
        "top": _top(ranked, items, bad),
        "problem": pa.array([problems.get(n) for n in range(len(rows))], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _placed(labels: pa.StructArray, positions: Lists, scores: npt.NDArray[np.float32], places: tuple[Ints, Ints], bad: Bools) -> pa.StructArray:
    """The labels of one source with their scores and places in each user's list."""
    users = np.repeat(np.arange(len(positions.offsets) - 1), np.diff(positions.offsets))
    fields = {
        "items": labels.field("items").flatten(),
        "values": labels.field("values").flatten(),
        "scores": pa.array(scores[users, positions.values], pa.float32()),
        "above": pa.array(places[0], pa.int32()),
        "tied": pa.array(places[1], pa.int32()),
    }
    starts = pa.array(positions.offsets, pa.int32())
    return pa.StructArray.from_arrays([pa.ListArray.from_arrays(starts, values) for values in fields.values()], list(fields), mask=pa.array(bad))


def _top(ranked: RankedRows, items: pa.Array, bad: Bools) -> pa.StructArray:
    """The first candidates of each user, by item."""
    found = ranked.top_positions >= 0
    starts = pa.array(np.concatenate([[0], np.cumsum(found.sum(axis=1))]), pa.int32())
    fields = {"items": items.take(pa.array(ranked.top_positions[found])), "scores": pa.array(ranked.top_scores[found], pa.float32())}
    return pa.StructArray.from_arrays([pa.ListArray.from_arrays(starts, values) for values in fields.values()], list(fields), mask=pa.array(bad))


def _lists(column: pa.ListArray) -> Lists:
    """A column of lists of positions, flat; NULL is an empty list."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return Lists(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), column.flatten().to_numpy(zero_copy_only=False))


@lru_cache(maxsize=1)
def catalogue_ids(files: tuple[str, ...]) -> pa.Array:
    """The item at each position; read once per worker process."""
    tables = []
    for file in files:
        with open_file(file) as handle:
            tables.append(pq.read_table(handle, columns=["item_id", "position"]))
    table = pa.concat_tables(tables).sort_by("position")
    return table.column("item_id").combine_chunks()
