"""Samplers: labels are as logged, negatives are uniform over items that are not positives, hard ones equal a sort."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.batch import Batch
from models.logged import Logged
from models.oversampling import mean_comparisons
from models.samplers import held_out_sampler, make_sampler
from models.spec.samplers import (
    AllPairs,
    HardNegatives,
    Observed,
    Oversampled,
    PopularityNegatives,
    RarePositives,
    Sampler,
    UniformNegatives,
)

N_USERS, N_ITEMS = 4, 6
PAIRS = st.dictionaries(st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1)), st.booleans(), min_size=1)


def logged_of(pairs: dict[tuple[int, int], bool], values: dict[tuple[int, int], float] | None = None) -> Logged:
    rows = sorted(pairs)
    value = [(values or pairs)[row] for row in rows]
    positive = np.array([pairs[row] for row in rows], bool)
    return Logged(
        np.array([u for u, _ in rows]),
        np.array([i for _, i in rows]),
        positive,
        np.array(value, np.float64),
        N_USERS,
        N_ITEMS,
    )


def no_score(users: Tensor, items: Tensor) -> Tensor:
    return pytest.fail("scored")


def drawn(sampler: Sampler, logged: Logged, known: Logged | None = None, seed: int = 0, score=no_score) -> Batch:
    """A whole epoch as one batch."""
    made, generator = make_sampler(sampler, logged, known or logged), torch.Generator().manual_seed(seed)
    return made.batch(made.epoch(generator), generator, score)


@given(PAIRS)
def test_observed_is_the_log(pairs: dict[tuple[int, int], bool]) -> None:
    batch = drawn(Observed(), logged_of(pairs))
    assert batch.items.shape == (len(pairs), 1)
    assert {
        (u, i): bool(y)
        for u, i, y in zip(batch.users.tolist(), batch.items[:, 0].tolist(), batch.labels[:, 0].tolist(), strict=True)
    } == pairs
    assert batch.logged.all()
    assert (batch.weights == 1).all()


def test_values_are_scaled_to_the_unit_interval() -> None:
    pairs = {(0, 0): True, (0, 1): False, (1, 1): True}
    batch = drawn(Observed(label="value"), logged_of(pairs, {(0, 0): 5.0, (0, 1): 1.0, (1, 1): 4.0}))
    assert sorted(batch.labels[:, 0].tolist()) == [0.0, 0.75, 1.0]
    same = drawn(Observed(label="value"), logged_of(pairs, dict.fromkeys(pairs, 3.0)))
    assert same.labels.tolist() == [[1.0]] * 3


@given(PAIRS, st.integers(1, 4), st.integers(0, 99), st.sampled_from([UniformNegatives, PopularityNegatives]))
@settings(deadline=None)
def test_negatives_are_not_positives(
    pairs: dict[tuple[int, int], bool], per_positive: int, seed: int, kind: type
) -> None:
    if not any(pairs.values()):
        pairs = {**pairs, (0, 0): True}
    batch = drawn(kind(per_positive=per_positive), logged_of(pairs), seed=seed)
    positives = {pair for pair, positive in pairs.items() if positive}
    assert sorted(zip(batch.users.tolist(), batch.items[:, 0].tolist(), strict=True)) == sorted(positives)
    assert batch.items.shape == (len(positives), 1 + per_positive)
    assert (batch.labels[:, 0] == 1).all()
    assert (batch.labels[:, 1:] == 0).all()
    assert torch.equal(batch.logged, batch.labels > 0)
    for user, items, weights in zip(batch.users.tolist(), batch.items.tolist(), batch.weights.tolist(), strict=True):
        own = sum(u == user for u, _ in positives)
        liked = {i for _, i in positives}
        free = own < N_ITEMS if kind is UniformNegatives else bool(liked - {i for u, i in positives if u == user})
        assert weights[0] == 1
        for item, weight in zip(items[1:], weights[1:], strict=True):
            assert 0 <= item < N_ITEMS
            assert (weight == 1) <= ((user, item) not in positives)
            assert (weight == 1) == free or kind is PopularityNegatives  # a rare item may not be drawn in twenty rounds


def test_negatives_are_uniform() -> None:
    batch = drawn(
        UniformNegatives(per_positive=20_000),
        logged_of({(0, 1): True, (0, 2): False, (0, 4): True, (2, 0): True}),
        seed=1,
    )
    counts = torch.bincount(batch.items[batch.users == 0, 1:].flatten(), minlength=N_ITEMS)
    assert counts[[1, 4]].tolist() == [0, 0]
    assert (counts[[0, 2, 3, 5]] - 10_000).abs().max() < 5 * 87  # binomial sd sqrt(40000 / 4 * 3 / 4)


def test_popular_negatives_are_drawn_by_their_count() -> None:
    logged = logged_of({(0, 0): True, (1, 1): True, (2, 1): True, (3, 1): True, (2, 2): True, (3, 3): False})
    batch = drawn(PopularityNegatives(per_positive=40_000, power=1), logged, seed=3)
    counts = torch.bincount(batch.items[batch.users == 0, 1:].flatten(), minlength=N_ITEMS)
    assert counts[[0, 3, 4, 5]].tolist() == [0, 0, 0, 0]  # the user's own positive, and items without positives
    assert abs(counts[1] - 30_000) < 5 * 87


def test_negatives_of_held_out_positives_are_not_known_positives() -> None:
    known = logged_of({(0, item): True for item in range(5)})
    held_out = known.where(np.array([False, False, True, False, False]))
    assert drawn(UniformNegatives(per_positive=3), held_out, known).items.tolist() == [[2, 5, 5, 5]]


def test_all_of_u_hardest_is_uniform_and_fewer_are_those_with_the_highest_scores() -> None:
    logged = logged_of({(0, 1): True, (1, 2): True, (3, 0): True, (3, 5): True})
    scores = torch.randn(N_USERS, N_ITEMS, generator=torch.Generator().manual_seed(8))

    def score(users: Tensor, items: Tensor) -> Tensor:
        return scores[users[:, None], items]

    uniform = drawn(UniformNegatives(per_positive=5), logged, seed=4)
    assert all(map(torch.equal, drawn(HardNegatives(hardest=5, drawn=5), logged, seed=4, score=score), uniform))
    hard = drawn(HardNegatives(hardest=2, drawn=5), logged, seed=4, score=score)
    assert torch.equal(hard.items[:, 0], uniform.items[:, 0])
    for user, negatives, candidates in zip(
        hard.users.tolist(), hard.items[:, 1:].tolist(), uniform.items[:, 1:].tolist(), strict=True
    ):
        best = sorted((scores[user, item].item() for item in candidates), reverse=True)[:2]
        assert sorted((scores[user, item].item() for item in negatives), reverse=True) == best


def test_oversampling_follows_equations_19_to_22() -> None:
    popularity = np.array([8, 1, 4, 0, 2, 2])
    comparisons = mean_comparisons(popularity, Oversampled(strategy="dynamic", base=4, high_share=0.5))
    h = max(1, round(0.5 * 6)) - 1
    ranks = {0: 0, 2: 1, 4: 2, 5: 3, 1: 4, 3: 5}  # most popular first, ties by position
    for item, rho in enumerate(popularity):
        expected = 4 * 8 / (rho * (ranks[item] / max(1, h) + 1)) if rho else 0.0
        assert comparisons[item] == pytest.approx(expected)


def test_uniform_oversampling_exposes_every_item_equally() -> None:
    logged = logged_of(
        {
            (0, 0): True,
            (1, 0): True,
            (2, 0): True,
            (3, 0): True,
            (1, 1): True,
            (2, 2): True,
            (3, 2): True,
            (0, 5): False,
        }
    )
    batches = [drawn(Oversampled(strategy="uniform", base=5), logged, seed=seed) for seed in range(1000)]
    assert {batch.items.shape for batch in batches} == {(7, 6)}  # as many rows as positives
    exposures = torch.bincount(torch.cat([batch.items[:, 0] for batch in batches]), minlength=N_ITEMS)
    assert exposures[3:].tolist() == [0, 0, 0]
    assert (exposures[:3] - 7000 / 3).abs().max() < 5 * 40  # binomial sd sqrt(7000 * 2 / 9)
    of_the_popular = torch.cat([batch.users[batch.items[:, 0] == 0] for batch in batches])
    assert (torch.bincount(of_the_popular) - 7000 / 12).abs().max() < 5 * 24
    dynamic = np.mean([len(drawn(Oversampled(base=5, high_share=0.4), logged, seed=s).users) for s in range(200)])
    wanted = mean_comparisons(logged.positives().item_counts(), Oversampled(base=5, high_share=0.4))[
        logged.positives().items
    ].sum()
    assert dynamic == pytest.approx(wanted, abs=0.3)


def test_an_epoch_of_a_skewed_log_is_bounded_with_the_same_exposures(monkeypatch: pytest.MonkeyPatch) -> None:
    logged = logged_of({(0, 0): True, (1, 0): True, (2, 0): True, (3, 0): True, (1, 1): True, (0, 2): True})
    spec = Oversampled(base=5, high_share=0.4)
    positives = logged.positives()
    wanted = mean_comparisons(positives.item_counts(), spec)[positives.items]
    assert wanted.sum() > 3 * len(wanted)
    monkeypatch.setattr("models.oversampling.MOST", 3)
    batches = [drawn(spec, logged, seed=seed) for seed in range(2000)]
    assert {len(batch.users) for batch in batches} == {3 * len(wanted)}
    exposures = torch.bincount(torch.cat([batch.items[:, 0] for batch in batches]), minlength=3)[:3].numpy()
    by_item = np.bincount(positives.items, wanted, 3)
    assert exposures / exposures.sum() == pytest.approx(by_item / by_item.sum(), abs=0.01)


def test_rare_positives_come_more_often_and_a_tiny_spread_leaves_the_rarest() -> None:
    logged = logged_of({(0, 0): True, (1, 0): True, (2, 0): True, (3, 0): True, (1, 1): True})
    rows = torch.cat(
        [drawn(RarePositives(spread=0.5, per_positive=1), logged, seed=s).items[:, 0] for s in range(2000)]
    )
    weights = np.exp(-((np.array([1.0, 0.25]) / 0.5) ** 2) / 2) * [4, 1]
    assert (rows == 1).float().mean().item() == pytest.approx(weights[1] / weights.sum(), abs=0.02)
    assert drawn(RarePositives(spread=1e-3, per_positive=1), logged).items[:, 0].tolist() == [1] * 5


def test_all_pairs_are_drawn_from_all_items() -> None:
    logged = logged_of({(0, 1): True, (2, 4): False})
    batch = drawn(AllPairs(per_logged=6000), logged, seed=2)
    assert batch.logged.sum(1).tolist() == [1, 1]
    assert sorted(batch.labels[:, 0].tolist()) == [0, 1]
    counts = torch.bincount(batch.items[:, 1:].flatten(), minlength=N_ITEMS)
    assert (counts - 2000).abs().max() < 5 * 41


def test_held_out_pairs_are_drawn_once_and_with_uniform_negatives() -> None:
    for sampler in (PopularityNegatives(), HardNegatives(), Oversampled(), RarePositives()):
        assert isinstance(held_out_sampler(sampler), UniformNegatives)
    assert held_out_sampler(Observed(label="value")) == Observed(label="value")
