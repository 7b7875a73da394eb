"""The planned standard errors against those of simulated experiments, and the numbers of users that follow."""

import numpy as np
import pytest

import eval_engine as e
from eval_engine.errors import ConfigError, DataError
from eval_engine.estimators.in_memory import evaluate

POPULATION, ITEMS, K, N, DRAWS = 600, 100, 5, 200, 300


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(11)
    taste = rng.normal(size=(POPULATION, ITEMS))
    shared = taste + rng.normal(size=taste.shape)
    scores = np.stack([shared + 0.4 * rng.normal(size=taste.shape) for _ in range(2)] + [rng.normal(size=taste.shape)])
    return scores, taste + rng.normal(size=taste.shape) > 2, np.argsort(-scores, axis=2)[:, :, :10]


def uniform(world, users, rng, n_exposed=8):
    scores, liked, _ = world
    items = rng.random((users.size, ITEMS)).argsort(axis=1)[:, :n_exposed]
    values = np.take_along_axis(liked[users], items, axis=1).astype(float)
    return [e.rank_facts(own[users], items, values) for own in scores], items


def by_design(world, users, models, n_uniform, aim):
    scores, liked, lists = world
    plan = e.design_exposures(lists[models][:, users], ITEMS, 8, n_uniform, 5, cutoffs=(K,), aim=aim)
    items = [row.tolist() for row in plan.items]
    values = [liked[u, row].astype(float) for u, row in zip(users, items, strict=True)]
    chance, arm = np.concatenate(plan.probabilities), np.concatenate(plan.in_uniform)
    return [e.rank_facts(own[users], items, values)._replace(probability=chance, in_uniform=arm) for own in scores[:2]]


def spread(facts, arm, metric):
    """The standard deviation of the difference of the first two models over draws of N users."""
    kind = f"{arm}_micro" if metric.startswith("recall") else f"{arm}_mean"
    values = []
    for own in facts[:2]:
        terms = evaluate(own, kind, metric).terms
        a, b = (x.reshape(DRAWS, N).sum(axis=1) for x in terms)
        values.append(a / b)
    return (values[0] - values[1]).std(ddof=1)


@pytest.mark.parametrize("metric", [f"precision@{K}", f"recall@{K}"])
def test_planned_errors_are_those_of_simulated_experiments(world, metric):
    rng = np.random.default_rng(2)
    pilot_users = rng.integers(0, POPULATION, 20_000)
    facts, items = uniform(world, pilot_users, rng)
    rows = e.power(facts, list(items), world[2][:, pilot_users], ITEMS, metric, 0.05, (8,), 0.5)
    rows = {row.design: row for row in rows if (row.first, row.second) == (0, 1)}
    users = rng.integers(0, POPULATION, DRAWS * N)
    simulated = {
        "uniform": spread(uniform(world, users, rng)[0], "ure", metric),
        "two arms": spread(by_design(world, users, [0, 1, 2], 4, "models"), "designed", metric),
        "pair": spread(by_design(world, users, [0, 1], 2, "differences"), "designed", metric),
    }
    for design, deviation in simulated.items():
        assert rows[design].standard_error * np.sqrt(20_000 / N) == pytest.approx(deviation, rel=0.1), design
    assert rows["uniform"].users > 2 * rows["two arms"].users > 2 * rows["pair"].users
    for row in rows.values():
        assert row.low < row.users < row.high
        assert row.gain == pytest.approx(rows["uniform"].users / row.users)
        # with the users needed, the difference is 2.8 standard errors
        error = row.standard_error * np.sqrt(20_000 / row.users)
        assert row.difference / error == pytest.approx(1.959964 + 0.841621, rel=1e-4)
        assert row.difference == pytest.approx(0.05 * row.value)


def test_a_small_pilot_is_less_certain(world):
    rng = np.random.default_rng(4)
    widths = []
    for n in (1000, 16_000):
        users = rng.integers(0, POPULATION, n)
        facts, items = uniform(world, users, rng)
        row = e.power(facts, list(items), world[2][:, users], ITEMS, f"precision@{K}", exposures=(8,))[0]
        widths.append(np.log(row.high / row.low))
    assert 2.5 < widths[0] / widths[1] < 6


def test_a_pilot_that_says_nothing_gives_no_number(world):
    users = np.arange(5)
    facts, items = uniform(world, users, np.random.default_rng(0), 3)
    liked = np.zeros(15, bool)
    liked[0] = True
    rows = e.power(facts, list(items), world[2][:, users], ITEMS, f"recall@{K}", positive=liked)
    assert all(np.isnan([row.users, row.low, row.high, row.gain]).all() for row in rows)
    with pytest.raises(DataError, match="none of the pilot's exposures is a positive"):
        e.power(facts, list(items), world[2][:, users], ITEMS, f"recall@{K}", positive=~np.ones(15, bool))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"metric": "ndcg@5"}, "planned for recall@K"),
        ({"detect": 0.0}, "above 0 and below 1"),
        ({"chance": 0.4}, "chance above 0.5"),
        ({"uniform": 0.0}, "share of arm U"),
        ({"exposures": (200,)}, "only 100 items"),
        ({"metric": "recall@20"}, "beyond the end of the top lists"),
    ],
)
def test_what_cannot_be_planned_is_an_error(world, changed, words):
    users = np.arange(30)
    facts, items = uniform(world, users, np.random.default_rng(0))
    given = {"metric": f"recall@{K}", "detect": 0.05, "exposures": (8,), "uniform": 0.5} | changed
    with pytest.raises(ConfigError, match=words):
        e.power(facts, list(items), world[2][:, users], ITEMS, **given)


def test_one_model_has_nobody_to_be_told_from(world):
    facts, items = uniform(world, np.arange(9), np.random.default_rng(0))
    with pytest.raises(ConfigError, match="1 model"):
        e.power(facts[:1], list(items), world[2][:1, :9], ITEMS, f"recall@{K}")
