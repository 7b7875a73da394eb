"""Bounds over ties are attained: the least and the largest value over all ways to order tied items, which brute force
tries one by one; and no value beyond.
"""

from itertools import pairwise, permutations

import numpy as np
import pytest

from eval_engine.estimators.registry import formula
from eval_engine.estimators.user_batch import LabelSet, UserBatch
from eval_engine.kernels.gain import broken
from eval_engine.kernels.rank_facts import RankFacts, rank_facts

COMPLETE = (
    ("full_macro", "recall", 2), ("full_mean", "precision", 2), ("full_mean", "dcg", 3), ("full_macro", "ndcg", 3),
    ("full_macro", "map", 3), ("full_macro", "mrr", 4), ("full_mean", "hit_rate", 2), ("full_macro", "r_precision", 0),
    ("full_macro", "auc", 0), ("full_mean", "rbp", 3), ("full_micro", "recall", 2),
)  # fmt: skip
SAMPLE = (
    ("ure_macro", "recall", 2), ("ure_mean", "precision", 2), ("ure_mean", "dcg", 3), ("ure_mean", "ndcg", 3),
    ("ure_macro", "map", 4), ("ure_mean", "hit_rate", 1), ("ure_macro", "auc", 0), ("ure_mean", "rbp", 3),
    ("ure_micro", "recall", 2), ("traditional", "recall", 1), ("open_loop", "ndcg", 3),
)  # fmt: skip


def value(facts, name, metric, k, ties="expected", after=None):
    """A user's numerator; after: with ties broken one way."""
    batch, own = UserBatch({which: LabelSet(facts) for which in ("random", "truth", "heldout")}), formula(name, metric)
    view = own.estimator.view(batch)
    view = view if after is None else view.broken(after)
    terms = own.of(batch, view, slice(None), k, ties, **({"p": 0.8} if metric == "rbp" else {}))
    return terms.numerator[0] if terms.denominator[0] > 0 else 0.0


def over_orders(scores, items, values, probability, what):
    """The user's values over all orders that the scores allow."""
    n, found = len(scores), []
    for order in permutations(range(n)):
        if all(scores[a] >= scores[b] for a, b in pairwise(order)):
            strict = np.empty(n)
            strict[list(order)] = -np.arange(n)
            facts = rank_facts(strict[None], [items], [values])._replace(probability=probability)
            found.append(value(facts, *what))
    return min(found), max(found)


@pytest.mark.parametrize("what", [*COMPLETE, *SAMPLE], ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_attained(what, seed):
    rng = np.random.default_rng(seed)
    n = 5
    scores = rng.integers(0, 2 + seed % 2, n) / 1.0
    items = np.arange(n) if what in COMPLETE else np.sort(rng.permutation(n)[:3])
    values = np.zeros(items.size)
    values[rng.permutation(items.size)[: rng.integers(1, items.size + 1)]] = 1
    weighted = what in SAMPLE and what[0].startswith("ure") and seed % 2 == 0
    probability = rng.uniform(0.2, 1.0, items.size) if weighted else None
    facts = rank_facts(scores[None], [items], [values])._replace(probability=probability)
    least, largest = over_orders(scores, items, values, probability, what)
    assert value(facts, *what, "strict", True) == pytest.approx(least, abs=1e-12)
    assert value(facts, *what, "optimistic", False) == pytest.approx(largest, abs=1e-12)


def test_precision_of_a_constant_scorer_is_the_same_in_any_order():
    """All 20 candidates are positives: 5 of the top 5, and not 0 or 20."""
    facts = rank_facts(np.zeros((1, 20)), [np.arange(20)], [np.ones(20)])
    for after in (True, False):
        assert value(facts, "full_mean", "precision", 5, after=after) == 1.0
        assert value(facts, "full_macro", "ndcg", 5, after=after) == pytest.approx(1.0, abs=1e-12)


def test_unknown_places_stay_unknown():
    above, tied = np.array([1, 3, 3]), np.array([1, -1, -1])
    assert broken((np.array([0, 3]), above, tied), None, True).tolist() == [2, 3, 3]
    facts = RankFacts(
        np.array([0, 3]),
        np.ones(3),
        np.zeros(3),
        above.astype(np.int32),
        tied.astype(np.int32),
        np.array([9], np.int32),
    )
    assert np.isnan(value(facts, "ure_mean", "precision", 5, after=False))


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_users_with_many_positives_are_sorted_alike(weighted, after):
    """200 positives of one user, in groups; and the same in rows so short that they are compared."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(20), 10)[rng.permutation(200)]
    above, tied = group * 30, np.full(200, 29)
    weight = rng.permutation(200) + 1.0 if weighted else None
    together = broken((np.array([0, 200]), above, tied), weight, after)
    order = np.argsort(group, kind="stable")
    own = None if weight is None else weight[order]
    apart = broken((np.arange(0, 201, 10), above[order], tied[order]), own, after)
    assert together[order].tolist() == apart.tolist()
    assert sorted(together) == [30 * g + (20 if after else 0) + n for g in range(20) for n in range(10)]
