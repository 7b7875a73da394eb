"""Fused ranking: a trained model's labelled pairs ranked as they are scored, block of users after block of users; no
score table.

    ranks(block) = ranks_batch(found_in(score_block(block)))

by the kernels and rows of eval_engine/ranking/, which reads scores from files instead. A block of scores is in memory
only until its users are ranked; what is written is one row per user: its labels' places and the top of its list, some
kB where the scores are 4 bytes an item. Blocks are cut by bytes alone, so rows do not depend on the number of threads:
each thread scores and ranks a block of its own; a GPU begins a block when it is put in the queue, and scores it while
others are ranked. The files become part of the lake's ranks table in one commit, in place of the model's older rows of
the run.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable

from eval_engine.config import Inputs
from eval_engine.errors import LakeError
from eval_engine.lake.commits import active_files, delta_uri, replace_files
from eval_engine.lake.part_files import Target, WrittenFile, write_parts
from eval_engine.lake.vacuum import remove_leftovers
from eval_engine.ranking.dense_worker import found_in
from eval_engine.ranking.ranks_batch import ranks_batch
from eval_engine.ranking.settings import Ranking
from eval_engine.tables import RANKS
from models.blocks_ahead import begun
from models.errors import DivergedError, TrainingError
from models.label_lists import LabelLists
from models.scorer import Scorer

Ints = npt.NDArray[np.int64]
BLOCK_BYTES = 16 * 2**20  # of scores: the matrix product and the calls are amortised
LEAST_USERS = 16  # in a block: the item vectors are read once for all of them


class Run(NamedTuple):
    """The run whose ranks are written, and how its lists are ranked."""

    table: str  # path or URI of the lake's ranks table
    run_id: str
    inputs: Inputs
    frame: str  # all_items, unseen
    top: int  # length of the top lists; one more is kept, for thresholds
    on_bad_rows: str  # error, quarantine: of labels
    cutoffs: tuple[int, ...]  # K of the thresholds: those of the run's metrics

    def ranking(self, labels: LabelLists) -> Ranking:
        """How lists are ranked; a bad score vector of a model is always an error."""
        n_items, sets = len(labels.item_ids), (labels.label_sets, self.cutoffs, labels.probabilities)
        return Ranking(n_items, self.top + 1, (), "error", self.frame, *sets)


class Ranked(NamedTuple):
    """One model of a run."""

    model: str
    inputs: str  # fingerprint of what the rows are made from: known before training
    scorer: Scorer


def block_users(n_items: int) -> int:
    """How many users are scored at once."""
    return max(LEAST_USERS, BLOCK_BYTES // (4 * n_items))


def rank_fused(
    model: str, scorer: Scorer, labels: LabelLists, ranking: Ranking, threads: int
) -> Iterator[pa.RecordBatch]:
    """The model's rows of the ranks table, block after block in the order of users. Torch should be on one thread."""
    n_users, step = labels.rows.num_rows, block_users(len(labels.item_ids))

    def rows(block: Ints, scores: Callable[[], npt.NDArray[np.float32]]) -> pa.RecordBatch:
        return _rank_block(model, scores(), labels, ranking, block)

    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[pa.RecordBatch]] = deque()
        for start in range(0, n_users, step):
            block = np.arange(start, min(start + step, n_users))
            ahead.append(pool.submit(rows, block, begun(scorer, block)))
            if (
                len(ahead) > threads
            ):  # no more than one block waits for a thread: memory stays bounded if writing is slow
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def write_fused(
    ranked: Ranked, labels: LabelLists, run: Run, threads: int, advance: Callable[[int], None]
) -> list[WrittenFile]:
    """Rank the model and put its rows in place of its older ones of this run; the files written. `advance` is called
    with the number of users done."""
    where = {"run_id": run.run_id, "model": ranked.model}

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in rank_fused(ranked.model, ranked.scorer, labels, run.ranking(labels), threads):
            yield batch
            advance(batch.num_rows)

    def write(attempt: str) -> list[WrittenFile]:
        return write_parts(rows(), Target(run.table, run.run_id, attempt, {ranked.model: ranked.inputs}))

    try:
        remove_leftovers(run.table, run.run_id)
        before = active_files(DeltaTable(delta_uri(run.table)), where)
        return replace_files(run.table, RANKS, where, write, expected=before)
    except OSError as error:
        raise LakeError(
            f"{run.table} cannot be written: {error}. Give a `lake` that is writable and has room."
        ) from None


def _rank_block(
    model: str, scores: npt.NDArray[np.float32], labels: LabelLists, ranking: Ranking, block: Ints
) -> pa.RecordBatch:
    """The rows of these users."""
    users, n_items = labels.users(model, int(block[0]), int(block[-1]) + 1), ranking.n_items
    if scores.shape != (len(block), n_items):
        raise TrainingError(
            f"model {model}: scores of shape {scores.shape} for {len(block)} users and {n_items} items."
        )
    found = found_in(users, scores, {}, labels.item_ids, ranking)
    for row, problem in sorted(found.problems.items()):
        raise DivergedError(
            f"model {model}: user_id={users.user_id[row].as_py()} cannot be ranked: {problem}. "
            "Train with a lower learning_rate."
        )
    return ranks_batch(users, found, labels.item_ids, ranking)
