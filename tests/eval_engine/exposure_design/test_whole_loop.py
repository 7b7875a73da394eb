"""From pilot to verdict on the synthetic world: the better model, with a tenth of the exposures that uniform needs."""

import numpy as np

import eval_engine as e
from eval_engine.datasets.world import World, items_of, ratings

ITEMS, K, E = 2000, 20, 10
WORLD = World(users=9_000, items=ITEMS, exposures=E, seed=99, frame="all_items")


def scored(user, quality):
    """What a user likes, and the scores of two close models and a third: the first is the better one."""
    rating, rng = ratings(WORLD, user), np.random.default_rng((41, user))
    shared = 0.5 * quality + 0.6 * rating + rng.normal(0, 1.0, ITEMS)
    first, second = (shared + lift * rating + rng.normal(0, 0.35, ITEMS) for lift in (0.07, 0.0))
    return rating == 5, (first, second, quality + rng.normal(0, 0.5, ITEMS))


def ranked(users, quality):
    """Of each user: likes, places of every item under each model, and the top of each list."""
    liked = np.empty((users.size, ITEMS), bool)
    places = np.empty((3, users.size, ITEMS), np.int16)
    lists = np.empty((3, users.size, K), np.int32)
    for n, user in enumerate(users.tolist()):
        liked[n], scores = scored(user, quality)
        for m, own in enumerate(scores):
            order = np.argsort(-own)
            places[m, n, order] = np.arange(ITEMS)
            lists[m, n] = order[:K]
    return liked, places, lists


def shown(liked, places, items, plan=None):
    """The facts of the models on what users were shown."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in items])])
    user, item = np.repeat(np.arange(len(items)), np.diff(offsets)), np.concatenate(items)
    none, frame = np.zeros(item.size, np.int32), np.full(len(items), ITEMS, np.int32)
    chance, arm = (None, None) if plan is None else map(np.concatenate, (plan.probabilities, plan.in_uniform))
    return [
        e.RankFacts(
            offsets,
            liked[user, item].astype(float),
            none[:0],
            own[user, item].astype(np.int32),
            none,
            frame,
            chance,
            arm,
        )
        for own in places
    ]


def test_pilot_power_design_feedback_verdict():
    quality = items_of(WORLD).quality
    # the pilot: uniform
    liked, places, lists = ranked(np.arange(5000), quality)
    rng = np.random.default_rng(2)
    items = [rng.permutation(ITEMS)[:E] for _ in range(5000)]
    pilot = shown(liked, places, items)
    undecided = e.compare(pilot[0], pilot[1], "ure_micro", f"recall@{K}")
    assert undecided.low < 0 < undecided.high
    # how many users does a difference of 10 % take?
    rows = e.power(pilot, items, lists, ITEMS, f"recall@{K}", 0.1, (E,))
    rows = {row.design: row for row in rows if (row.first, row.second) == (0, 1)}
    # the plan, for as many other users as the pilot leaves possible, and what they answer
    n = int(np.ceil(rows["two arms"].high))
    assert n < rows["uniform"].users / 10
    liked, places, lists = ranked(np.arange(5000, 5000 + n), quality)
    plan = e.design_exposures(lists, ITEMS, E, 5, seed=7)
    facts = shown(liked, places, plan.items, plan)
    # the verdict
    for found in (e.compare(facts[0], facts[1], "designed_micro", f"recall@{K}"), e.recall_difference(*facts[:2], K)):
        value = found.difference if hasattr(found, "difference") else found.value
        assert found.low > 0, "the first model is the better one"
        hits = [(liked & (own < K)).sum() / liked.sum() for own in places]
        assert abs(value - (hits[0] - hits[1])) < 3 * found.standard_error
    assert e.lift(*facts[:2], K).low > 1
    # the same users, uniformly: not decided
    uniform = shown(liked, places, [rng.permutation(ITEMS)[:E] for _ in range(n)])
    same = e.compare(uniform[0], uniform[1], "ure_micro", f"recall@{K}")
    assert same.standard_error > 2.5 * found.standard_error
