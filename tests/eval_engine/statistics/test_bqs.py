from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_engine import bqs
from eval_engine.statistics.anova import anova_in_blocks

QUALITY = st.floats(0, 1)


def by_hand(q: float, q0: float, low: float, low0: float, a: float) -> float:
    def phi(x: float) -> float:
        return x if x >= 0 else x - (a * x) ** 2

    return 1 / (1 + exp(-(phi(q - q0) + phi(low - low0))))


def test_a_loss_costs_more_than_rare_items_gain() -> None:
    assert bqs(0.1951, 0.2551, 0.02, 0.0, a=10) == pytest.approx(0.401, abs=5e-4)


@given(QUALITY, QUALITY, st.floats(0, 20))
def test_a_baseline_against_itself_has_a_half(q: float, low: float, a: float) -> None:
    assert bqs(q, q, low, low, a) == 0.5


@given(QUALITY, QUALITY, QUALITY, QUALITY, st.sampled_from([0.0, 2.0, 10.0]))
def test_of_numbers_and_of_arrays(q: float, q0: float, low: float, low0: float, a: float) -> None:
    expected = by_hand(q, q0, low, low0, a)
    assert bqs(q, q0, low, low0, a) == pytest.approx(expected, rel=1e-12)
    both = bqs(np.array([q, q0]), np.array([q0, q]), np.array([low, low0]), np.array([low0, low]), a)
    np.testing.assert_allclose(both, [expected, by_hand(q0, q, low0, low, a)], rtol=1e-12)
    assert expected <= 1 / (1 + exp(-2)) + 1e-12


def test_what_is_not_known_has_no_score_and_a_is_not_negative() -> None:
    assert np.isnan(bqs(0.1, 0.2, np.nan, 0.0, 10))
    with pytest.raises(ValueError, match="a must be 0 or more"):
        bqs(0.1, 0.2, 0.0, 0.0, -1)


def test_anova_in_blocks_worked_out_by_hand() -> None:
    """Three techniques, two seeds: SS(treatments) 8, SS(blocks) 6, SS(error) 0 + what is moved by 0.5."""
    x = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])
    assert anova_in_blocks(x).f == np.inf  # techniques differ alike in both
    x[0, 0] += 0.6
    mean, rows, columns = x.mean(), x.mean(axis=1), x.mean(axis=0)
    between = sum(2 * (c - mean) ** 2 for c in columns) / 2
    within = sum((x[b, t] - rows[b] - columns[t] + mean) ** 2 for b in range(2) for t in range(3)) / 2
    assert anova_in_blocks(x).f == pytest.approx(between / within)


def test_anova_has_its_level() -> None:
    rng = np.random.default_rng(0)
    p = [anova_in_blocks(rng.normal(size=(5, 7)) + rng.normal(size=(5, 1))).p for _ in range(2000)]
    assert 0.03 < np.mean(np.array(p) < 0.05) < 0.07


@pytest.mark.parametrize("x", [[[1.0, 2.0]], [[1.0], [2.0]], [[1.0, np.nan], [2.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]]])
def test_anova_of_too_little_is_not_defined(x: list[list[float]]) -> None:
    assert np.isnan(anova_in_blocks(x).p)
