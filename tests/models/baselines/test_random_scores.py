"""Random scores: keyed by ids, uniform, and independent of each other."""

import numpy as np
import pyarrow as pa

from models.baselines.random_scores import RandomScorer
from models.keyed import id_keys


def test_random_does_not_depend_on_blocks_or_on_other_users() -> None:
    items = id_keys(pa.array(np.arange(200)))
    whole = RandomScorer(3, id_keys(pa.array([5, 7, 9])), items).score_block(np.arange(3))
    alone = RandomScorer(3, id_keys(pa.array([9])), items).score_block(np.array([0]))
    assert whole.dtype == np.float32
    assert whole.shape == (3, 200)
    assert np.array_equal(whole[2:], alone)


def test_random_differs_by_user_item_and_seed() -> None:
    users, items = id_keys(pa.array(np.arange(50))), id_keys(pa.array(np.arange(400)))
    first, second = (RandomScorer(seed, users, items).score_block(np.arange(50)) for seed in (1, 2))
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(first)[np.triu_indices(50, 1)]).max() < 0.25
    assert abs(first.mean() - 0.5) < 0.01
    assert abs(first.mean(axis=0) - 0.5).max() < 0.2
