"""Windows hold the threshold; magnitudes order keys; total variation against its definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_engine.test_sets.marginals import variation, variation_sums
from eval_engine.test_sets.tallies import WeightTally, _add_weights
from eval_engine.test_sets.window import LAST, bins_of, key_of, magnitudes, window_of

KEYS = st.lists(st.floats(-1e300, -1e-300), min_size=1, max_size=200)


@given(KEYS)
def test_magnitudes_rise_as_keys_fall(keys: list[float]) -> None:
    own = magnitudes(np.array(keys))
    assert [keys[n] for n in np.argsort(own, kind="stable")] == sorted(keys, reverse=True)
    assert [key_of(int(x)) for x in own] == keys
    assert magnitudes(np.array([-math.inf]))[0] > LAST


@given(KEYS, st.data())
def test_window_of_all_keys_holds_the_threshold_in_one_bin(keys: list[float], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(keys)))
    window = window_of(*bins_of(np.array(keys)), size, one_of=1)
    own = np.sort(magnitudes(np.array(keys)))
    assert window.low <= own[size - 1] <= window.high
    assert (own[size - 1] - window.low) >> window.shift < 8192


def test_window_of_a_sample_is_narrow_and_holds_the_threshold() -> None:
    rng = np.random.default_rng(3)
    for weights in (np.ones(400_000), np.exp(rng.normal(0, 3, 400_000))):
        keys = np.log(rng.random(400_000)) / weights
        for size in (1, 5, 4_000, 200_000, 399_999, 400_000):
            window = window_of(*bins_of(keys[::100]), size, one_of=100)
            own = magnitudes(keys)
            assert window.low <= np.sort(own)[size - 1] <= window.high
            if size == 200_000:
                inside = ((own >= window.low) & (own <= window.high)).mean()
                assert inside < 14 * np.sqrt(2_000) / 4_000 + 0.03  # 7 standard deviations to both sides, and two bins


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30), st.data())
def test_total_variation_is_that_of_its_definition(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    counts, random = np.array(rows).T
    size, n_random, n = int(counts.sum()), int(random.sum()), len(rows)
    if not size:
        return
    cut = data.draw(st.integers(0, n))
    parts = [variation_sums(counts[s], random[s], size, n, n_random) for s in (slice(cut), slice(cut, n))]
    found = variation(parts, size, n, n_random)
    assert found.uniform == pytest.approx(sum(abs(c / size - 1 / n) for c in counts) / 2)
    if n_random:
        expected = sum(abs(c / size - r / n_random) for c, r in rows) / 2
        assert found.random == pytest.approx(expected)
    else:
        assert found.random is None


@settings(deadline=None)
@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-280, 1e280)), min_size=1, max_size=60), st.integers(0, 60))
def test_summary_of_weights(weights: list[float], cut: int) -> None:
    tallies = []
    for part in (weights[:cut], weights[cut:]):
        own = WeightTally()
        known = np.ones(len(part), np.bool_)
        _add_weights(np.array(part, float), np.zeros(len(part), np.bool_), known, own.sums, own.counts, own.ends)
        tallies.append(own)
    tallies[0].merge(tallies[1])
    found, some = tallies[0].summary(), [w for w in weights if w > 0]
    assert found.n == len(some)
    if some:
        top = max(some)
        scaled = [w / top for w in some]
        effective = math.fsum(scaled) ** 2 / math.fsum(w * w for w in scaled)
        assert (found.low, found.high) == (min(some), top)
        assert found.mean == pytest.approx(math.fsum(scaled) / len(some) * top, rel=1e-8)
        assert found.effective == pytest.approx(effective, rel=1e-8)
