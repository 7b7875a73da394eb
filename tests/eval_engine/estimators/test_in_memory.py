"""The calls for arrays in memory: estimate, interval and users, and no Spark on the way."""

import os
import subprocess
import sys
from inspect import signature
from math import log2
from pathlib import Path

import numpy as np
import pytest

import eval_engine
from eval_engine import (
    full_auc,
    full_dcg,
    full_map,
    full_ndcg,
    full_ndcg_mean,
    full_precision,
    full_recall,
    full_recall_micro,
    rank_facts,
    traditional_recall,
    ure_auc,
    ure_dcg,
    ure_map,
    ure_ndcg,
    ure_precision,
    ure_recall,
    ure_recall_micro,
)
from eval_engine.errors import DataError

SCORES = np.array([[4, 3, 2, 1], [1, 2, 3, 4], [1, 1, 1, 1]], np.float32)
ALL = [
    (name, getattr(eval_engine, name))
    for name in eval_engine.__all__
    if name.startswith(("ure_", "full_", "traditional_", "holdout_"))
]


@pytest.mark.parametrize(("name", "of"), ALL)
def test_ratings_need_a_rule_of_what_is_positive(name, of):
    cutoff = {"k": 2} if "k" in signature(of).parameters else {}
    items, stars = [[0, 3], [0, 1], [2]], [[5, 1], [1, 5], [1]]
    ratings = rank_facts(SCORES, items, stars)
    with pytest.raises(DataError, match=r"values: user 0 has the value 5\..*give positive=, such as"):
        of(ratings, **cutoff)
    for kind in (bool, int, float):
        one = rank_facts(SCORES, items, [[kind(value > 3) for value in mine] for mine in stars])
        assert of(one, **cutoff) == of(ratings, **cutoff, positive=ratings.value > 3)
    assert of(ratings, **cutoff, positive=[True, False, False, True, False]) == of(one, **cutoff)


@pytest.mark.parametrize("value", [-1, 0.5, 2])
def test_a_value_between_or_beyond_0_and_1_is_no_label(value):
    facts = rank_facts(SCORES, items=[[0, 3], [0, 1], [2]], values=[[1, 0], [1, 1], [value]])
    with pytest.raises(DataError, match=f"user 2 has the value {value:g}"):
        ure_recall(facts, 2)


def test_values():
    facts = rank_facts(SCORES, items=[[0, 3], [0, 1], [2]], values=[[5, 5], [5, 1], [1]])
    positive = facts.value > 3
    assert ure_recall(facts, 1, positive).value == pytest.approx((0.5 + 0) / 2)
    assert ure_recall_micro(facts, 1, positive).value == pytest.approx((2 * 1 + 2 * 0) / (2 * 2 + 2 * 1))
    assert full_recall(facts, 1, positive).value == pytest.approx(0.25)
    assert full_recall_micro(facts, 1, positive).value == pytest.approx(1 / 3)
    assert traditional_recall(facts, 1, positive).value == pytest.approx((0.5 + 0) / 2)
    assert traditional_recall(facts, 2, positive).value == 1
    assert ure_recall(facts, 1, positive)[4:] == (2, 1, 0)


def test_values_of_the_other_metrics():
    """The same users: positives at ranks 1 and 4, and 4; 2 of 4 candidates labelled (w = 2), of the third user 1 (w = 4)."""
    facts = rank_facts(SCORES, items=[[0, 3], [0, 1], [2]], values=[[5, 5], [5, 1], [1]])
    positive = facts.value > 3
    at_4, ideal_2 = 1 / log2(5), 1 + 1 / log2(3)
    ideal_4 = ideal_2 + 1 / log2(4) + at_4
    assert ure_precision(facts, 4, positive).value == pytest.approx((2 * 2 / 4 + 2 * 1 / 4 + 0) / 3)
    assert full_precision(facts, 4, positive).value == pytest.approx((2 / 4 + 1 / 4 + 0) / 3)
    assert ure_dcg(facts, 4, positive).value == pytest.approx((2 * (1 + at_4) + 2 * at_4 + 0) / 3)
    assert full_dcg(facts, 4, positive).value == pytest.approx((1 + at_4 + at_4 + 0) / 3)
    assert ure_ndcg(facts, 4, positive).value == pytest.approx((2 * (1 + at_4) / ideal_4 + 2 * at_4 / ideal_2 + 0) / 3)
    assert full_ndcg(facts, 4, positive).value == pytest.approx(((1 + at_4) / ideal_2 + at_4) / 2)
    assert full_ndcg_mean(facts, 4, positive).value == pytest.approx(((1 + at_4) / ideal_2 + at_4 + 0) / 3)
    assert ure_auc(facts, positive).value == 0  # the second user's only
    assert full_auc(facts, positive).value == pytest.approx((2 / 4 + 0 / 3) / 2)  # what is not labelled is a negative
    assert ure_map(facts, 4, positive).value == pytest.approx(((2 * (1 + 1 / 4) + 6 * 1 / 4) / 4 + (2 / 4) / 2) / 2)
    assert full_map(facts, 4, positive).value == pytest.approx(((1 + 2 / 4) / 2 + 1 / 4) / 2)
    assert ure_precision(facts, 4, positive)[4:] == full_dcg(facts, 4, positive)[4:] == (3, 0, 0)
    assert ure_auc(facts, positive)[4:] == (1, 2, 0)
    assert full_auc(facts, positive)[4:] == full_map(facts, 4, positive)[4:] == (2, 1, 0)


def test_every_value_above_zero_is_positive_by_default():
    facts = rank_facts(SCORES, items=[[0, 3], [0, 1], [2]])
    assert ure_recall(facts, 2).value == pytest.approx((0.5 + 0 + 0.5) / 3)
    assert ure_recall(facts, 2, ties="strict").value == pytest.approx(0.5 / 3)


@pytest.mark.parametrize(("name", "call"), ALL)
def test_intervals_are_wider_with_more_confidence_and_words_say_what_it_is(name, call):
    rng = np.random.default_rng(0)
    facts = rank_facts(rng.normal(size=(60, 20)), np.tile(np.arange(12), (60, 1)), rng.random((60, 12)) < 0.4)
    k = (1 if name == "ure_hit_rate" else 5,) if "k" in signature(call).parameters else ()
    half, most = call(facts, *k, confidence=0.5), call(facts, *k, confidence=0.99)
    assert most.low < half.low < half.value == most.value < half.high < most.high
    assert ("k" in signature(call).parameters) == (not name.endswith(("auc", "r_precision")))
    assert name.split("_")[1] in call.__doc__


def test_importing_it_starts_no_spark():
    environment = os.environ | {"PYTHONPATH": str(Path(eval_engine.__file__).parents[1])}
    program = "import sys, eval_engine; eval_engine.ure_recall; print([m for m in ('pyspark', 'torch', 'pandas', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
