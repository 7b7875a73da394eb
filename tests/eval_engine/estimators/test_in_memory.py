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
from eval_engine.estimators.in_memory import names

SCORES = np.array([[4, 3, 2, 1], [1, 2, 3, 4], [1, 1, 1, 1]], np.float32)
ALL = [
    (name, getattr(eval_engine, name))
    for name in eval_engine.__all__
    if name.startswith(("ure_", "designed_", "full_", "traditional_", "holdout_"))
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
    assert np.isnan(traditional_recall(facts, 2, positive).value)  # of 2 exposures it is 1 for any model
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


def test_names_are_those_of_the_registry():
    weighted = {name for name in eval_engine.__all__ if name.startswith(("snips_", "clipped_", "ips_"))}
    assert set(names()) == {name for name, _ in ALL} | weighted
    assert names()["snips_recall_user"] == ("snips_user", "recall")
    assert set(eval_engine.__all__) <= set(dir(eval_engine))
    assert names()["ure_recall"] == ("ure_macro", "recall")
    assert names()["ure_recall_balanced"] == ("ure_balanced", "recall")


def drawn(seed=0, n_users=200, shift=0.0):
    rng = np.random.default_rng(seed)
    positive = rng.random((n_users, 40)) < 0.2
    scores = np.random.default_rng(7).normal(size=(n_users, 40)) + shift * positive
    shown = np.argsort(rng.random((n_users, 40)), axis=1)[:, :12]
    return rank_facts(scores, shown, np.take_along_axis(positive, shown, axis=1)), shown


def test_weights_of_pairs():
    """Users with positives at ranks 1 and 4, and 4, propensities 0.5 and 0.25, and 1."""
    facts = rank_facts(SCORES, items=[[0, 3], [0, 1], [2]], values=[[1, 1], [1, 0], [0]])
    p = [0.5, 0.25, 1.0, 0.5, 0.5]
    assert eval_engine.snips_recall(facts, 1, propensity=p).value == pytest.approx(2 / 7)
    assert eval_engine.snips_recall_user(facts, 1, propensity=p).value == pytest.approx((2 / 6 + 0) / 2)
    assert eval_engine.clipped_recall(facts, 1, propensity=p, floor=0.5).value == pytest.approx(2 / 5)
    ips = eval_engine.ips_recall(facts, 1, propensity=p)
    assert ips.value == pytest.approx((2 / 2 + 0) / 2)
    assert np.isnan([ips.standard_error, ips.low, ips.high]).all()
    one = eval_engine.stratified(facts, "recall", 1, stratum=np.zeros(5))
    assert one.value == eval_engine.holdout_recall(facts, 1).value
    two = eval_engine.stratified(facts, "recall", 1, stratum=[0, 1, 1, 1, 1])
    assert two.value == pytest.approx(1 / 5 * 1 + 4 / 5 * 0)
    balanced = eval_engine.stratified(facts, "recall", 1, stratum=[0, 1, 1, 1, 1], propensity=p)
    assert balanced.value == pytest.approx(2 / 11)
    for bad in ([0.5] * 4, [0.5, 0.0, 1, 1, 1], [0.5, np.nan, 1, 1, 1], [0.5, 1.5, 1, 1, 1], None):
        with pytest.raises(ValueError, match="propensity"):
            eval_engine.snips_recall(facts, 1, propensity=bad)


def test_the_names_of_the_tables_give_the_same():
    facts, _ = drawn()
    assert eval_engine.evaluate(facts, "ure_macro", "recall@5") == ure_recall(facts, 5)
    assert eval_engine.evaluate(facts, "ure_mean", "rbp(p=0.5)@5") == eval_engine.ure_rbp(facts, 5, p=0.5)
    with pytest.raises(DataError, match="there is no estimator ure_macro of dcg"):
        eval_engine.evaluate(facts, "ure_macro", "dcg@5")


def test_values_of_users_are_the_estimate():
    facts, _ = drawn()
    found = ure_recall(facts, 5)
    assert np.nanmean(found.per_user) == pytest.approx(found.value)
    assert np.isnan(found.per_user).sum() == found.n_left_out
    pooled = ure_recall_micro(facts, 5).terms
    assert pooled.numerator.sum() / pooled.denominator.sum() == pytest.approx(ure_recall_micro(facts, 5).value)


def test_balanced_is_near_the_truth_and_macro_is_not_it():
    facts, _ = drawn(n_users=2000)
    balanced = eval_engine.ure_recall_balanced(facts, 5)
    assert balanced.low < balanced.value < balanced.high
    assert balanced.n_users == ure_recall(facts, 5).n_users
    assert balanced.value != ure_recall(facts, 5).value


def test_slices():
    facts, shown = drawn()
    whole = ure_precision(facts, 5, slice=shown.ravel() % 3)
    assert set(whole.slices) == {0, 1, 2}
    assert sum(part.value for part in whole.slices.values()) == pytest.approx(whole.value)
    for code, part in whole.slices.items():
        inside = (facts.value > 0) & (shown.ravel() % 3 == code)
        assert part == ure_precision(facts, 5, inside)
    group = np.arange(facts.n_users) % 2
    halves = ure_recall(facts, 5, user_slice=group)
    for code, part in halves.slices.items():
        assert part.value == pytest.approx(np.nanmean(halves.per_user[group == code]))
    assert part.n_users + halves.slices[0].n_users == halves.n_users
    with pytest.raises(ValueError, match="a code for each of the 2400 pairs"):
        ure_recall(facts, 5, slice=[1, 2])
    with pytest.raises(ValueError, match="a code for each of the 200 users"):
        ure_recall(facts, 5, user_slice=[1, 2])


def test_compare_is_paired():
    (a, _), (b, _) = drawn(shift=0.6), drawn(shift=0.3)
    found = eval_engine.compare(a, b, "ure_macro", "recall@5")
    each = ure_recall(a, 5).per_user - ure_recall(b, 5).per_user
    each = each[~np.isnan(each)]
    assert found.difference == pytest.approx(each.mean())
    assert found.standard_error == pytest.approx(each.std(ddof=1) / np.sqrt(each.size))
    assert found.low < found.difference < found.high
    assert eval_engine.compare(a, a, "ure_macro", "recall@5").p == 1
    with pytest.raises(ValueError, match="the same labelled pairs"):
        eval_engine.compare(a, drawn(seed=3)[0], "ure_macro", "recall@5")
    with pytest.raises(ValueError, match="ure_balanced has no terms of single users"):
        eval_engine.compare(a, b, "ure_balanced", "recall@5")
