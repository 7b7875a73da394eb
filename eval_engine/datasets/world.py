"""A synthetic platform whose complete truth is known: items, users, their preferences, the items shown to them, and
their answers.

    utility(u, i)   = generosity_u + quality_i + taste_u . taste_i + noise_ui
                      cut into ratings 1..5
    log_popularity  = ties quality_i + hype_i            quality has a long tail of junk, hype a long tail of hits
    predicted(u, i) = believed_u . taste_i + log_popularity_i
                      believed_u: accuracy = its correlation with taste_u
    shown to u      = top `shown` items by popularity_pull log_popularity_i + prediction_pull predicted(u, i)
                      + Gumbel_ui
    logged          = shown, and answered with probability answer_best answer_decay^(5 - rating)
    exposed         = `exposures` items drawn uniformly without replacement from the frame, always answered

So logged feedback is missing not at random. Popularity separates junk from the rest, but the most popular items are
hype: click counts order the bulk of a catalogue well and the head badly, and a model that learns from ratings has no
data on junk that was never shown.

All data of a user is a function of (world, user), all data of an item a function of (world, item), and every purpose
has its own random stream: tables depend neither on partitioning nor on the number of users, and no parameter changes
the draws of another. Sums over dimensions are written out: the rounding of BLAS depends on block shapes, and a rating
must be the same wherever it is computed. Users are generated one at a time, so memory holds the items and a few vectors
of that length.
"""

from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from eval_engine.config import Strict

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

# One random stream each. A new purpose is appended at the end; elsewhere it would change every world.
(
    ITEM_TASTE,
    QUALITY,
    HYPE,
    FEATURES,
    CENTRES,
    DURATION,
    USER_TASTE,
    BELIEF,
    GENEROSITY,
    NOISE,
    SHOWN,
    ANSWERED,
    EXPOSED,
    TRUTH,
) = range(14)


