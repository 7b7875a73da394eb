"""Agreement of two ways to value models, against loops over the formulas."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_engine.statistics.agreement import agreement

VALUES = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=9)


def brute_force(x: list[float], y: list[float]) -> tuple[float, float, int]:
    n = len(x)
    mx, my = sum(x) / n, sum(y) / n
    pearson = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / math.sqrt(
        sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y)
    )
    same = opposite = tied_x = tied_y = 0
    for i, j in combinations(range(n), 2):
        dx, dy = x[i] - x[j], y[i] - y[j]
        same, opposite = same + (dx * dy > 0), opposite + (dx * dy < 0)
        tied_x, tied_y = tied_x + (dx == 0), tied_y + (dy == 0)
    pairs = n * (n - 1) / 2
    return pearson, (same - opposite) / math.sqrt((pairs - tied_x) * (pairs - tied_y)), opposite


@given(VALUES)
def test_matches_brute_force(pairs):
    x, y = np.array(pairs, float).T
    found = agreement(x, y)
    assert found.n_models == len(pairs)
    if (x == x[0]).all() or (y == y[0]).all():
        assert math.isnan(found.pearson)
        assert math.isnan(found.kendall)
        assert found.reason == "all models have the same value in one of the two"
        return
    pearson, kendall, flipped = brute_force(x.tolist(), y.tolist())
    assert (found.pearson, found.kendall, found.n_flipped) == (
        pytest.approx(pearson, abs=1e-12),
        pytest.approx(kendall, abs=1e-12),
        flipped,
    )
    assert found.reason is None


@pytest.mark.parametrize(("n", "words"), [(0, "0 models have"), (1, "1 model has"), (2, "2 models have")])
def test_too_few_models_say_so(n, words):
    found = agreement(np.arange(n) * 1.0, np.arange(n) * -1.0)
    assert math.isnan(found.pearson)
    assert math.isnan(found.kendall)
    assert found.reason == f"{words} both values, but a correlation says something of 3 or more"
    assert found.n_flipped == n * (n - 1) // 2


def test_models_without_a_value_are_left_out():
    x, y = np.array([1, np.nan, 2, 3, 4.0]), np.array([1, 2, 3, np.nan, 4.0])
    assert agreement(x, y) == agreement(np.array([1, 2, 4.0]), np.array([1, 3, 4.0]))
    assert agreement(x, y).n_models == 3
