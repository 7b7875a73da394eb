"""The synthetic world: keyed randomness, invariants of each user, uniform exposures, logs that are missing not at random. No Spark."""

from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import chisquare, spearmanr

from eval_engine.datasets import world as worlds
from eval_engine.datasets.world import (
    Pairs,
    World,
    exposed,
    item_ids,
    items_of,
    kept_truth,
    logged,
    logged_to_split,
    ratings,
    shown_chance,
    user_ids,
)

SMALL = World(users=400, items=120, exposures=8, shown=40, seed=7)
DEMO = World(users=600, items=800, exposures=10, seed=5)
KINDS = (logged, exposed, kept_truth)


def with_knobs(world: World, **knobs: object) -> World:
    """The same world but for some knobs, checked again."""
    return World.model_validate(world.model_dump() | knobs)


def same(a: Pairs, b: Pairs) -> bool:
    return np.array_equal(a.positions, b.positions) and np.array_equal(a.values, b.values)


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_is_the_same_in_any_order_of_asking_and_after_a_restart(kind: Callable[[World, int], Pairs]) -> None:
    first = {user: kind(SMALL, user) for user in range(20)}
    items_of.cache_clear()
    worlds._cuts.cache_clear()
    assert all(same(kind(SMALL, user), first[user]) for user in reversed(range(20)))


@pytest.mark.parametrize("kind", KINDS)
def test_more_users_do_not_change_the_earlier_ones(kind: Callable[[World, int], Pairs]) -> None:
    assert all(same(kind(SMALL, user), kind(with_knobs(SMALL, users=10**9), user)) for user in range(20))


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_and_users_differ(kind: Callable[[World, int], Pairs]) -> None:
    other = with_knobs(SMALL, seed=8)
    assert not any(same(kind(SMALL, user), kind(other, user)) for user in range(20))
    assert not any(same(kind(SMALL, user), kind(SMALL, user + 1)) for user in range(20))


def test_streams_of_purposes_users_and_seeds_never_meet() -> None:
    keys = [
        (seed, purpose, user)
        for seed in (0, 1, 2**63 - 1)
        for purpose in range(14)
        for user in (0, 1, 255, 256, 2**48 - 1)
    ]
    drawn = {worlds.stream(with_knobs(SMALL, seed=seed), purpose, user).integers(2**63) for seed, purpose, user in keys}
    assert len(drawn) == len(keys)


def test_the_first_items_do_not_depend_on_how_many_there_are() -> None:
    few, many = items_of(SMALL), items_of(with_knobs(SMALL, items=300))
    assert all(np.array_equal(few_of, many_of[..., : SMALL.items]) for few_of, many_of in zip(few, many, strict=True))


def test_knobs_of_the_log_and_of_the_exposures_change_no_rating() -> None:
    knobs = {
        "shown": 20,
        "popularity_pull": 0,
        "prediction_pull": 3,
        "accuracy": 1,
        "answer_decay": 0.5,
        "exposures": 3,
        "frame": "all_items",
        "truth_share": 0.5,
    }
    for knob, value in knobs.items():
        assert np.array_equal(ratings(with_knobs(SMALL, **{knob: value}), 3), ratings(SMALL, 3)), knob
    assert not np.array_equal(ratings(with_knobs(SMALL, noise=2), 3), ratings(SMALL, 3))


def test_more_exposures_keep_the_earlier_ones() -> None:
    more = with_knobs(SMALL, exposures=20)
    assert all(set(exposed(SMALL, user).positions) < set(exposed(more, user).positions) for user in range(20))


@pytest.mark.parametrize("frame", ["unseen", "all_items"])
def test_what_holds_of_every_user(frame: str) -> None:
    world = with_knobs(SMALL, frame=frame)
    overlaps = 0
    for user in range(world.users):
        truth, log, random = ratings(world, user), logged(world, user), exposed(world, user)
        for pairs in (log, random):
            assert np.all(np.diff(pairs.positions) > 0)  # sorted, no pair twice
            assert set(pairs.positions) <= set(range(world.items))
            assert np.array_equal(pairs.values, truth[pairs.positions])
        assert truth.shape == (world.items,)
        assert truth.dtype == np.float64
        assert set(truth) <= {1.0, 2.0, 3.0, 4.0, 5.0}
        assert len(log.positions) <= world.shown
        assert len(random.positions) == world.exposures
        overlaps += len(np.intersect1d(log.positions, random.positions))
    assert overlaps == 0 if frame == "unseen" else overlaps > 0