class World(Strict):
    """Size, seed and knobs of a synthetic platform."""

    users: int = Field(ge=1, lt=2**48)
    items: int = Field(ge=2, lt=2**31)
    exposures: int = Field(ge=1, description="random exposures of each user")
    seed: int = Field(0, ge=0, lt=2**63)
    frame: Literal["unseen", "all_items"] = Field(
        "unseen", description="what random exposures are drawn from: items without logged feedback of the user, or all"
    )
    truth_share: float = Field(1.0, ge=0, le=1, description="share of users whose complete truth is kept")
    dims: int = Field(4, ge=1, description="dimensions of taste")
    features: int = Field(
        3, ge=0, description="numeric columns of the catalogue, each a noisy look at one dimension of taste"
    )
    categories: int = Field(12, ge=1, description="categories of items, by taste")
    liked_share: float = Field(0.15, gt=0, lt=0.5, description="share of all pairs with a value above 3, roughly")
    taste: float = Field(1.1, ge=0, description="standard deviation of the match of tastes")
    quality: float = Field(1.8, ge=0, description="standard deviation of an item's quality")
    generosity: float = Field(0.7, ge=0, description="standard deviation of how easily a user is pleased")
    noise: float = Field(0.8, ge=0, description="standard deviation of what no model can know")
    ties: float = Field(1.8, description="how strongly popularity follows quality; the rest of it is hype")
    shown: int = Field(170, ge=1, description="items the deployed system showed to each user")
    popularity_pull: float = Field(2.2, ge=0, description="how strongly it shows what is popular")
    prediction_pull: float = Field(1.8, ge=0, description="how strongly it shows what it predicts to be liked")
    accuracy: float = Field(0.1, ge=0, le=1, description="correlation of the taste it believes in with the user's own")
    answer_best: float = Field(0.5, gt=0, le=1, description="chance that a user answers an item worth a 5")
    answer_decay: float = Field(
        0.8, gt=0, le=1, description="factor on that chance for each point less; 1: liking does not matter"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        needed = max(self.shown, self.exposures, self.shown + self.exposures if self.frame == "unseen" else 0)
        if needed > self.items:
            raise ValueError(
                f"items: {self.items} are too few for shown: {self.shown} and exposures: {self.exposures} with frame: "
                f"{self.frame}, "
                f"which may need {needed}. Raise items or lower the others"
            )
        return self


class Items(NamedTuple):
    """All items in catalogue order."""

    # (dims, n_items), scaled so that its product with a standard normal taste has the world's standard deviation
    taste: Floats
    quality: Floats  # (n_items,)
    log_popularity: Floats  # (n_items,)
    category: npt.NDArray[np.int32]  # (n_items,)
    duration_seconds: Doubles  # (n_items,)
    features: Doubles  # (features, n_items)


class Pairs(NamedTuple):
    """Some items of one user, by ascending position, and the user's ratings of them."""

    positions: Ints
    values: Doubles
    propensities: Doubles | None = None  # chance of each pair to be held out, if it is not trained on


def item_ids(positions: Ints) -> Ints:
    """Ids of items; they differ from positions, so that confusing the two fails visibly."""
    return 10_000 + 7 * positions


def user_ids(users: Ints) -> Ints:
    """Ids of users, from their numbers 0..n-1: too large for 32 bits, and disjoint from item ids in any world that fits
    on a disk.
    """
    return 5_000_000_000 + 3 * users


def stream(world: World, purpose: int, user: int = 0) -> np.random.Generator:
    """The random numbers of one purpose and user: a Philox generator has a separate sequence for every key."""
    return np.random.Generator(np.random.Philox(key=world.seed | purpose << 64 | user << 72))


@lru_cache(maxsize=2)
def items_of(world: World) -> Items:
    """The items, generated once per process."""
    n = world.items
    taste = np.ascontiguousarray(stream(world, ITEM_TASTE).standard_normal((n, world.dims), dtype=np.float32).T)
    quality = 1 - stream(world, QUALITY).standard_exponential(n, dtype=np.float32)
    log_popularity = (
        np.float32(world.ties) * quality + stream(world, HYPE).standard_exponential(n, dtype=np.float32) - 1
    )
    seen = taste[np.arange(world.features) % world.dims]
    return Items(
        taste=taste * np.float32(world.taste / sqrt(world.dims)),
        quality=quality * np.float32(world.quality),
        log_popularity=log_popularity,
        category=_nearest(
            stream(world, CENTRES).standard_normal((world.categories, world.dims), dtype=np.float32), taste
        ),
        duration_seconds=1
        + np.round(60 * np.exp(0.6 * stream(world, DURATION).standard_normal(n) - 0.4 * log_popularity), 1),
        features=seen + 0.5 * stream(world, FEATURES).standard_normal((n, world.features)).T,
    )


def _nearest(centres: Floats, points: Floats) -> npt.NDArray[np.int32]:
    """The number of the centre nearest to each point, shape (n_points,)."""
    nearest, least = np.zeros(points.shape[1], np.int32), np.full(points.shape[1], np.inf, np.float32)
    for number, centre in enumerate(centres):
        distance = ((points - centre[:, None]) ** 2).sum(axis=0)
        nearest[distance < least] = number
        least = np.minimum(least, distance)
    return nearest


def ratings(world: World, user: int) -> Doubles:
    """The user's true rating of every item, seen or not, shape (n_items,)."""
    items = items_of(world)
    utility = _match(_own_taste(world, user), items)
    utility += items.quality
    utility += np.float32(world.generosity) * stream(world, GENEROSITY, user).standard_normal(dtype=np.float32)
    utility += np.float32(world.noise) * stream(world, NOISE, user).standard_normal(world.items, dtype=np.float32)
    return (1 + np.searchsorted(_cuts(world), utility)).astype(np.float64)


def logged(world: World, user: int) -> Pairs:
    """The items that the deployed system showed and the user answered: missing not at random."""
    shown = _shown(world, user)
    values = ratings(world, user)[shown]
    # One draw per item of the catalogue: whether an item is answered does not depend on what else is shown.
    answered = stream(world, ANSWERED, user).random(world.items)[shown] < world.answer_best * world.answer_decay ** (
        5 - values
    )
    return Pairs(shown[answered], values[answered])


def logged_to_split(world: World, user: int, share: float) -> Pairs:
    """The same, with true propensities for a split that holds out each logged pair with chance `share`.

        p = P(shown) P(answered),   propensity = P(held out | not trained on) = share p / (1 - (1 - share) p)

    Held-out pairs are ranked among the items that are not trained on, so that is the condition.
    """
    pairs = logged(world, user)
    answered = world.answer_best * world.answer_decay ** (5 - pairs.values)
    p = shown_chance(world, user)[pairs.positions] * answered
    return pairs._replace(propensities=share * p / (1 - (1 - share) * p))


def shown_chance(world: World, user: int) -> Doubles:
    """The chance of every item to be shown to the user, shape (n_items,).

    The top n by log w_i + Gumbel_i are the first n of independent exponential waiting times of rates w_i. The time of
    the n-th varies little, so the chance is close to 1 - exp(-w_i t), with the t at which the chances add up to n
    [Rosen 1997]; against draws it is right to 1 % at n = 100.
    """
    if world.shown == world.items:
        return np.ones(world.items)
    pull = _pull(world, user).astype(np.float64)
    rates = np.exp(pull - pull.max())
    low, high = -50.0, 750.0  # of log t
    for _ in range(60):
        middle = (low + high) / 2
        too_many = -np.expm1(-rates * np.exp(middle)).sum() > world.shown
        low, high = (low, middle) if too_many else (middle, high)
    chance: Doubles = -np.expm1(-rates * np.exp(high))
    return chance


def exposed(world: World, user: int) -> Pairs:
    """The items shown to the user at random: the first items of a random order that are in the frame."""
    order = stream(world, EXPOSED, user).permutation(world.items)
    if world.frame == "unseen":
        seen = np.zeros(world.items, dtype=bool)
        seen[logged(world, user).positions] = True
        order = order[~seen[order]]
    positions = np.sort(order[: world.exposures])
    return Pairs(positions, ratings(world, user)[positions])


def kept_truth(world: World, user: int) -> Pairs:
    """The rating of every item if this user's truth is kept, else nothing."""
    kept = stream(world, TRUTH, user).random() < world.truth_share
    positions = np.arange(world.items if kept else 0)
    return Pairs(positions, ratings(world, user) if kept else np.empty(0))


def _shown(world: World, user: int) -> Ints:
    """Positions shown by the deployed system, ascending, shape (shown,)."""
    pull = _pull(world, user)
    waiting = stream(world, SHOWN, user).standard_exponential(world.items, dtype=np.float32)
    pull -= np.log(
        np.maximum(waiting, np.finfo(np.float32).tiny)
    )  # + Gumbel, so the top is a draw without replacement; float32 draws can be 0
    return np.sort(np.argpartition(-pull, world.shown - 1)[: world.shown])


def _pull(world: World, user: int) -> Floats:
    """How strongly the deployed system shows each item to the user, on a log scale, shape (n_items,)."""
    items, own = items_of(world), _own_taste(world, user)
    error = stream(world, BELIEF, user).standard_normal(world.dims, dtype=np.float32)
    predicted = (
        _match(np.float32(world.accuracy) * own + np.float32(sqrt(1 - world.accuracy**2)) * error, items)
        + items.log_popularity
    )
    pull: Floats = (
        np.float32(world.popularity_pull) * items.log_popularity + np.float32(world.prediction_pull) * predicted
    )
    return pull


def _own_taste(world: World, user: int) -> Floats:
    return stream(world, USER_TASTE, user).standard_normal(world.dims, dtype=np.float32)


def _match(taste: Floats, items: Items) -> Floats:
    """taste . taste_i of every item, added up dimension by dimension, shape (n_items,)."""
    total = taste[0] * items.taste[0]
    for own, of_items in zip(taste[1:], items.taste[1:], strict=True):
        total += own * of_items
    return total


@lru_cache(maxsize=2)
def _cuts(world: World) -> Floats:
    """The utilities above which the rating is 2, 3, 4, 5, as if utility were normal."""
    spread = NormalDist(0, max(1e-6, sqrt(world.taste**2 + world.quality**2 + world.generosity**2 + world.noise**2)))
    liked = world.liked_share
    above = (liked + 0.65 * (1 - liked), liked + 0.3 * (1 - liked), liked, 0.3 * liked)
    return np.array([spread.inv_cdf(1 - share) for share in above], dtype=np.float32)
