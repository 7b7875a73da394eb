"""The propensity of each held-out pair, by each method, where the pair is."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval_engine.errors import DataError
from eval_engine.evaluation.pair_propensities import pair_propensities
from eval_engine.evaluation.spec import PropensityRule
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.storage.keyed_table import KeyedTable

USERS, ITEMS = pa.array([7, 8, 9]), pa.array([1, 2, 1, 3])  # user 8 has no pair
ROWS = pa.record_batch({"user_id": USERS})
VALUE = np.array([5.0, 1.0, 5.0, 1.0])


def facts(probability: np.ndarray | None = None) -> RankFacts:
    nothing = np.zeros(4, np.int32)
    return RankFacts(
        np.array([0, 2, 2, 4]), VALUE, nothing.astype(float), nothing, nothing, np.full(3, 9, np.int32), probability
    )


def keyed(folder: Path, name: str, ids: list[int], column: str, values: list[float]) -> KeyedTable:
    path = str(folder / f"{name}.parquet")
    pq.write_table(pa.table({"key": xxhash64(pa.array(ids)), column: values}), path)
    return KeyedTable(name, (path,), (column,))


def test_of_items(tmp_path: Path) -> None:
    rule = PropensityRule("power", 1.0, 0.01, keyed(tmp_path, "p", [3, 1, 2], "propensity", [0.3, 0.1, 0.2]))
    found = pair_propensities(ROWS, rule, facts(), ITEMS)
    assert found.of["heldout"].tolist() == [0.1, 0.2, 0.1, 0.3]
    assert (found.largest, found.floor) == (1.0, 0.01)


def test_of_logits_of_items_and_users(tmp_path: Path) -> None:
    items = keyed(tmp_path, "items", [1, 2, 3], "logit", [-1.0, 0.0, 1.0])
    users = keyed(tmp_path, "users", [9, 7, 8], "logit", [0.5, -0.5, 0.0])
    found = pair_propensities(ROWS, PropensityRule("logistic", 0.6, 0.01, items, users), facts(), ITEMS)
    logits = np.array([-1.5, -0.5, -0.5, 1.5])
    np.testing.assert_allclose(found.of["heldout"], 1 / (1 + np.exp(-logits)))
    assert found.largest == 0.6


def test_of_values_and_of_the_pair_itself() -> None:
    rule = PropensityRule("naive_bayes", 0.4, 0.01, by_value=((1.0, 0.4), (5.0, 0.2)))
    assert pair_propensities(ROWS, rule, facts(), None).of["heldout"].tolist() == [0.2, 0.4, 0.2, 0.4]
    p = np.array([0.9, 0.1, 0.5, 1.0])
    assert (
        pair_propensities(ROWS, PropensityRule("logged", 1.0, 0.01), facts(p), None).of["heldout"].tolist()
        == p.tolist()
    )


def test_a_pair_without_propensity_is_named(tmp_path: Path) -> None:
    rule = PropensityRule("power", 1.0, 0.01, keyed(tmp_path, "p", [1, 2], "propensity", [0.1, 0.2]))
    with pytest.raises(DataError, match=r"user_id=9, item_id=3 has no propensity above 0 by method power\. Run jobs"):
        pair_propensities(ROWS, rule, facts(), ITEMS)
    for probability in (None, np.array([0.5, 0.0, 0.5, 0.5]), np.array([0.5, np.nan, 0.5, 0.5])):
        with pytest.raises(DataError, match=r"user_id=7 has no propensity above 0 by method logged"):
            pair_propensities(ROWS, PropensityRule("logged", 1.0, 0.01), facts(probability), None)