@pytest.mark.parametrize("frame", ["unseen", "all_items"])
def test_exposures_are_uniform_over_the_frame(frame: str) -> None:
    world = World(users=4000, items=60, exposures=6, shown=20, seed=3, frame=frame)
    counts, expected = np.zeros(world.items), np.zeros(world.items)
    for user in range(world.users):
        counts[exposed(world, user).positions] += 1
        in_frame = np.ones(world.items, dtype=bool)
        if frame == "unseen":
            in_frame[logged(world, user).positions] = False
        expected += in_frame * world.exposures / in_frame.sum()
    assert chisquare(counts, expected).pvalue > 0.001
    # The test can fail: what the deployed system shows is not uniform by far.
    shown = np.bincount(np.concatenate([logged(world, user).positions for user in range(500)]), minlength=world.items)
    assert chisquare(shown).pvalue < 1e-6


def test_exposures_do_not_favour_what_the_user_likes() -> None:
    world = with_knobs(DEMO, frame="all_items", users=2000)
    differences = np.array(
        [exposed(world, user).values.mean() - ratings(world, user).mean() for user in range(world.users)]
    )
    assert abs(differences.mean()) < 4 * differences.std() / np.sqrt(world.users)


def test_the_log_is_missing_not_at_random() -> None:
    truth = np.array([ratings(DEMO, user) for user in range(DEMO.users)])
    logs = [logged(DEMO, user) for user in range(DEMO.users)]
    counts = np.bincount(np.concatenate([log.positions for log in logs]), minlength=DEMO.items)
    assert np.concatenate([log.values for log in logs]).mean() > truth.mean() + 0.5
    assert spearmanr(counts, items_of(DEMO).log_popularity).statistic > 0.8
    top = np.argsort(-items_of(DEMO).log_popularity)[: DEMO.items // 10]
    assert counts[top].sum() > 0.4 * counts.sum()


def answered(world: World, user: int, value: float) -> tuple[int, int]:
    """How many items worth this value the user was shown, and answered."""
    shown, log = worlds._shown(world, user), logged(world, user)
    return int((ratings(world, user)[shown] == value).sum()), int((log.values == value).sum())


@pytest.mark.parametrize("value", [1.0, 3.0, 5.0])
def test_users_answer_what_they_like_more_readily(value: float) -> None:
    n_shown, n_answered = np.sum([answered(DEMO, user, value) for user in range(DEMO.users)], axis=0)
    chance = DEMO.answer_best * DEMO.answer_decay ** (5 - value)
    assert abs(n_answered / n_shown - chance) < 4 * np.sqrt(chance * (1 - chance) / n_shown)


def test_the_pulls_are_what_biases_showing() -> None:
    even = with_knobs(SMALL, users=3000, popularity_pull=0, prediction_pull=0)
    shown = [worlds._shown(even, user) for user in range(even.users)]
    assert {len(positions) for positions in shown} == {even.shown}
    assert chisquare(np.bincount(np.concatenate(shown), minlength=even.items)).pvalue > 0.001


def test_an_accurate_system_shows_what_is_liked() -> None:
    def mean_shown(accuracy: float) -> float:
        world = with_knobs(SMALL, popularity_pull=0, prediction_pull=1, ties=0, accuracy=accuracy)
        return float(np.mean([ratings(world, user)[worlds._shown(world, user)].mean() for user in range(200)]))

    assert mean_shown(1.0) > mean_shown(0.3) + 0.1


def test_positives_are_rare_and_differ_a_lot_among_users() -> None:
    positives = np.array([(ratings(DEMO, user) > 3).sum() for user in range(2000)])
    assert 0.05 < positives.mean() / DEMO.items < 0.15
    assert np.percentile(positives, 90) > 6 * np.percentile(positives, 10)
    assert 0 < np.mean(positives == 0) < 0.01
    answers = np.array([len(logged(DEMO, user).positions) for user in range(100)])
    assert 30 < answers.mean() < 60


def test_popularity_follows_quality_only_partly_and_has_a_heavy_tail() -> None:
    items = items_of(with_knobs(DEMO, items=20_000))
    assert 0.5 < spearmanr(items.log_popularity, items.quality).statistic < 0.95
    top = np.argsort(-items.log_popularity)[:200]
    assert spearmanr(items.log_popularity[top], items.quality[top]).statistic < 0.3  # the top of popularity is hype
    popularity = np.sort(np.exp(items.log_popularity.astype(np.float64)))
    assert popularity[-2000:].sum() > 0.5 * popularity.sum()


def test_features_and_durations_tell_of_the_items() -> None:
    items = items_of(with_knobs(DEMO, items=5000, features=6, dims=4, categories=5))
    assert items.features.shape == (6, 5000)
    assert np.corrcoef(items.features[1], items.taste[1])[0, 1] > 0.8
    assert np.corrcoef(items.features[5], items.taste[1])[0, 1] > 0.8  # more columns than dimensions: a second look
    assert abs(np.corrcoef(items.features[0], items.taste[1])[0, 1]) < 0.1
    assert set(items.category) == set(range(5))
    assert items.duration_seconds.min() >= 1
    assert spearmanr(items.duration_seconds, items.log_popularity).statistic < -0.3  # short ones are shown more


def test_truth_is_kept_for_the_same_share_of_users_every_time() -> None:
    kept = {
        share: {u for u in range(400) if len(kept_truth(with_knobs(SMALL, truth_share=share), u).positions)}
        for share in (0.0, 0.3, 0.6, 1.0)
    }
    assert kept[0.0] == set()
    assert kept[0.0] < kept[0.3] < kept[0.6] < kept[1.0] == set(range(400))
    assert abs(len(kept[0.3]) / 400 - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 400)
    pairs = kept_truth(SMALL, 2)
    assert same(pairs, Pairs(np.arange(SMALL.items), ratings(SMALL, 2)))


def test_ids_are_unique_and_are_no_positions() -> None:
    numbers = np.arange(100_000)
    for ids in (item_ids(numbers), user_ids(numbers)):
        assert ids.dtype == np.int64
        assert len(np.unique(ids)) == len(numbers)
    assert not np.any(item_ids(numbers[:10_000]) == numbers[:10_000])
    assert not np.intersect1d(item_ids(numbers), user_ids(numbers)).size


def test_a_world_that_does_not_fit_names_what_to_change() -> None:
    with pytest.raises(
        ValidationError,
        match="items: 45 are too few for shown: 40 and exposures: 8 with frame: unseen, which may need 48",
    ):
        World(users=5, items=45, exposures=8, shown=40)
    World(users=5, items=45, exposures=8, shown=40, frame="all_items")
    with pytest.raises(ValidationError, match="too few"):
        World(users=5, items=30, exposures=8, shown=40, frame="all_items")
    with pytest.raises(ValidationError, match="Extra inputs"):
        World.model_validate({"users": 5, "items": 500, "exposures": 8, "popularty_pull": 1})


def test_the_chance_to_be_shown_is_the_share_of_draws() -> None:
    world = World(users=2000, items=150, exposures=5, shown=40, seed=2, popularity_pull=1.0, prediction_pull=0.0)
    chance = shown_chance(world, 0)
    assert chance.sum() == pytest.approx(40)
    assert np.allclose(chance, shown_chance(world, 17))  # nothing of the user without predictions
    shares = np.bincount(np.concatenate([worlds._shown(world, u) for u in range(2000)]), minlength=150) / 2000
    noise = np.sqrt(chance * (1 - chance) / 2000)
    assert np.abs(shares - chance).max() < 0.01 + 4 * noise.max()
    assert chance.min() < 0.05 < 0.9 < chance.max()
    assert np.array_equal(shown_chance(with_knobs(world, shown=150, frame="all_items"), 0), np.ones(150))


def test_true_propensities_weigh_held_out_pairs_up_to_all_that_is_not_trained_on() -> None:
    knobs = {"ties": 0.2, "popularity_pull": 1.0, "prediction_pull": 0.3}
    world = World(users=1500, items=150, exposures=5, shown=40, seed=2, **knobs)
    share, rng = 0.3, np.random.default_rng(1)
    weighted, squares, there = np.zeros(150), np.zeros(150), np.zeros(150)
    for user in range(world.users):
        pairs = logged_to_split(world, user, share)
        assert same(pairs, logged(world, user))
        held = rng.random(pairs.positions.size) < share
        trained = np.zeros(150, bool)
        trained[pairs.positions[~held]] = True
        liked = ratings(world, user) > 3
        assert pairs.propensities is not None
        weights = (liked[pairs.positions] / pairs.propensities)[held]
        weighted[pairs.positions[held]] += weights
        squares[pairs.positions[held]] += weights**2
        there += liked & ~trained
    often = np.argsort(-items_of(world).log_popularity)
    for some in np.array_split(often, 3):  # also where most pairs are logged
        error = np.sqrt(squares[some].sum())
        assert error < 0.12 * there[some].sum()
        assert weighted[some].sum() == pytest.approx(there[some].sum(), abs=3 * error)
