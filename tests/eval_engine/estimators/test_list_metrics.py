"""Metrics of first positives, of as many places as positives, of places weighted by powers, and of all lists, against loops from their definitions."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.coverage import coverage
from eval_engine.estimators.metrics.gini import gini
from eval_engine.estimators.metrics.mrr import reciprocal_rank
from eval_engine.estimators.metrics.r_precision import r_precision
from eval_engine.estimators.registry import METRICS
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts, rank_facts

rbp = METRICS["rbp"].means["mean"].terms

SCORES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf])
LISTS = st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=6)


def all_labelled(row, positive):
    facts = rank_facts(np.array([row], np.float64), [range(len(row))])
    return Labelled(facts, np.array(positive, bool), all_labelled=True)


def by_order(row, value):
    """A value of every order that the scores allow."""
    orders = [order for order in permutations(range(len(row))) if all(row[a] >= row[b] for a, b in pairwise(order))]
    return [value(order) for order in orders]


def check(labelled, metric, values, has_value):
    """The mean over all orders; bounds that hold every order."""
    found = {ties: metric(ties) for ties in ("strict", "expected", "optimistic")}
    assert found["expected"].denominator[0] == has_value
    if has_value:
        assert found["expected"].numerator[0] == pytest.approx(np.mean(values), abs=1e-12)
        assert found["strict"].numerator[0] <= min(values) + 1e-12
        assert found["optimistic"].numerator[0] >= max(values) - 1e-12


@given(LISTS, st.integers(1, 7))
@settings(max_examples=80, deadline=None)
def test_reciprocal_rank_matches_all_tie_breaks(items, k):
    row, positive = zip(*items, strict=True)
    values = by_order(row, lambda o: next((1 / r for r, i in enumerate(o[:k], 1) if positive[i]), 0.0))
    labelled = all_labelled(row, positive)
    check(labelled, lambda ties: reciprocal_rank(labelled, k, ties), values, any(positive))


@given(LISTS)
@settings(max_examples=80, deadline=None)
def test_r_precision_matches_all_tie_breaks(items):
    row, positive = zip(*items, strict=True)
    n = sum(positive)
    values = by_order(row, lambda o: sum(positive[i] for i in o[:n]) / max(n, 1))
    labelled = all_labelled(row, positive)
    check(labelled, lambda ties: r_precision(labelled, 0, ties), values, n > 0)


@given(LISTS, st.integers(1, 7), st.sampled_from([0.1, 0.5, 0.95]))
@settings(max_examples=80, deadline=None)
def test_rbp_matches_all_tie_breaks(items, k, p):
    row, positive = zip(*items, strict=True)
    values = by_order(row, lambda o: (1 - p) * sum(p ** (r - 1) for r, i in enumerate(o[:k], 1) if positive[i]))
    labelled = all_labelled(row, positive)
    check(labelled, lambda ties: rbp(labelled, k, ties, p=p), values, True)


def test_unknown_places():
    """A positive at rank 2 and one beyond the end of a partial list; one beyond the end only."""
    above, tied = np.array([1, 3, 3], np.int32), np.array([0, UNKNOWN, UNKNOWN], np.int32)
    facts = RankFacts(np.array([0, 2, 3]), np.ones(3), np.full(3, np.nan), above, tied, np.full(2, 6, np.int32))
    labelled = Labelled(facts, all_labelled=True)
    np.testing.assert_array_equal(reciprocal_rank(labelled, 6, "expected").numerator, [0.5, np.nan])
    np.testing.assert_array_equal(reciprocal_rank(labelled, 3, "expected").numerator, [0.5, 0])
    np.testing.assert_array_equal(r_precision(labelled, 0, "expected").numerator, [0.5, 0])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_gini_and_coverage_of_counts(counts):
    values = np.array(counts)
    times, items = np.unique(values[values > 0], return_counts=True)
    assert coverage(times, items, values.size) == (values > 0).mean()
    found = gini(times, items, values.size)
    if not values.any():
        assert math.isnan(found)
    else:
        differences = np.abs(values[:, None] - values).sum()
        assert found == pytest.approx(differences / (2 * values.size * values.sum()), abs=1e-12)
