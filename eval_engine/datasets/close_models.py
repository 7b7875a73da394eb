"""Users whose likes of every item are known, and models of which the first two are close: what exposures are drawn from
in simulations that judge a way to expose (studies/design.py, benchmarks/design.py).

    likes       rating 5 of the synthetic world (world.py)
    models 0, 1 0.5 quality + 0.6 rating + noise that they share + noise of their own, of standard deviation `apart`;
                model 0 has 0.06 rating more, and is the better one
    models 2 .. others, of which some know little but quality

Everything of a user is a function of (world, user).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.datasets.world import World, items_of, ratings

CLOSE = (0, 1)  # numbers of the two models
LIFT, SHARED = 0.06, 1.0
STREAM = 77  # of the models' noise


class CloseModels(NamedTuple):
    """Every user of a world, and what the models make of them."""

    liked: npt.NDArray[np.bool_]  # (users, items)
    ranks: npt.NDArray[
        np.signedinteger[Any]
    ]  # (n_ranked, users, items): the place of every item under the first, from 0
    lists: npt.NDArray[np.int32]  # (models, users, length): the first items of each list


def close_models(world: World, n_models: int, length: int, apart: float, n_ranked: int = len(CLOSE)) -> CloseModels:
    """Every user of the world, with the top lists of all models, and all items' places under the first n_ranked."""
    liked = np.empty((world.users, world.items), np.bool_)
    ranks = np.empty((n_ranked, world.users, world.items), np.int16 if world.items < 2**15 else np.int32)
    lists = np.empty((n_models, world.users, length), np.int32)
    quality = items_of(world).quality.astype(np.float64)
    for user in range(world.users):
        rating = ratings(world, user)
        rng = np.random.default_rng((STREAM, user))
        liked[user] = rating == 5
        shared = 0.5 * quality + 0.6 * rating + rng.normal(0, SHARED, world.items)
        for model in range(n_models):
            noise = rng.normal(0, 1, world.items)
            order = np.argsort(-_scores(model, shared, rating, quality, noise, apart))
            lists[model, user] = order[:length]
            if model < n_ranked:
                ranks[model, user, order] = np.arange(world.items)
    return CloseModels(liked, ranks, lists)


def _scores(
    model: int,
    shared: npt.NDArray[np.float64],
    rating: npt.NDArray[np.float64],
    quality: npt.NDArray[np.float64],
    noise: npt.NDArray[np.float64],
    apart: float,
) -> npt.NDArray[np.float64]:
    """A user's scores of all items; the noise is standard normal."""
    found: npt.NDArray[np.float64]
    if model in CLOSE:
        found = shared + (LIFT * rating if model == CLOSE[0] else 0.0) + apart * noise
    elif model % 2 == 0:
        found = 0.8 * quality + 0.3 * rating + noise
    else:
        found = quality + (0.3 + 0.1 * (model - 3)) * noise
    return found
