"""Edges that are searched by histograms are those of the distinct propensities, whatever the pairs and their order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.errors import DataError
from eval_engine.propensity.strata import strata_edges, strata_of
from eval_engine.propensity.strata_search import SHIFTS, Bins, added, bins_of, search_edges

ASKED = [(kind, n) for kind in ("equal_width", "equal_count") for n in range(1, 11)]
NEAR = st.integers(0, 40).map(lambda n: float(np.nextafter(0.3, 1.0) + n * np.spacing(0.3)))  # differ in the last bits
PROPENSITIES = st.one_of(
    st.floats(5e-324, 1.0, exclude_min=False), NEAR, st.sampled_from([1e-300, 0.25, 0.5, 1.0]), st.floats(0.1, 0.1001)
)


class Counted:
    """Histograms of pairs in several parts, and how many were made."""

    def __init__(self, p: np.ndarray, n_parts: int) -> None:
        self.parts, self.levels = np.array_split(p, n_parts), []

    def __call__(self, level: int, divided: np.ndarray) -> Bins:
        self.levels.append(level)
        return added(bins_of(part, level, divided) for part in self.parts)


@settings(max_examples=300)
@given(st.lists(PROPENSITIES, min_size=1, max_size=80), st.integers(1, 5), st.randoms())
def test_edges_are_those_of_the_distinct_values(pairs: list[float], n_parts: int, random: object) -> None:
    random.shuffle(pairs)  # type: ignore[attr-defined]
    p = np.array(pairs)
    values, counts = np.unique(p, return_counts=True)
    asked = [(kind, n) for kind, n in ASKED if n <= values.size]
    count = Counted(p, n_parts)
    for (kind, n), edges in zip(asked, search_edges(count, asked), strict=True):
        expected = strata_edges(values, counts, n, kind)
        assert edges.tolist() == expected.tolist()
    assert count.levels == list(range(len(count.levels)))
    assert len(count.levels) <= len(SHIFTS)


@given(st.lists(PROPENSITIES, min_size=1, max_size=40), st.integers(2, 10))
def test_too_few_propensities_are_an_error(pairs: list[float], n: int) -> None:
    p = np.array(pairs)
    distinct = np.unique(p).size
    count = Counted(p, 1)
    if distinct >= n:
        search_edges(count, [("equal_count", n)])
        return
    with pytest.raises(DataError, match=f"{n} strata of test pairs with {distinct} different propensities"):
        search_edges(count, [("equal_count", n)])


def test_a_million_pairs_need_few_histograms() -> None:
    p = np.random.default_rng(3).beta(0.5, 20, 1_000_000)
    count = Counted(p, 3)
    asked = [("equal_count", n) for n in (2, 5, 10)]
    edges = search_edges(count, asked)
    values, counts = np.unique(p, return_counts=True)
    for (kind, n), own in zip(asked, edges, strict=True):
        assert own.tolist() == strata_edges(values, counts, n, kind).tolist()
        sizes = np.bincount(strata_of(p, own))[1:]
        assert sizes.size == n
        assert np.abs(sizes - p.size / n).max() < 2
    assert count.levels == [0, 1, 2]
    few = Counted(np.repeat([0.1, 0.2, 0.7], 1000), 2)
    search_edges(few, asked[:1])
    assert few.levels == [0]


def test_no_pairs_and_no_propensity() -> None:
    with pytest.raises(DataError, match="there are no test pairs"):
        search_edges(Counted(np.empty(0), 1), [("equal_count", 2)])
    with pytest.raises(DataError, match=r"1 of 2 propensities are missing or not above 0 \(first: nan\)"):
        search_edges(Counted(np.array([0.1, np.nan]), 1), [("equal_count", 2)])
