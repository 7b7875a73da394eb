"""Strata against loops over the definition; few, many and equal propensities."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eval_engine.errors import ConfigError, DataError
from eval_engine.propensity.strata import strata_edges, strata_of

PAIRS = st.dictionaries(st.floats(1e-12, 1.0), st.integers(0, 50), min_size=1, max_size=30)


@given(PAIRS, st.integers(1, 10))
def test_equal_count_is_the_formula(pairs: dict[float, int], n_strata: int) -> None:
    tested = {p: n for p, n in pairs.items() if n}
    assume(len(tested) >= n_strata)
    total = sum(tested.values())
    edges = strata_edges(list(pairs), list(pairs.values()), n_strata, "equal_count")
    assert edges.size == n_strata - 1
    for p in tested:
        below = sum(n for q, n in tested.items() if q < p)
        formula = 1 + int(n_strata * Fraction(2 * below + tested[p], 2 * total))
        assert strata_of([p], edges).tolist() == [formula]


@given(PAIRS, st.integers(1, 10))
def test_equal_width_cuts_the_range_of_test_pairs(pairs: dict[float, int], n_strata: int) -> None:
    tested = sorted(p for p, n in pairs.items() if n)
    assume(len(tested) >= n_strata)
    edges = strata_edges(list(pairs), list(pairs.values()), n_strata, "equal_width")
    low, high = tested[0], tested[-1]
    for p in tested:
        at = [x for x in range(1, n_strata) if p <= edges[x - 1]]
        assert strata_of([p], edges).tolist() == [min(at, default=n_strata)]
    np.testing.assert_allclose(edges, [low + (high - low) * x / n_strata for x in range(1, n_strata)], rtol=1e-9)
    if n_strata > 1:
        assert strata_of([low, high], edges).tolist() == [1, n_strata]


def test_edges_belong_to_the_stratum_below() -> None:
    assert strata_of([0.2, 0.4, 0.41], strata_edges([0.2, 0.6], [9, 1], 2, "equal_width")).tolist() == [1, 1, 2]


def test_one_stratum_holds_everything_and_order_and_copies_do_not_matter() -> None:
    assert strata_of([0.1, 1.0, 7.0], strata_edges([0.5], [3], 1, "equal_count")).tolist() == [1, 1, 1]
    once = strata_edges([0.1, 0.3, 0.5], [4, 2, 4], 3, "equal_count")
    assert once.tolist() == strata_edges([0.5, 0.3, 0.1, 0.3, 0.5], [1, 1, 4, 1, 3], 3, "equal_count").tolist()


def test_a_propensity_of_most_pairs_leaves_strata_empty() -> None:
    edges = strata_edges([0.1, 0.2, 0.3], [1, 98, 1], 3, "equal_count")
    assert strata_of([0.1, 0.2, 0.3], edges).tolist() == [1, 2, 3]
    edges = strata_edges([0.1, 0.2], [9, 1], 2, "equal_count")
    assert strata_of([0.1, 0.2], edges).tolist() == [1, 2]
    edges = strata_edges([0.1, 0.2, 0.3, 0.4], [97, 1, 1, 1], 4, "equal_count")
    assert strata_of([0.1, 0.2, 0.3, 0.4], edges).tolist() == [2, 4, 4, 4]


@pytest.mark.parametrize(
    ("p", "n", "n_strata", "error", "message"),
    [
        (
            [0.1, 0.2],
            [1, 1],
            3,
            DataError,
            "3 strata of test pairs with 2 different propensities.* at most 2 strata, or none: evaluate",
        ),
        ([0.1, 0.2], [1, 0], 2, DataError, "2 strata of test pairs with 1 different"),
        ([0.1], [0], 1, DataError, "there are no test pairs"),
        ([0.1, 0.0], [1, 1], 1, DataError, r"1 of 2 propensities are missing or not above 0 \(first: 0.0\)"),
        ([0.1, np.nan], [1, 1], 1, DataError, r"first: nan"),
        ([0.1], [1], 0, ConfigError, "0 strata, but 1 to 10"),
        ([0.1], [1], 11, ConfigError, "11 strata, but 1 to 10"),
    ],
)
def test_bad_input_is_named(p: list[float], n: list[int], n_strata: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        strata_edges(p, n, n_strata, "equal_count")


def test_a_missing_propensity_has_no_stratum() -> None:
    with pytest.raises(DataError, match="missing or not above 0"):
        strata_of([0.5, np.nan], [0.3])


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ConfigError, match="kind 'quantile' is not known: equal_width, equal_count"):
        strata_edges([0.1], [1], 1, "quantile")  # type: ignore[arg-type]
