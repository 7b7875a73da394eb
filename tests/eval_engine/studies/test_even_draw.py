"""Items drawn by hash: evenly, nested, and by nothing but seed and ids."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

from eval_engine.kernels.rank_facts import rank_facts
from eval_engine.studies.even_draw import places_drawn, some_pairs

N_USERS, N_ITEMS = 4000, 30
USERS, ITEMS = np.arange(N_USERS) * 3 + 5_000_000_000, np.arange(N_ITEMS) * 7 + 10_000


def places(seed: int, users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The places of the same items for each user, (n_users, n_items)."""
    offsets = np.arange(len(users) + 1) * len(items)
    return places_drawn(seed, pa.array(users), offsets, pa.array(np.tile(items, len(users)))).reshape(
        len(users), len(items)
    )


def test_every_user_draws_all_of_a_permutation():
    assert (np.sort(places(3, USERS[:50], ITEMS), axis=1) == np.arange(N_ITEMS)).all()


@pytest.mark.parametrize("seed", [0, 11, 2**63 - 1])
@pytest.mark.parametrize("exposures", [1, 10])
def test_items_are_drawn_evenly(seed: int, exposures: int):
    drawn = places(seed, USERS, ITEMS) < exposures
    assert (drawn.sum(axis=1) == exposures).all()
    # without replacement the counts vary less than a multinomial's, by (N - e) / (N - 1)
    counts = drawn.sum(axis=0)
    statistic = chisquare(counts).statistic * (N_ITEMS - 1) / (N_ITEMS - exposures)
    assert 29 - 4 * np.sqrt(58) < statistic < 29 + 4 * np.sqrt(58)


def test_pairs_of_items_are_drawn_evenly():
    drawn = places(5, USERS, ITEMS) < 2
    first, second = np.array([np.flatnonzero(row) for row in drawn]).T
    counts = np.bincount(first * N_ITEMS + second, minlength=N_ITEMS**2).reshape(N_ITEMS, N_ITEMS)[
        np.triu_indices(N_ITEMS, 1)
    ]
    assert chisquare(counts).pvalue > 1e-4


def test_a_smaller_draw_is_part_of_a_larger_one_and_leaves_places_alone():
    rng = np.random.default_rng(0)
    facts = rank_facts(rng.normal(size=(20, 12)), items=[list(range(12))] * 20, values=rng.integers(0, 2, (20, 12)))
    place = places_drawn(4, pa.array(USERS[:20]), facts.offsets, pa.array(np.tile(ITEMS[:12], 20)))
    few, many = (some_pairs(facts, place < e) for e in (3, 7))
    assert few.n_labels.tolist() == [3] * 20
    assert many.n_labels.tolist() == [7] * 20
    assert (few.candidates == 12).all()
    for u in range(20):
        of = [
            set(zip(x.above[x.offsets[u] : x.offsets[u + 1]], x.value[x.offsets[u] : x.offsets[u + 1]], strict=True))
            for x in (few, many, facts)
        ]
        assert of[0] < of[1] < of[2]


def test_the_draw_hangs_on_seed_user_and_item_only():
    whole = places(8, USERS[:40], ITEMS)
    np.testing.assert_array_equal(
        places(8, USERS[17:30], ITEMS), whole[17:30]
    )  # other users do not matter, nor their order
    np.testing.assert_array_equal(places(8, USERS[:40][::-1], ITEMS), whole[::-1])
    np.testing.assert_array_equal(places(8, USERS[:40], ITEMS[::-1]), whole[:, ::-1])
    assert (places(9, USERS[:40], ITEMS) != whole).mean() > 0.9
    assert (whole[0] != whole[1]).any()


def test_text_ids_and_users_without_items():
    offsets = np.array([0, 0, 3, 3])
    place = places_drawn(1, pa.array(["a", "b", "c"]), offsets, pa.array(["x", "y", "z"]))
    assert sorted(place.tolist()) == [0, 1, 2]
