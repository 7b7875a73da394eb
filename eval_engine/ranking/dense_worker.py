"""What a Python worker does with dense scores: reads the vectors of its users and places their labels in them."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval_engine.errors import DataError
from eval_engine.inputs.dense_file import Block, read_blocks
from eval_engine.inputs.score_files import Files
from eval_engine.kernels.ragged import users_of
from eval_engine.kernels.rank_rows import rank_rows
from eval_engine.ranking.ranks_batch import (
    Floats,
    Found,
    Ints,
    Placed,
    Users,
    catalogue_ids,
    labels_side_by_side,
    ranks_batch,
    users_of_plan,
)
from eval_engine.ranking.settings import Ranking


def rank_vectors(plan: pa.RecordBatch, cursor: "VectorCursor", ranking: Ranking) -> Iterator[pa.RecordBatch]:
    """Rows of the ranks table of a plan's users, in the order of their vectors in the file."""
    items = catalogue_ids(ranking.catalogue)
    start = 0
    while start < plan.num_rows:
        block, rows, end = cursor.seek(plan, start)
        users = users_of_plan(plan.slice(start, end - start))
        gapless = len(rows) == rows[-1] - rows[0] + 1
        scores = block.scores[rows[0] : rows[-1] + 1] if gapless else block.scores[rows]
        problems = (
            {n: block.problems[int(row)] for n, row in enumerate(rows) if int(row) in block.problems}
            if block.problems
            else {}
        )
        found = found_in(users, scores, problems, items, ranking)
        del block, scores  # freed before the next is read, see read_blocks
        yield ranks_batch(users, found, items, ranking)
        start = end


def found_in(users: Users, scores: Floats, problems: dict[int, str], items: pa.Array, ranking: Ranking) -> Found:
    """The users' labels of all sets placed in their vectors, one row of scores per user; one pass over the scores."""
    offsets, positions, where, whole = labels_side_by_side(users, ranking.frame)
    out = users.excluded
    ranked = rank_rows(scores, offsets, positions, *out, min(ranking.top, scores.shape[1]), whole)
    placed = Placed(ranked.label_scores, ranked.above, ranked.tied)
    problems = dict(problems)
    for row in np.flatnonzero(ranked.has_nan):
        problems.setdefault(
            int(row), f"its score of item_id={items[int(np.isnan(scores[row]).argmax())].as_py()} is NaN"
        )
    whole_frame = ranking.frame == "all_items" and out.values.size
    trained = scores[users_of(out.offsets), out.values] if whole_frame else np.zeros(0, scores.dtype)
    return Found(
        {name: placed.taken(at) for name, at in where.items()},
        ranked.top_positions,
        ranked.top_scores,
        scores.shape[1] - np.diff(out.offsets),
        (out.offsets if whole_frame else np.zeros_like(out.offsets), trained),
        problems,
    )


class VectorCursor:
    """The block of the score file that the plan has come to; moves forward only, so no byte is read twice."""

    def __init__(self, files: Files, ranking: Ranking) -> None:
        self.files, self.n_items = files, ranking.n_items
        self.file = -1
        self.blocks: Iterator[Block] = iter(())
        self.block: Block | None = None

    def seek(self, plan: pa.RecordBatch, start: int) -> tuple[Block, Ints, int]:
        """The block that holds plan row `start`, the rows within it of the plan rows start..end, and that end."""
        file, first = plan.column("file")[start].as_py(), plan.column("first_row")[start].as_py()
        if file != self.file:
            path, source, _ = self.files[file]
            self.file, self.blocks, self.block = (
                file,
                read_blocks(path, source.score, source.dtype, self.n_items, first),
                None,
            )
        while self.block is None or first >= self.block.first + len(self.block.scores):
            self.block = None
            self.block = next(self.blocks, None)
            if self.block is None:
                path = self.files[file].path
                raise DataError(
                    f"scores: {path} has no row {first:,} any more: it was replaced while it was read. "
                    "Start the run again."
                )
        rows = plan.column("first_row").to_numpy()[start:] - self.block.first
        same = (rows < len(self.block.scores)) & np.asarray(pc.equal(plan.column("file").slice(start), file))
        n = int(np.argmin(same)) if not same.all() else len(same)
        return self.block, rows[:n], start + n
