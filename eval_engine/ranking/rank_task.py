"""A plan, and what a Python worker does with its part of it: opens the blobs, block after block, and ranks each user
where its scores lie.

In: blobs of the plan (ranking/assembly.py), sorted by file and block. Out: rows of the ranks table. Scores go from file
to kernel; only labels come in and only ranks and top lists go out.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from eval_engine.inputs.file_stamp import Stamped, unchanged
from eval_engine.inputs.score_files import Files
from eval_engine.ranking.dense_worker import VectorCursor, rank_vectors
from eval_engine.ranking.long_worker import RowCursor, rank_contiguous
from eval_engine.ranking.settings import Ranking
from eval_engine.spark.arrow_blobs import decode
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Worker


def rank_plan(ranking: Ranking, files: Files) -> Worker:
    """The function that Spark's mapInArrow runs over each task's part of the plan: file, block, rows."""

    def run(blobs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        vectors, rows = VectorCursor(files, ranking), RowCursor(files, ranking)
        read: set[Stamped] = set()
        with unchanged(read):
            for plan in blocks(blobs):
                file = files[plan.column("file")[0].as_py()]
                read.add(file.stamped)
                if file.source.item is None:
                    yield from rank_vectors(plan, vectors, ranking)
                else:
                    yield from rank_contiguous(plan, rows, ranking)

    return run


def blocks(blobs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The plan's rows of each block, in the order of the file."""
    now: tuple[int, int] | None = None
    waiting: list[Any] = []
    for batch in blobs:
        for file, block, rows in zip(
            *(batch.column(name).to_pylist() for name in ("file", "block")), batch.column("rows"), strict=True
        ):
            if waiting and (file, block) != now:
                yield _in_order(decode(waiting))
                waiting = []
            now = file, block
            waiting.append(rows)
    if waiting:
        yield _in_order(decode(waiting))


def _in_order(plan: pa.RecordBatch) -> pa.RecordBatch:
    first = plan.column("first_row").to_numpy()
    return plan if (first[1:] >= first[:-1]).all() else plan.take(pa.array(np.argsort(first, kind="stable")))
