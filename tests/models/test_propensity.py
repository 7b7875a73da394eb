"""Item propensities equal the formula, and weights have mean 1."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.propensity import inverse_weights, item_propensity
from models.spec.propensities import PopularityPropensity

COUNTS = st.lists(st.integers(0, 1000), min_size=1, max_size=20).filter(any).map(np.array)


@given(COUNTS, st.floats(0, 2), st.floats(0.01, 1))
def test_matches_the_formula(counts: np.ndarray, power: float, floor: float) -> None:
    expected = [max(floor, (n / max(counts)) ** power) for n in counts]
    np.testing.assert_allclose(item_propensity(counts, PopularityPropensity(power=power, floor=floor)), expected)


@given(COUNTS, st.floats(0, 2), st.floats(0.01, 1))
def test_weights_have_mean_one_over_logged_pairs(counts: np.ndarray, power: float, floor: float) -> None:
    propensity = item_propensity(counts, PopularityPropensity(power=power, floor=floor))
    weights = inverse_weights(propensity, counts)
    np.testing.assert_allclose(np.repeat(weights, counts).mean(), 1)
    np.testing.assert_allclose(weights * propensity, weights[0] * propensity[0])


def test_power_zero_gives_weights_of_exactly_one() -> None:
    counts = np.array([0, 3, 999_983])
    assert (inverse_weights(item_propensity(counts, PopularityPropensity(power=0)), counts) == 1.0).all()
