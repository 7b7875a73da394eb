"""Samplers: labels as logged; negatives even over what is no positive, against a loop."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.samplers import Logged, ObservedSampler, UniformNegativeSampler

N_ITEMS = 6
PAIRS = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, N_ITEMS - 1)), st.booleans(), min_size=1)


def logged_of(pairs: dict[tuple[int, int], bool]) -> Logged:
    rows = sorted(pairs)
    return Logged(np.array([u for u, _ in rows]), np.array([i for _, i in rows]), np.array([pairs[row] for row in rows]), N_ITEMS)


@given(PAIRS)
def test_observed_is_the_log(pairs: dict[tuple[int, int], bool]) -> None:
    drawn = ObservedSampler(logged_of(pairs)).draw(torch.Generator())
    assert {(u, i): bool(y) for u, i, y in zip(drawn.users.tolist(), drawn.items.tolist(), drawn.labels.tolist(), strict=True)} == pairs
    assert drawn.logged.all()


@given(PAIRS, st.integers(1, 4), st.integers(0, 99))
def test_negatives_are_no_positives(pairs: dict[tuple[int, int], bool], per_positive: int, seed: int) -> None:
    logged = logged_of(pairs)
    drawn = UniformNegativeSampler(logged, logged, per_positive).draw(torch.Generator().manual_seed(seed))
    rows = list(zip(drawn.users.tolist(), drawn.items.tolist(), drawn.labels.tolist(), drawn.logged.tolist(), strict=True))
    positives = [pair for pair, positive in sorted(pairs.items()) if positive]
    assert [(u, i) for u, i, y, was_logged in rows if y == 1 and was_logged] == positives
    negatives = [(u, i) for u, i, y, was_logged in rows if y == 0 and not was_logged]
    assert len(negatives) + len(positives) == len(rows)
    assert not set(negatives) & set(positives)
    assert all(0 <= i < N_ITEMS for _, i in negatives)
    for user in range(4):
        own = sum(u == user for u, _ in positives)
        assert sum(u == user for u, _ in negatives) == (own * per_positive if own < N_ITEMS else 0)


def test_negatives_are_even() -> None:
    logged = logged_of({(0, 1): True, (0, 2): False, (0, 4): True, (2, 0): True})
    drawn = UniformNegativeSampler(logged, logged, 20_000).draw(torch.Generator().manual_seed(1))
    negative = drawn.labels == 0
    counts = torch.bincount(drawn.items[negative & (drawn.users == 0)], minlength=N_ITEMS)
    assert counts[[1, 4]].tolist() == [0, 0]
    assert (counts[[0, 2, 3, 5]] - 10_000).abs().max() < 5 * 87  # binomial sd sqrt(40000 / 4 * 3 / 4)


def test_held_out_positives_come_with_negatives_outside_all_known_positives() -> None:
    known = logged_of({(0, item): True for item in range(5)})
    held_out = known.where(np.array([False, False, True, False, False]))
    drawn = UniformNegativeSampler(held_out, known, 3).draw(torch.Generator())
    assert drawn.items.tolist() == [2, 5, 5, 5]
