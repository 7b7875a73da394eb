"""Slices of pairs: a rule gives the slices of each pair, several or none, to the estimators that it names."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval_engine.evaluation.results import results_of
from eval_engine.evaluation.spec import LabelledPairs, Slicing
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.storage.keyed_table import KeyedTable
from tests.eval_engine.evaluation.test_statistics_plan import ASKING, N_ITEMS, QUESTION, made, statistics

CATEGORY = np.arange(N_ITEMS) % 3


class ByItem(NamedTuple):
    """By category, and once more every pair, and every pair of users with an odd id."""

    label_set: str = "random"
    needs_items: bool = True

    def codes(self, pairs: LabelledPairs) -> np.ndarray:
        users = np.repeat(pairs.users.to_numpy(), np.diff(pairs.offsets))
        items = pairs.items.to_numpy()
        return np.stack([CATEGORY[items], np.full(items.size, 3), np.where(users % 2 == 1, 4, -1)])


@pytest.fixture(scope="module")
def estimates(tmp_path_factory):
    """Estimates by slice, model, estimator, metric and cutoff."""
    path = tmp_path_factory.mktemp("slices") / "category.parquet"
    keys = xxhash64(pa.array(np.arange(N_ITEMS)))
    pq.write_table(pa.table({"key": keys, "category": CATEGORY.astype(np.int32)}), path)
    spec = replace(
        QUESTION,
        slicings=(
            Slicing("rule", "pair", -1, ("x", "y", "z", "whole", "odd"), ByItem()),
            Slicing("category", "item", 0, ("x", "y", "z")),
            Slicing("own", "pair", -1, ("x", "y", "z", "whole", "odd"), ByItem(), frozenset({"ure_micro"})),
        ),
        item_tables=(KeyedTable("category", (str(path),), ("category",)),),
    )
    batches = made(seed=4, n_users=200)
    parts = [part for batch in batches.values() for part in (batch.slice(0, 70), batch.slice(70))]
    rows, *_ = results_of(statistics(parts, spec), ASKING)
    return {tuple(row[name] for name in ("slice", "model", "estimator", "metric", "k")): row for row in rows}


def test_a_rule_that_repeats_a_column_gives_its_slices(estimates):
    compared = 0
    for (name, *key), row in estimates.items():
        if name.startswith("rule=") and name[-1] in "xyz":
            assert estimates[f"category={name[-1]}", *key] == row | {"slice": f"category={name[-1]}"}
            compared += 1
    assert compared > 100


def test_a_slice_of_every_pair_is_the_whole(estimates):
    compared = 0
    for (name, *key), row in estimates.items():
        if name == "rule=whole" and row["value"] is not None:
            whole = estimates["all", *key]
            assert row["n_users"] == whole["n_users"]
            assert row["value"] == pytest.approx(whole["value"], rel=1e-9)
            compared += 1
    assert compared > 30


def test_pairs_without_a_slice_count_in_none(estimates):
    for model in "abc":
        key = (model, "ure_macro", "recall", 3)
        whole, odd = estimates["all", *key], estimates["rule=odd", *key]
        assert 0 < odd["n_users"] < whole["n_users"]
        assert odd["n_users"] + odd["n_left_out"] == whole["n_users"] + whole["n_left_out"]


def test_a_rule_is_for_its_label_set_and_its_estimators_only(estimates):
    assert {key[2] for key in estimates if key[0].startswith("own=")} == {"ure_micro"}
    of_rule = {key[2] for key in estimates if key[0].startswith("rule=")}
    assert "ure_macro" in of_rule
    assert not any(name.startswith("full_") for name in of_rule)
    assert any(key[2] == "full_macro" for key in estimates if key[0].startswith("category="))
