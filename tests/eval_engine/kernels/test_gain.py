"""Gains under ties against the literal mean, least and most over all orders of a small list."""

from itertools import pairwise, permutations
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.kernels.gain import GAINS, TIES, gain_table, gained, gained_after
from eval_engine.kernels.rank_facts import UNKNOWN, rank_facts

SCORES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf])  # few values: many ties
USERS = st.lists(st.lists(SCORES, min_size=1, max_size=5), max_size=3)
OVER_ORDERS = {"expected": np.mean, "strict": np.min, "optimistic": np.max}
GAIN_AT = {"hits": lambda rank: 1.0, "discount": lambda rank: 1 / log2(rank + 1), "inverse": lambda rank: 1 / rank}


def orders(row):
    """The rank of each item, from 1, in every order that sorts the scores: (n_orders, n_items)."""
    sorting = [order for order in permutations(range(len(row))) if all(row[a] >= row[b] for a, b in pairwise(order))]
    return np.array([[order.index(i) + 1 for i in range(len(row))] for order in sorting])


def places(above, tied, offsets=None):
    """Places of positives; of one user each, if not said otherwise."""
    ends = np.arange(len(above) + 1) if offsets is None else offsets
    return np.array(ends, np.int64), np.array(above, np.int32), np.array(tied, np.int32)


def places_of(rows):
    """Places of all items of users with these scores, all of them positives."""
    found = [rank_facts(np.array([row], np.float64), [range(len(row))]) for row in rows]
    above, tied = ([x for one in found for x in getattr(one, name)] for name in ("above", "tied"))
    return places(above, tied, np.cumsum([0, *map(len, rows)]))


def gained_at(gain, places, k, ties, weight=None):
    return gained(gain, places, (k,), ties, weight)[0]


def after_at(places, k, ties, level):
    return gained_after(places, (k,), ties, level)[0]


@pytest.mark.parametrize("gain", GAINS)
@given(row=st.lists(SCORES, min_size=1, max_size=6), k=st.integers(1, 8))
@settings(max_examples=60, deadline=None)  # the first call compiles
def test_of_one_positive_matches_all_tie_breaks(gain, row, k):
    ranks = orders(row)
    at = np.vectorize(lambda rank: GAIN_AT[gain](rank) if rank <= k else 0.0)(ranks)
    _, above, tied = places_of([row])
    for ties, over in OVER_ORDERS.items():
        np.testing.assert_allclose(gained_at(gain, places(above, tied), k, ties), over(at, axis=0), atol=1e-12)


@pytest.mark.parametrize("gain", GAINS)
@given(rows=USERS, k=st.integers(1, 8), ties=st.sampled_from(list(TIES)))
@settings(max_examples=60, deadline=None)
def test_of_a_user_is_the_weighted_sum(gain, rows, k, ties):
    offsets, above, tied = places_of(rows)
    weight = np.random.default_rng(len(above)).random(above.size) + 0.1
    each = gained_at(gain, places(above, tied), k, ties)
    sums = [(each[a:b].sum(), (weight * each)[a:b].sum()) for a, b in pairwise(offsets)]
    found = gained_at(gain, (offsets, above, tied), k, ties), gained_at(gain, (offsets, above, tied), k, ties, weight)
    np.testing.assert_allclose(np.array(found).T.reshape(-1, 2), np.array(sums).reshape(-1, 2), atol=1e-12)


@given(row=st.lists(SCORES, min_size=1, max_size=5), k=st.integers(1, 7), weighted=st.booleans())
@settings(max_examples=60, deadline=None)
def test_after_another_matches_all_tie_breaks(row, k, weighted):
    """Every item is a positive: the sum over pairs (i, j) that are level of w_i w_j / rank_i where j comes before i."""
    n = len(row)
    weight = np.random.default_rng(n).random(n) + 0.1 if weighted else np.ones(n)
    ranks = orders(row)
    level = [(i, j) for i in range(n) for j in range(n) if i != j and row[i] == row[j]]
    by_order = [sum(weight[i] * weight[j] / r[i] for i, j in level if r[j] < r[i] <= k) for r in ranks]
    beside = np.array([sum(weight[j] for j in range(n) if (i, j) in level) for i in range(n)])
    found = {ties: after_at(places_of([row]), k, ties, weight * beside)[0] for ties in TIES}
    assert found["expected"] == pytest.approx(np.mean(by_order), abs=1e-12)
    assert found["strict"] <= min(by_order) + 1e-12
    assert found["optimistic"] >= max(by_order) - 1e-12


