"""The same row for every user, in no more memory than the block."""

import tracemalloc

import numpy as np

from models.baselines.item_row import ItemRowScorer


def test_every_user_has_the_row() -> None:
    block = ItemRowScorer([3, -1, 0.5]).score_block(np.array([7, 7, 0]))
    assert block.dtype == np.float32
    assert block.tolist() == [[3, -1, 0.5]] * 3
    assert ItemRowScorer([3, -1]).score_block(np.empty(0, np.int64)).shape == (0, 2)


def test_the_caller_may_write_to_a_block() -> None:
    scorer = ItemRowScorer(np.arange(4, dtype=np.float32))
    scorer.score_block(np.array([0]))[:] = -np.inf
    assert scorer.score_block(np.array([0])).tolist() == [[0, 1, 2, 3]]


def test_takes_the_memory_of_the_block_only() -> None:
    scorer = ItemRowScorer(np.arange(10_000))
    tracemalloc.start()
    block = scorer.score_block(np.arange(500))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.05 * block.nbytes
