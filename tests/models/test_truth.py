"""On a world whose truth is known, learning from what was shown, weighted by propensity, beats taking what was not shown for a dislike."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from rich.progress import Progress

from eval_engine.datasets.world import World, item_ids, logged, ratings, user_ids
from eval_engine.positive import Positive
from models.interactions import Interactions
from models.spec import MF, IpsBce, Model, Observed, UniformNegatives
from models.train import train

K = 10
WORLD = World(users=2000, items=800, exposures=10, seed=11)
BIASED = MF(name="mf", sampler=UniformNegatives(per_positive=2))
DEBIASED = MF(name="mf_ips", weight_decay=7e-5, loss=IpsBce(), sampler=Observed())


def true_recall(model: Model, data: Interactions, liked: npt.NDArray[np.bool_], seen: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Recall@K of each user who likes something unseen, candidates the unseen items."""
    scorer = train(model, data, Positive(">", 3.0), 1, torch.device("cpu"), Progress(disable=True))
    scores = np.where(seen, -np.inf, scorer.score_block(np.arange(data.n_users)))
    top = np.argsort(-scores, axis=1, kind="stable")[:, :K]
    wanted = liked & ~seen
    some = wanted.any(axis=1)
    return (np.take_along_axis(wanted, top, axis=1).sum(axis=1) / np.maximum(wanted.sum(axis=1), 1))[some]


def test_debiased_is_truly_better_than_biased() -> None:
    pairs = [logged(WORLD, user) for user in range(WORLD.users)]
    users = np.repeat(np.arange(WORLD.users), [len(p.positions) for p in pairs])
    items = np.concatenate([p.positions for p in pairs])
    data = Interactions(
        pa.array(user_ids(np.arange(WORLD.users))),
        pa.array(item_ids(np.arange(WORLD.items))),
        users,
        items,
        np.concatenate([p.values for p in pairs]),
    )
    liked = np.array([ratings(WORLD, user) > 3 for user in range(WORLD.users)])
    seen = np.zeros_like(liked)
    seen[users, items] = True
    biased, debiased = (true_recall(model, data, liked, seen) for model in (BIASED, DEBIASED))
    difference = debiased - biased
    assert difference.mean() > 3 * difference.std() / np.sqrt(len(difference))
    assert biased.mean() > 3 * K / WORLD.items  # and the biased one is no straw man
