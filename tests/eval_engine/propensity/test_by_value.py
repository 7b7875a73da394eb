"""Propensities of rating values: the formula, and what is refused."""

import numpy as np
import pytest

from eval_engine.errors import DataError
from eval_engine.positive import Positive
from eval_engine.propensity.by_value import ValueCount, naive_bayes, of_values, one_weight

COUNTS = {
    1.0: ValueCount(100, 500.0),
    2.0: ValueCount(300, 250.0),
    4.5: ValueCount(600, 250.0),
    5.0: ValueCount(0, 9.0),
}


def test_is_the_formula() -> None:
    random = sum(n.random for n in COUNTS.values())
    p = naive_bayes(COUNTS, 0.1)
    assert set(p) == {1.0, 2.0, 4.5}  # a value that is never logged needs no propensity
    for value, propensity in p.items():
        assert propensity == pytest.approx(COUNTS[value].logged / 1000 * 0.1 / (COUNTS[value].random / random))


def test_a_value_above_1_counts_as_1() -> None:
    assert naive_bayes(COUNTS, 0.9)[4.5] == 1.0


@pytest.mark.parametrize(
    ("counts", "scale", "message"),
    [
        (
            COUNTS,
            (1, 2, 3, 5),
            r"the value 4.5 \(600 logged pairs, 250 random exposures\) is outside the scale 1, 2, 3, 5",
        ),
        ({0.0: ValueCount(3, 3.0), 1.0: ValueCount(9, 2.0)}, None, r"over 2 different values \(0, 1\)"),
        ({}, None, r"over 0 different values \(none\)"),
        (
            COUNTS | {3.0: ValueCount(7, 0.0)},
            None,
            "7 logged pairs have the value 3, but no random exposure has it",
        ),
    ],
)
def test_bad_values_are_named(counts: dict[float, ValueCount], scale: tuple[float, ...] | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        naive_bayes(counts, 0.1, scale)


def test_values_without_a_propensity_are_nan() -> None:
    p = of_values({1.0: 0.1, 2.5: 0.4}, [2.5, 0.0, 1.0, 9.0, np.nan])
    np.testing.assert_array_equal(p, [0.4, np.nan, 0.1, np.nan, np.nan])


def test_one_positive_value_has_one_weight() -> None:
    p = naive_bayes(COUNTS, 0.1)
    assert one_weight(p, Positive(">", 3.0))
    assert not one_weight(p, Positive(">", 1.0))