def test_bounds_of_two_that_are_level_are_reached():
    """above = 3: the later of two positives has rank 5; of two among three, rank 5 or 6."""
    for tied, best, worst in [(1, 1 / 5, 1 / 5), (2, 1 / 5, 1 / 6)]:
        pair = places([3, 3], [tied, tied], [0, 2])
        assert after_at(pair, 9, "optimistic", np.ones(2))[0] == pytest.approx(best)
        assert after_at(pair, 9, "strict", np.ones(2))[0] == pytest.approx(worst)
        assert after_at(pair, 4, "optimistic", np.ones(2))[0] == 0
        assert after_at(pair, 3 + tied, "strict", np.ones(2))[0] == 0


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("k", [4, 5, 2**40])
def test_everything_is_in_the_top_of_a_long_enough_list(ties, k):
    facts = rank_facts(np.array([[1, 1, 1, 0, 7]], np.float32), [[0, 1, 2, 3]], excluded=[[4]])
    assert gained_at("hits", places(facts.above, facts.tied), k, ties).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("n_items", [50, 5000])  # more places than the shortest table of gains has
def test_a_constant_scorer(n_items):
    tied = places([0], [n_items - 1])
    for share in (0.2, 0.5, 1.0):
        k = int(share * n_items)
        assert gained_at("hits", tied, k, "expected").tolist() == [share]
        assert gained_at("hits", tied, k, "strict").tolist() == [share == 1]
        assert gained_at("hits", tied, k, "optimistic").tolist() == [1]
        assert gained_at("discount", tied, k, "expected")[0] == pytest.approx(
            sum(1 / log2(r + 1) for r in range(1, k + 1)) / n_items
        )
    assert gained_at("inverse", tied, n_items, "strict")[0] == pytest.approx(1 / n_items)


def test_a_place_that_is_not_known_is_out_of_the_top_or_unknown():
    partial = places([7, 2], [UNKNOWN, 0])
    for ties in TIES:
        for gain in GAINS:
            at_3 = gain_table(gain, 3)[0][3]
            assert gained_at(gain, partial, 7, ties).tolist() == [0.0, at_3]  # seven are known to be above it or level
            assert np.isnan(gained_at(gain, partial, 8, ties)).tolist() == [True, False]
        together = places([7, 2], [UNKNOWN, 0], [0, 2])
        assert gained_at("hits", together, 7, ties).tolist() == [1.0]
        assert np.isnan(gained_at("hits", together, 8, ties)).tolist() == [True]
        both = places([7, 7, 2], [UNKNOWN, UNKNOWN, 0], [0, 3])
        assert after_at(both, 7, ties, np.array([1.0, 1.0, 0.0])).tolist() == [0.0]
        assert np.isnan(after_at(both, 8, ties, np.array([1.0, 1.0, 0.0]))).tolist() == [True]


def test_users_without_a_positive_and_no_users():
    assert gained_at("discount", places([0], [0], [0, 0, 1, 1]), 3, "expected").tolist() == [0, 1, 0]
    assert gained_at("hits", places([], [], [0, 0]), 3, "expected").tolist() == [0]
    assert gained_at("hits", places([], []), 3, "expected").shape == (0,)
    assert after_at(places([], []), 3, "expected", np.zeros(0)).shape == (0,)


def test_unknown_policy_and_cutoff():
    one = places([0], [1])
    for found in (lambda k, ties: gained_at("hits", one, k, ties), lambda k, ties: after_at(one, k, ties, np.ones(1))):
        with pytest.raises(ValueError, match="expected, strict, optimistic"):
            found(1, "random")
        with pytest.raises(ValueError, match="k must be at least 1"):
            found(0, "strict")


@pytest.mark.parametrize("ties", TIES)
def test_many_cutoffs_at_once_are_each_alone(ties):
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 6, 200))])
    above, tied = rng.integers(0, 3000, offsets[-1]), rng.choice([0, 0, 0, 1, 40], offsets[-1])
    level = np.where(tied > 0, rng.random(offsets[-1]), 0.0)
    cutoffs = (2000, 1, 5, 5, 100, 2**40)
    for gain in GAINS:
        together = gained(gain, (offsets, above, tied), cutoffs, ties, level)
        assert (together == [gained_at(gain, (offsets, above, tied), k, ties, level) for k in cutoffs]).all()
    assert (
        gained_after((offsets, above, tied), cutoffs, ties, level)
        == [after_at((offsets, above, tied), k, ties, level) for k in cutoffs]
    ).all()
