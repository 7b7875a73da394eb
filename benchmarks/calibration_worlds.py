"""Two kinds of worlds that the estimators were not tuned on, for benchmarks/calibration_grid.py: other tastes and other
popularity than eval_engine/datasets/world.py, whose counts of positives and noise the estimators were made with.

    communities   a user belongs to one of 12 communities, each of which likes a tenth of the catalogue three to six
                  times as much; popularity is Zipf's; how much a user likes at all is gamma distributed: many users
                  have no positive or one
    heavy_tails   likes are logistic in a product of tastes whose users and items have heavy tails (Student, 3 degrees
    of
                  freedom); popularity is log-normal; an eighth of the users likes nearly everything they meet

`rare` positives are some 1.5 % of the pairs, `common` ones some 15 %. A model sees the user's inclination through
noise, and leans towards what is popular. A log shows popular items far more often, whatever their label.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
KINDS = ("communities", "heavy_tails")
SHARES = {"rare": 0.015, "common": 0.15}  # of the pairs that are positives
ITEMS, POPULATION = 200, 20_000


class Population(NamedTuple):
    """Everything that is true of some users, and what a model ranks."""

    liked: npt.NDArray[np.bool_]  # (users, items)
    place: npt.NDArray[np.int32]  # (users, items): rank of the item, from 0
    popularity: Doubles  # (items,): relative chance to be logged


def population(kind: str, positives: str, users: int = POPULATION, items: int = ITEMS) -> Population:
    """A population of users, always the same for a kind and a share of positives."""
    rng = np.random.default_rng((2, KINDS.index(kind), sorted(SHARES).index(positives)))
    inclined, popularity = (_communities if kind == "communities" else _heavy_tails)(rng, users, items)
    level = _level(inclined, SHARES[positives])
    liked = rng.random((users, items)) < _chance(inclined + level)
    seen = inclined + 1.5 * rng.standard_normal((users, items)) + 0.3 * np.log(popularity)
    place = np.empty((users, items), np.int32)
    np.put_along_axis(place, np.argsort(-seen, axis=1, kind="stable"), np.arange(items, dtype=np.int32)[None], axis=1)
    return Population(liked, place, popularity / popularity.max())


def _communities(rng: np.random.Generator, users: int, items: int) -> tuple[Doubles, Doubles]:
    """The log odds of each pair without their level, and the popularity of each item."""
    popularity = rng.permutation(1 / np.arange(1, items + 1) ** 0.8)
    favourite = rng.random((12, items)) < 0.1
    love = np.log(rng.uniform(3, 6, (12, items)))
    own = rng.integers(0, 12, users)
    generosity = np.log(rng.gamma(0.9, 1.0, users) + 0.02)
    return generosity[:, None] + (favourite * love)[own] + 0.25 * np.log(popularity), popularity


def _heavy_tails(rng: np.random.Generator, users: int, items: int) -> tuple[Doubles, Doubles]:
    """The same."""
    popularity = np.exp(1.2 * rng.standard_normal(items))
    tastes = rng.standard_t(3, (users, 3)) @ rng.standard_t(3, (3, items)) / 3
    easy = np.where(rng.random(users) < 0.125, 2.0, 0.0)
    return np.clip(tastes, -6, 6) + easy[:, None] + 0.5 * rng.standard_normal(items), popularity


def _chance(odds: Doubles) -> Doubles:
    chance: Doubles = 1 / (1 + np.exp(-odds))
    return chance


def _level(inclined: Doubles, share: float) -> float:
    """What is added to the log odds so that this share of the pairs are positives."""
    some = inclined[:2000]
    low, high = -30.0, 30.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _chance(some + middle).mean() < share else (low, middle)
    return (low + high) / 2
