"""In a synthetic world with known truth, trained models beat popularity, and a debiased model beats its base.

benchmarks/models_truth.py has the whole table.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import torch
from rich.progress import Progress

from eval_engine.datasets.world import World, item_ids, logged, ratings, user_ids
from eval_engine.positive import Positive
from models.interactions import Interactions
from models.learning import Ground, learn
from models.spec.train import MODEL

K = 10
WORLD = World(users=2000, items=800, exposures=10, seed=11)
MODELS = [
    {"model": "popularity"},
    {"model": "mf", "sampler": {"per_positive": 2}, "stop_on": "loss", "patience": 3},
    {"model": "mf_ips", "weight_decay": 0.07, "stop_on": "loss", "patience": 3},
]


@pytest.fixture(scope="module")
def recall() -> dict[str, npt.NDArray[np.float64]]:
    """True recall@K of each user with an unseen positive, by model."""
    torch.set_num_threads(1)
    pairs = [logged(WORLD, user) for user in range(WORLD.users)]
    users = np.repeat(np.arange(WORLD.users), [len(p.positions) for p in pairs])
    items = np.concatenate([p.positions for p in pairs])
    values = np.concatenate([p.values for p in pairs])
    data = Interactions(
        pa.array(user_ids(np.arange(WORLD.users))), pa.array(item_ids(np.arange(WORLD.items))), users, items, values
    )
    seen = np.zeros((WORLD.users, WORLD.items), bool)
    seen[users, items] = True
    wanted = np.array([ratings(WORLD, user) > 3 for user in range(WORLD.users)]) & ~seen
    some, recalls = wanted.any(axis=1), {}
    for entry in MODELS:
        model = MODEL.validate_python(entry)
        scorer = learn(model, Ground(data, Positive(">", 3.0), 1, torch.device("cpu"), Progress(disable=True))).scorer
        scores = np.where(seen, -np.inf, scorer.score_block(np.arange(WORLD.users)))
        top = np.argsort(-scores, axis=1, kind="stable")[:, :K]
        recalls[model.name] = (np.take_along_axis(wanted, top, axis=1).sum(axis=1) / np.maximum(wanted.sum(axis=1), 1))[
            some
        ]
    return recalls


@pytest.mark.parametrize(("better", "worse"), [("mf", "popularity"), ("mf_ips", "mf")], ids=lambda name: name)
def test_is_truly_better(recall: dict[str, npt.NDArray[np.float64]], better: str, worse: str) -> None:
    difference = recall[better] - recall[worse]
    assert difference.mean() > 3 * difference.std() / np.sqrt(len(difference))
